// Package importing has what the suites about imports share: CAPI Clusters, the namespaces and workload clusters that
// they are in, what Rancher has for them, and what a manager asked for.
package importing

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

// Literals of the contract, not the constants under test.
const (
	ImportLabel     = "cluster-api.cattle.io/rancher-auto-import"
	OwnerLabel      = "cluster-api.cattle.io/capi-cluster-owner"
	OwnerNSLabel    = "cluster-api.cattle.io/capi-cluster-owner-ns"
	OwnedLabel      = "cluster-api.cattle.io/owned"
	UIDLabel        = "archelon.io/capi-cluster-uid"
	Finalizer       = "archelon.io/rancher-import"
	RecordKey       = "archelon.io/rancher-cluster"
	ForceDeployKey  = "io.cattle.agent.force.deploy"
	ImportedKey     = "imported"
	Condition       = "RancherImported"
	AgentNamespace  = "cattle-system"
	AgentDeployment = "cattle-cluster-agent"
	User            = "system:serviceaccount:archelon-system:archelon"
)

// Fixture is a stage with one workload cluster, and what specs do with it.
type Fixture struct {
	*stage.Stage

	// Lane is the workload cluster, if the specs need a real one.
	Lane Lane
	// Manager is the one that was started last.
	Manager *stage.Manager
	// Tenants is how many namespaces an isolated manager works in, at most. Zero stands for more than any scenario uses.
	Tenants int
	// OwnNamespaces says that the scenario has namespaces of its own: an isolated manager is not told
	// to work in the tenants' ones.
	OwnNamespaces bool

	tenants []string
	used    int
}

// New adds a workload cluster to a stage.
func New(ctx context.Context, s *stage.Stage, workload env.Options) *Fixture {
	GinkgoHelper()
	f := &Fixture{Stage: s}
	f.Lane = f.StartLane(ctx, workload)
	return f
}

// StartLeader starts a manager that is elected, for the time of the node, and waits until it is ready. It keeps its
// Lease while a busy API server does not answer for longer than ten seconds: a manager that loses its Lease exits, and
// here is no kubelet to start it again.
func (f *Fixture) StartLeader(ctx context.Context, program string, args ...string) {
	GinkgoHelper()
	args = append([]string{
		"-v=1", "--leader-elect", "--leader-elect-namespace=" + stage.SystemNamespace,
		"--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s",
	}, args...)
	m, err := f.StartManager(ctx, program, GinkgoWriter, args...)
	Expect(err).NotTo(HaveOccurred())
	f.Manager = m
	DeferCleanup(func() {
		Expect(m.Stop()).To(Succeed())
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
	})
	Eventually(m.Ready).WithContext(ctx).Should(Succeed())
}

// Lane is a real workload cluster. It has one agent, so it is one import's at a time.
type Lane struct {
	Name   string
	Plane  *env.ControlPlane
	Client client.Client
}

// K reads and changes what is in the workload cluster.
func (l Lane) K(ctx context.Context) komega.Komega { return komega.New(l.Client).WithContext(ctx) }

// StartLane starts a workload cluster for the time of the node.
func (f *Fixture) StartLane(ctx context.Context, opts env.Options) Lane {
	GinkgoHelper()
	plane, err := f.Workload(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		// An API server does not stop while somebody watches it.
		f.Rancher.RemoveWorkload(opts.Name)
		Expect(plane.Stop()).To(Succeed())
	})
	return Lane{Name: opts.Name, Plane: plane, Client: AdminClient(plane)}
}

// StartLights serves light workload clusters from this process for the time of the node. Agents in them are played.
func StartLights(ctx context.Context) *workloadserver.Server {
	GinkgoHelper()
	servers, err := workloadserver.Start(context.WithoutCancel(ctx), func(workloadserver.Request) {})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(servers.Stop)
	return servers
}

// AdminClient returns an administrator's client.
func AdminClient(plane *env.ControlPlane) client.Client {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// Current reads an object anew.
func Current[T client.Object](ctx context.Context, c client.Reader, object T) T {
	GinkgoHelper()
	Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

// NamespaceOf returns one that is not written yet.
func NamespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// SetAnnotation sets an annotation of an object that is not written yet.
func SetAnnotation(object client.Object, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}
