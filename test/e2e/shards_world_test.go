package e2e

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// The namespaces of document 000.
const watch1, watch2, watch3 = "watch1", "watch2", "watch3"

// probe is the user agent of a spec that acts as an instance.
const probe = "probe"

// shards is what the specs about several instances share: one management cluster, and light workload clusters.
type shards struct {
	*fixture
	servers lights
}

func (s *shards) start(ctx context.Context) {
	GinkgoHelper()
	world := startStage(ctx, stage.Options{Name: "shards", Audit: true, Rancher: func(o *rancher.Options) {
		o.Logger = GinkgoLogr
		o.Timings.Cleanup = 100 * time.Millisecond
	}})
	s.fixture = without(world)
	s.servers = startLights(ctx, world)
	for _, name := range []string{watch1, watch2, watch3} {
		Expect(s.Client.Create(ctx, importing.NamespaceOf(name))).To(Succeed())
	}
}

// instance is a manager that runs as one of several.
type instance struct {
	*stage.Manager
	stage.Instance
	since  time.Time
	shards *shards
	killed bool
}

// kill ends the instance as a machine that fails does.
func (i *instance) kill() {
	i.killed = true
	i.Kill()
}

// central starts an instance with the rights of config/rbac.
func (s *shards) central(ctx context.Context, name string, args ...string) *instance {
	GinkgoHelper()
	i := stage.Instance{Name: name}
	Expect(s.Install(ctx, i)).To(Succeed())
	return s.launch(ctx, i, args...)
}

// isolated starts an instance that works, and has rights, in the given namespaces only.
func (s *shards) isolated(ctx context.Context, name string, namespaces []string, args ...string) *instance {
	GinkgoHelper()
	i := stage.Instance{Name: name, Isolated: true}
	Expect(s.Install(ctx, i)).To(Succeed())
	Expect(s.Grant(ctx, i, namespaces...)).To(Succeed())
	return s.launch(ctx, i, append(args, flags("namespace", namespaces...)...)...)
}

// launch starts an instance that is installed, and waits until it is ready. It is stopped when the node ends,
// if the spec has not done so.
func (s *shards) launch(ctx context.Context, as stage.Instance, args ...string) *instance {
	GinkgoHelper()
	i := &instance{Instance: as, since: time.Now(), shards: s}
	var err error
	i.Manager, err = s.StartInstance(ctx, as, manager, GinkgoWriter, append([]string{"-v=1", importing.QuickLoss}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		if !i.killed {
			Expect(i.Stop()).To(Succeed())
		}
		Expect(i.Logs()).NotTo(Or(ContainSubstring("DATA RACE"), ContainSubstring("panic")))
		s.unregister(ctx, as) // What it names would be its own in other specs.
	})
	Eventually(i.Ready).WithContext(ctx).Should(Succeed())
	return i
}

// flags returns a flag for each value.
func flags(name string, values ...string) []string {
	var args []string
	for _, value := range values {
		args = append(args, "--"+name+"="+value)
	}
	return args
}

// light creates a CAPI cluster with a light workload cluster. Clusters of several namespaces have the same name here,
// and Rancher shows them by different ones.
func (s *shards) light(ctx context.Context, namespace, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	id := workloadOf(namespace, name)
	kubeconfig, err := s.servers.Kubeconfig(id)
	Expect(err).NotTo(HaveOccurred())
	Expect(s.Rancher.AddWorkload(id, s.servers.Config(id))).To(Succeed())
	DeferCleanup(s.Rancher.RemoveWorkload, id)
	shown := func(c *clusterv1.Cluster) { importing.SetAnnotation(c, "archelon.io/display-name", id) }
	return s.ClusterWith(ctx, namespace, name, kubeconfig, append([]func(*clusterv1.Cluster){shown}, change...)...)
}

func workloadOf(namespace, name string) string { return namespace + "-" + name }

// each creates a CAPI cluster to be imported in every one of the document's namespaces, in their order.
func (s *shards) each(ctx context.Context, name string) []*clusterv1.Cluster {
	GinkgoHelper()
	var clusters []*clusterv1.Cluster
	for _, namespace := range []string{watch1, watch2, watch3} {
		clusters = append(clusters, s.light(ctx, namespace, name, importing.Selected))
	}
	return clusters
}

func (s *shards) expectImported(ctx context.Context, clusters ...*clusterv1.Cluster) {
	GinkgoHelper()
	// Where there are 200, Rancher's stand-in registers them one after the other before it sees the first agent.
	patient := 2*patience + time.Duration(len(clusters))*time.Second
	for _, cluster := range clusters {
		Eventually(s.Reason(ctx, cluster)).WithTimeout(patient).Should(Equal("True/Imported"), client.ObjectKeyFromObject(cluster).String())
	}
}

