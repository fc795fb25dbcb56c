package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// Literals of the contract, not the constants under test.
const (
	importLabel     = "cluster-api.cattle.io/rancher-auto-import"
	ownerLabel      = "cluster-api.cattle.io/capi-cluster-owner"
	ownerNSLabel    = "cluster-api.cattle.io/capi-cluster-owner-ns"
	ownedLabel      = "cluster-api.cattle.io/owned"
	uidLabel        = "archelon.io/capi-cluster-uid"
	finalizer       = "archelon.io/rancher-import"
	recordKey       = "archelon.io/rancher-cluster"
	forceDeployKey  = "io.cattle.agent.force.deploy"
	importedKey     = "imported"
	condition       = "RancherImported"
	agentNamespace  = "cattle-system"
	agentDeployment = "cattle-cluster-agent"
	archelonUser    = "system:serviceaccount:archelon-system:archelon"
)

// fixture is a stage with one workload cluster, and what specs do with it.
type fixture struct {
	*stage.Stage
	workload       *env.ControlPlane
	workloadClient client.Client
	manager        *stage.Manager
	tenants        tenants
}

func newFixture(ctx context.Context, opts stage.Options) *fixture {
	GinkgoHelper()
	s := startStage(ctx, opts)
	return fixtureOn(ctx, s, env.Options{Name: opts.Name + "-workload", Audit: true})
}

// fixtureOn adds a workload cluster to a stage.
func fixtureOn(ctx context.Context, s *stage.Stage, opts env.Options) *fixture {
	GinkgoHelper()
	workload, err := s.Workload(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		// An API server does not stop while somebody watches it.
		s.Rancher.RemoveWorkload(opts.Name)
		Expect(workload.Stop()).To(Succeed())
	})
	return &fixture{Stage: s, workload: workload, workloadClient: adminClient(workload)}
}

func adminClient(plane *env.ControlPlane) client.Client {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// startManager runs the manager until the node ends, and until it is ready.
func (f *fixture) startManager(ctx context.Context, args ...string) {
	GinkgoHelper()
	var err error
	f.manager, err = f.StartManager(ctx, manager, GinkgoWriter, append([]string{"-v=1", "--leader-elect", "--leader-elect-namespace=" + stage.SystemNamespace}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	m := f.manager
	DeferCleanup(func() {
		Expect(m.Stop()).To(Succeed())
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
	})
	Eventually(m.Ready).WithContext(ctx).Should(Succeed())
}

// cluster creates CAPI cluster prod, whose control plane is up and which reaches the fixture's workload cluster.
func (f *fixture) cluster(ctx context.Context, namespace string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	kubeconfig, err := f.workload.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	return f.clusterWith(ctx, namespace, "prod", kubeconfig, change...)
}

// status changes the status of a CAPI cluster as CAPI would, whoever else changes the object meanwhile.
func (f *fixture) status(ctx context.Context, cluster *clusterv1.Cluster, change func(*clusterv1.Cluster)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		change(cluster)
		return f.Client.Status().Update(ctx, cluster)
	})).To(Succeed())
}

