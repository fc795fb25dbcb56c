package import_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/test/bench/workloadserver"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// lane is a real workload cluster. It has one agent, so it is one import's at a time.
type lane struct {
	name   string
	plane  *env.ControlPlane
	client client.Client
}

// lane starts another workload cluster beside the one of the fixture.
func (f *fixture) lane(ctx context.Context, name string, audit bool) lane {
	GinkgoHelper()
	plane, err := f.Workload(ctx, env.Options{Name: name, Audit: audit})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		f.Rancher.RemoveWorkload(name)
		Expect(plane.Stop()).To(Succeed())
	})
	return lane{name: name, plane: plane, client: adminClient(plane)}
}

// left says what Rancher or its agent has in the workload cluster.
func (l lane) left(ctx context.Context) []string {
	GinkgoHelper()
	var left []string
	namespaces := &corev1.NamespaceList{}
	Expect(l.client.List(ctx, namespaces)).To(Succeed())
	for i := range namespaces.Items {
		if strings.HasPrefix(namespaces.Items[i].Name, "cattle-") {
			left = append(left, "namespace "+namespaces.Items[i].Name+" in the workload cluster")
		}
	}
	jobs := &batchv1.JobList{}
	Expect(l.client.List(ctx, jobs)).To(Succeed())
	for i := range jobs.Items {
		left = append(left, "Job "+jobs.Items[i].Name+" in the workload cluster")
	}
	return left
}

// clusterWith creates a CAPI cluster with a given kubeconfig, whose control plane is up.
func (f *fixture) clusterWith(ctx context.Context, namespace, name string, kubeconfig []byte, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, name, kubeconfig))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	for _, c := range change {
		c(cluster)
	}
	Expect(f.Client.Create(ctx, cluster)).To(Succeed())
	f.status(ctx, cluster, builder.ControlPlaneUp)
	return cluster
}

// clusterIn creates a CAPI cluster that reaches the workload cluster of the lane.
func (f *fixture) clusterIn(ctx context.Context, l lane, namespace, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	kubeconfig, err := l.plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	return f.clusterWith(ctx, namespace, name, kubeconfig, change...)
}