// expectUntouched asserts that nobody does anything to the CAPI cluster and the records of it, for a while.
func (s *shards) expectUntouched(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	state := func() []string {
		versions := []string{importing.Current(ctx, s.Client, cluster.DeepCopy()).ResourceVersion}
		for _, record := range s.V3Records(ctx, cluster) {
			versions = append(versions, record.Name+"@"+record.ResourceVersion)
		}
		for _, record := range s.V1Records(ctx, cluster) {
			versions = append(versions, record.Name+"@"+record.ResourceVersion)
		}
		return versions
	}
	before := state()
	Consistently(state).WithTimeout(2 * time.Second).Should(Equal(before))
}

// remove deletes CAPI clusters, and waits until nothing is left of them.
func (s *shards) remove(ctx context.Context, clusters ...*clusterv1.Cluster) {
	GinkgoHelper()
	for _, cluster := range clusters {
		Expect(s.Client.Delete(ctx, cluster)).To(Succeed())
	}
	for _, cluster := range clusters {
		Eventually(s.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	}
	Eventually(s.NothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
	for _, cluster := range clusters {
		Expect(client.IgnoreNotFound(s.Client.Delete(ctx, builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil)))).To(Succeed())
	}
}

// audited returns the requests of the instance since it was started, without those of a spec in its name. The log has a
// watch when it begins and again when it ends.
func (i *instance) audited() []auditv1.Event {
	GinkgoHelper()
	events, err := i.shards.Management.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool {
		return e.User.Username != i.User() || e.RequestReceivedTimestamp.Time.Before(i.since) || strings.HasPrefix(e.UserAgent, probe)
	})
}

// expectLawful asserts that the instance was not refused anything. Nobody may create anything in a
// namespace that is being deleted.
func (i *instance) expectLawful() {
	GinkgoHelper()
	requests := i.audited()
	Expect(requests).NotTo(BeEmpty())
	Expect(importing.Listing(slices.DeleteFunc(requests, func(e auditv1.Event) bool {
		return e.ResponseStatus.Code != 403 || strings.Contains(e.ResponseStatus.Message, "because it is being terminated")
	}))).To(BeEmpty())
}

// expectNothingAbout asserts that no request of the instance is about a namespace or its objects.
func (i *instance) expectNothingAbout(namespace string) {
	GinkgoHelper()
	requests := i.audited()
	Expect(requests).NotTo(BeEmpty())
	Expect(importing.Listing(slices.DeleteFunc(requests, func(e auditv1.Event) bool {
		return !strings.Contains(e.RequestURI, namespace) && (e.ObjectRef == nil || e.ObjectRef.Namespace != namespace)
	}))).To(BeEmpty())
}

// scoped returns the lists and watches of kinds that belong to the namespaces of an instance.
func (i *instance) scoped() []auditv1.Event {
	GinkgoHelper()
	requests := slices.DeleteFunc(i.audited(), func(e auditv1.Event) bool {
		if e.Verb != "list" && e.Verb != "watch" || e.ObjectRef == nil {
			return true
		}
		switch e.ObjectRef.APIGroup + "/" + e.ObjectRef.Resource {
		case "cluster.x-k8s.io/clusters", "provisioning.cattle.io/clusters":
			return false
		case "/secrets":
			// Registration tokens are where Rancher wants them to be.
			return fieldSelector(e) == "metadata.name=crt-token-default-token"
		default:
			return true
		}
	})
	kinds := map[string]bool{}
	for _, e := range requests {
		kinds[e.ObjectRef.APIGroup+"/"+e.ObjectRef.Resource] = true
	}
	Expect(kinds).To(HaveLen(3), "kinds that an instance watches in its namespaces")
	return requests
}

func fieldSelector(e auditv1.Event) string {
	GinkgoHelper()
	parsed, err := url.ParseRequestURI(e.RequestURI)
	Expect(err).NotTo(HaveOccurred())
	return parsed.Query().Get("fieldSelector")
}

// written returns the CAPI clusters and Rancher clusters that the instance has written, as "namespace/name".
func (i *instance) written() []string {
	GinkgoHelper()
	var names []string
	for _, e := range i.audited() {
		if e.ObjectRef != nil && e.ObjectRef.Resource == "clusters" && slices.Contains([]string{"create", "patch", "update", "delete"}, e.Verb) {
			names = append(names, fmt.Sprintf("%s/%s", e.ObjectRef.Namespace, e.ObjectRef.Name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
