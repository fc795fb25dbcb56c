package fleet_test

import (
	"cmp"
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/examples/fleet/inventory"
	"github.com/archelon-io/archelon/providers/capi"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

// world is a namespace of CAPI Clusters and a namespace of the same name in the workload clusters, so that specs do not
// meet.
type world struct {
	namespace string
	// access is that of the local manager, as administrator by default.
	access   *rest.Config
	local    ctrl.Manager
	provider *capi.Provider
	manager  mcmanager.Manager

	mu     sync.Mutex
	counts map[multicluster.ClusterName]int
}

func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	w := &world{counts: map[multicluster.ClusterName]int{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"}}
	Expect(managementAdmin.Create(ctx, namespace)).To(Succeed())
	w.namespace = namespace.Name
	Expect(workloadAdmin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	return w
}

// localManager is that of the management cluster.
func (w *world) localManager(change ...func(*ctrl.Options)) ctrl.Manager {
	GinkgoHelper()
	options := ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: new(true)},
	}
	for _, each := range change {
		each(&options)
	}
	mgr, err := ctrl.NewManager(cmp.Or(w.access, management.Config), options)
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// options have the provider work in the spec's namespace of the workload clusters, at a pace of tests. A slow machine
// is not to look like a cluster that does not answer.
func (w *world) options() capi.Options {
	return capi.Options{
		ClusterOptions: []cluster.Option{func(o *cluster.Options) {
			o.Scheme = scheme
			o.Cache.DefaultNamespaces = map[string]cache.Config{w.namespace: {}}
		}},
		Timing: capi.Timing{
			ProbeEvery: 300 * time.Millisecond, RetryMin: 50 * time.Millisecond, RetryMax: time.Second,
			Dial: time.Minute, Request: time.Minute, Read: time.Minute, Engage: time.Minute, Probe: time.Minute,
		},
	}
}

func (w *world) build(
	options capi.Options, wrap func(multicluster.Provider) multicluster.Provider, change ...func(*ctrl.Options),
) {
	GinkgoHelper()
	w.local = w.localManager(change...)
	var err error
	w.provider, err = capi.New(w.local, options)
	Expect(err).NotTo(HaveOccurred())
	var provider multicluster.Provider = w.provider
	if wrap != nil {
		provider = wrap(provider)
	}
	w.manager, err = mcmanager.WithMultiCluster(w.local, provider, capi.EndSources())
	Expect(err).NotTo(HaveOccurred())
}

// count adds the example's controller.
func (w *world) count(mgr mcmanager.Manager) {
	GinkgoHelper()
	Expect(inventory.AddToManager(mgr, "inventory-"+w.namespace, func(name multicluster.ClusterName, pods int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.counts[name] = pods
	})).To(Succeed())
}

func (w *world) counted(name multicluster.ClusterName) func() int {
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.counts[name]
	}
}

// start runs a manager until the spec ends, or the function that it returns is called.
func (w *world) start(mgr interface{ Start(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
	DeferCleanup(stop)
	return stop
}

// run is the usual beginning: the provider, a manager and the example's controller.
func run(ctx context.Context) *world {
	GinkgoHelper()
	w := newWorld(ctx)
	w.build(w.options(), nil)
	w.count(w.manager)
	w.start(w.manager)
	return w
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

func (w *world) name(name string) multicluster.ClusterName { return capi.NameOf(w.key(name)) }

// cluster creates a Cluster, in a phase.
func (w *world) cluster(ctx context.Context, name string, phase clusterv1.ClusterPhase) {
	GinkgoHelper()
	Expect(managementAdmin.Create(ctx, builder.Cluster(w.namespace, name))).To(Succeed())
	w.phase(ctx, name, phase)
}

func (w *world) phase(ctx context.Context, name string, phase clusterv1.ClusterPhase) {
	GinkgoHelper()
	ccl := &clusterv1.Cluster{}
	Expect(managementAdmin.Get(ctx, w.key(name), ccl)).To(Succeed())
	before := ccl.DeepCopy()
	builder.ControlPlaneUp(ccl)
	ccl.Status.Phase = string(phase)
	Expect(managementAdmin.Status().Patch(ctx, ccl, client.MergeFrom(before))).To(Succeed())
}

// kubeconfig writes the kubeconfig Secret of a Cluster, for a user of an API server.
func (w *world) kubeconfig(ctx context.Context, name string, plane *env.ControlPlane, user *rest.Config) {
	GinkgoHelper()
	raw, err := plane.KubeconfigFor(user)
	Expect(err).NotTo(HaveOccurred())
	secret := builder.KubeconfigSecret(w.namespace, name, raw)
	err = managementAdmin.Create(ctx, secret)
	if err != nil {
		Expect(managementAdmin.Update(ctx, secret)).To(Succeed())
	}
}

// engage creates a Cluster that is there.
func (w *world) engage(ctx context.Context, name string, plane *env.ControlPlane, user *rest.Config) multicluster.ClusterName {
	GinkgoHelper()
	w.kubeconfig(ctx, name, plane, user)
	w.cluster(ctx, name, clusterv1.ClusterPhaseProvisioned)
	return w.name(name)
}

func (w *world) state(name string) func() string {
	return func() string {
		status, ok := w.provider.Status(w.key(name))
		if !ok {
			return "none"
		}
		return string(status.State) + " " + status.Reason + " " + status.Message
	}
}

func (w *world) pod(ctx context.Context, admin client.Client, name string) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	return pod
}

// account returns access as a ServiceAccount with permissions for Pods of the spec's namespace.
func (w *world) account(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	Expect(workloadAdmin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})).To(Succeed())
	access, err := workload.ServiceAccountConfig(ctx, w.namespace, name)
	Expect(err).NotTo(HaveOccurred())
	return access
}

func (w *world) grant(ctx context.Context, account string) {
	GinkgoHelper()
	Expect(workloadAdmin.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: account},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}}},
	})).To(Succeed())
	Expect(workloadAdmin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: account}},
	})).To(Succeed())
}