// run starts a manager that may be killed, and waits until it is ready. There is no election: the Lease of a killed leader
// would hold up its successor, and how that ends is another scenario.
func (f *fixture) run(ctx context.Context, args ...string) {
	GinkgoHelper()
	m, err := f.StartManager(ctx, manager, GinkgoWriter, append([]string{"-v=1"}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	f.manager = m
	DeferCleanup(func() {
		select {
		case <-m.Done(): // It was killed, or a spec has stopped it.
		default:
			Expect(m.Stop()).To(Succeed())
		}
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
		Expect(m.Logs()).NotTo(ContainSubstring("panic"))
	})
	Eventually(m.Ready).WithContext(ctx).Should(Succeed())
}

// world is what the management cluster holds at one moment.
type world struct {
	clusters   []clusterv1.Cluster
	v1         []provisioningv1.Cluster
	v3         []managementv3.Cluster
	namespaces []string // of Rancher's clusters
}

func (f *fixture) look(ctx context.Context) world {
	GinkgoHelper()
	clusters, v1, v3, namespaces := &clusterv1.ClusterList{}, &provisioningv1.ClusterList{}, &managementv3.ClusterList{}, &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{clusters, v1, v3, namespaces} {
		Expect(f.Client.List(ctx, list)).To(Succeed())
	}
	w := world{clusters: clusters.Items, v1: v1.Items, v3: v3.Items}
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; strings.HasPrefix(name, "c-") {
			w.namespaces = append(w.namespaces, name)
		}
	}
	return w
}

// cluster returns the CAPI cluster as it is now, nil if it or a namesake with another UID does not exist.
func (w world) cluster(of *clusterv1.Cluster) *clusterv1.Cluster {
	for i := range w.clusters {
		if w.clusters[i].UID == of.UID {
			return &w.clusters[i]
		}
	}
	return nil
}

// records returns the Rancher clusters of a kind that were made for the CAPI cluster, by its UID. What Rancher derived
// from them is left out.
func (w world) records(strategy string, of *clusterv1.Cluster) []client.Object {
	var records []client.Object
	add := func(kind string, object client.Object) {
		_, owned := object.GetLabels()[ownedLabel]
		if kind == strategy && owned && object.GetLabels()[uidLabel] == string(of.UID) && !strings.HasPrefix(object.GetName(), "c-m-") {
			records = append(records, object)
		}
	}
	for i := range w.v1 {
		add("v1", &w.v1[i])
	}
	for i := range w.v3 {
		add("v3", &w.v3[i])
	}
	return records
}

// rancher says what is left of Rancher's clusters, whomever they are for. Namespace c-... hold their tokens.
func (w world) rancher() []string {
	var left []string
	for i := range w.v1 {
		left = append(left, describeRecord("v1", &w.v1[i]))
	}
	for i := range w.v3 {
		left = append(left, describeRecord("v3", &w.v3[i]))
	}
	for _, namespace := range w.namespaces {
		left = append(left, "namespace "+namespace)
	}
	return left
}

func describeRecord(strategy string, object client.Object) string {
	return fmt.Sprintf("%s %s of %q, deleted %t, finalizers %v", strategy, client.ObjectKeyFromObject(object),
		object.GetLabels()[ownerLabel], !object.GetDeletionTimestamp().IsZero(), object.GetFinalizers())
}

// nothingOfRancher is empty when Rancher has no cluster, no namespace of one and no credentials of one.
func (f *fixture) nothingOfRancher(ctx context.Context) func() []string {
	return func() []string {
		left := f.look(ctx).rancher()
		secrets := &corev1.SecretList{}
		Expect(f.Client.List(ctx, secrets, client.InNamespace("cattle-global-data"))).To(Succeed())
		for i := range secrets.Items {
			left = append(left, "Secret cattle-global-data/"+secrets.Items[i].Name)
		}
		return left
	}
}

// expectLawful asserts on the audit log: the roles of config/rbac grant what the manager asks for.
func expectLawful(f *fixture) {
	GinkgoHelper()
	requests := f.requests()
	Expect(requests).NotTo(BeEmpty())
	for _, request := range requests {
		Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s %s", request.Verb, request.RequestURI)
	}
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func setAnnotation(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// loud has the manager log all that it can, for expectNoSecrets. The others need no such log, which takes time.
const loud = "-v=10"

// expectNoSecrets asserts that no token and no key that exists in the management or the workload cluster shows in what the
// manager logged. Deleted clusters take their tokens along, so call it while some are left.
func expectNoSecrets(f *fixture) {
	GinkgoHelper()
	ctx := context.Background()
	secrets := &corev1.SecretList{}
	Expect(f.Client.List(ctx, secrets)).To(Succeed())
	logs := f.manager.Logs()
	for _, secret := range secrets.Items {
		for key, value := range secret.Data {
			if text := strings.TrimSpace(string(value)); len(text) >= 20 {
				Expect(logs).NotTo(ContainSubstring(text), "%s of Secret %s/%s", key, secret.Namespace, secret.Name)
			}
		}
	}
	Expect(logs).NotTo(MatchRegexp(`/v3/import/[bcdfghjklmnpqrstvwxz2-9]{54}_`), "a URL with a registration token")
}

// turtlesAtWork creates the Lease where Turtles has it.
func (f *fixture) turtlesAtWork(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	const theirs = "cattle-turtles-system"
	Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, namespaceOf(theirs)))).To(Succeed())
	return f.turtlesLease(ctx, theirs)
}

// turtlesLease creates the Lease of a Turtles that was alive a moment ago.
func (f *fixture) turtlesLease(ctx context.Context, namespace string) *coordinationv1.Lease {
	GinkgoHelper()
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "controller-leader-election-rancher-turtles"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("turtles-0"), LeaseDurationSeconds: new(int32(15)), RenewTime: &now},
	}
	Expect(f.Client.Create(ctx, lease)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(f.Client.Delete(ctx, lease))).To(Succeed()) })
	return lease
}

// turtlesV3Record creates a record of Rancher Turtles.
func (f *fixture) turtlesV3Record(ctx context.Context, cluster *clusterv1.Cluster) *managementv3.Cluster {
	GinkgoHelper()
	record := builder.TurtlesV3Record(cluster)
	Expect(f.Client.Create(ctx, record)).To(Succeed())
	return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: record.GetName()}}
}

// startStage sets a stage for the time of the node, on control planes that other containers have used.
func startStage(ctx context.Context, opts stage.Options) *stage.Stage {
	GinkgoHelper()
	opts.Kept = planes
	s, err := stage.Start(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	s.Values, s.Launch = furtherValues(), launch
	return s
}

// startLights serves light workload clusters for the time of the node. Agents in them are played.
func startLights(ctx context.Context) *workloadserver.Server {
	GinkgoHelper()
	servers, err := workloadserver.Start(context.WithoutCancel(ctx), func(workloadserver.Request) {})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(servers.Stop)
	return servers
}

// metricsText returns the metrics of the manager that was started last, as it would serve them.
func metricsText(ctx context.Context) string {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}