// current reads an object anew.
func current[T client.Object](ctx context.Context, f *fixture, object T) T {
	GinkgoHelper()
	Expect(f.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// reason returns status and reason of the import's condition, as "True/Imported".
func (f *fixture) reason(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return func() string {
		found := &clusterv1.Cluster{}
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(cluster), found); err != nil {
			return err.Error()
		}
		return reasonOf(found)
	}
}

// patch changes metadata of an object without a lock.
func (f *fixture) patch(ctx context.Context, object client.Object, change func(client.Object)) {
	GinkgoHelper()
	before, _ := object.DeepCopyObject().(client.Object)
	change(object)
	Expect(f.Client.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
}

// choose sets the import label of a CAPI cluster or of a namespace.
func (f *fixture) choose(ctx context.Context, object client.Object, value string) {
	GinkgoHelper()
	f.patch(ctx, object, func(o client.Object) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[importLabel] = value
		o.SetLabels(labels)
	})
}

// gone reports whether an object does not exist.
func (f *fixture) gone(ctx context.Context, object client.Object) func() bool {
	key := client.ObjectKeyFromObject(object)
	return func() bool { return apierrors.IsNotFound(f.Client.Get(ctx, key, object)) }
}

// v3Records returns the v3 Clusters that name the CAPI cluster and were not derived from a v1 Cluster.
func (f *fixture) v3Records(ctx context.Context, cluster *clusterv1.Cluster) []managementv3.Cluster {
	GinkgoHelper()
	list := &managementv3.ClusterList{}
	Expect(f.Client.List(ctx, list, client.MatchingLabels{ownerLabel: cluster.Name, ownerNSLabel: cluster.Namespace})).To(Succeed())
	return slices.DeleteFunc(list.Items, func(c managementv3.Cluster) bool { return strings.HasPrefix(c.Name, "c-m-") })
}

// v1Records returns the v1 Clusters that name the CAPI cluster.
func (f *fixture) v1Records(ctx context.Context, cluster *clusterv1.Cluster) []provisioningv1.Cluster {
	GinkgoHelper()
	list := &provisioningv1.ClusterList{}
	Expect(f.Client.List(ctx, list, client.MatchingLabels{ownerLabel: cluster.Name, ownerNSLabel: cluster.Namespace})).To(Succeed())
	return list.Items
}

// agent returns the agent's Deployment in the workload cluster, or nil.
func (f *fixture) agent(ctx context.Context) *appsv1.Deployment {
	deployment := &appsv1.Deployment{}
	if err := f.workloadClient.Get(ctx, client.ObjectKey{Namespace: agentNamespace, Name: agentDeployment}, deployment); err != nil {
		return nil
	}
	return deployment
}

// expectNothingLeft waits until no Rancher cluster names the CAPI cluster and Rancher's clean-up in the workload cluster is done.
func (f *fixture) expectNothingLeft(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		g.Expect(f.v3Records(ctx, cluster)).To(BeEmpty())
		g.Expect(f.v1Records(ctx, cluster)).To(BeEmpty())
		err := f.workloadClient.Get(ctx, client.ObjectKey{Name: agentNamespace}, &corev1.Namespace{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "namespace %s in the workload cluster", agentNamespace)
	}).Should(Succeed())
}

// events returns the reasons of the Events about a CAPI cluster.
func (f *fixture) events(ctx context.Context, cluster *clusterv1.Cluster) []string {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(f.Client.List(ctx, list, client.InNamespace(cluster.Namespace))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		if event.InvolvedObject.UID == cluster.UID {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}

// requests returns the audited requests of the manager to the management cluster.
func (f *fixture) requests() []auditv1.Event {
	GinkgoHelper()
	events, err := f.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != archelonUser })
}

func unstructuredContent(object runtime.Object) map[string]any {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// reasonOf returns status and reason of the import's condition, as "True/Imported", "none" without one.
func reasonOf(cluster *clusterv1.Cluster) string {
	c := conditions.Get(cluster, condition)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s/%s", c.Status, c.Reason)
}

// notes returns the messages of the Events about a CAPI cluster.
func (f *fixture) notes(ctx context.Context, cluster *clusterv1.Cluster) []string {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(f.Client.List(ctx, list, client.InNamespace(cluster.Namespace))).To(Succeed())
	var messages []string
	for _, event := range list.Items {
		if event.InvolvedObject.UID == cluster.UID {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// requestsFor returns the audited requests of the manager to the namespace of a CAPI cluster.
func (f *fixture) requestsFor(cluster *clusterv1.Cluster) []auditv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(perObject(f.requests()), func(e auditv1.Event) bool { return e.ObjectRef.Namespace != cluster.Namespace })
}

// selected has a CAPI cluster imported.
func selected(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} }
