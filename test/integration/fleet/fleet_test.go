package fleet_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	kubeconfigprovider "sigs.k8s.io/multicluster-runtime/providers/kubeconfig"
	"sigs.k8s.io/multicluster-runtime/providers/multi"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

// hole is access to a server that accepts connections and never says a word.
func hole(ctx context.Context) *rest.Config {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })
	return &rest.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: "x",
		TLSClientConfig: rest.TLSClientConfig{CAData: workload.Config.CAData},
	}
}

var _ = Describe("How discovery and engagement work", func() {
	It("waits for the phase, then for the kubeconfig, and engages then", func(ctx context.Context) {
		w := run(ctx)
		w.pod(ctx, workloadAdmin, "first")
		w.cluster(ctx, "one", clusterv1.ClusterPhaseProvisioning)
		Eventually(w.state("one")).Should(HavePrefix("Pending NotProvisioned"))
		_, err := w.manager.GetCluster(ctx, w.name("one"))
		Expect(err).To(MatchError(multicluster.ErrClusterNotFound))
		w.phase(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		Eventually(w.state("one")).Should(HavePrefix("Pending KubeconfigMissing"))
		w.kubeconfig(ctx, "one", workload, workload.Config)
		Eventually(w.counted(w.name("one"))).Should(Equal(1))
		w.pod(ctx, workloadAdmin, "second")
		Eventually(w.counted(w.name("one"))).Should(Equal(2))
		Expect(w.state("one")()).To(HavePrefix("Engaged"))
	})

	It("engages healthy clusters beside those that do not answer, and the manager lives on", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod(ctx, workloadAdmin, "first")
		for i := range 5 {
			w.engage(ctx, fmt.Sprintf("hole-%d", i), workload, hole(ctx))
		}
		w.engage(ctx, "forbidden", workload, w.account(ctx, "nobody"))
		w.engage(ctx, "one", workload, workload.Config)
		options := w.options()
		const long = 10 * time.Minute // who waits for one of them is seen to wait
		options.Timing.Dial, options.Timing.Request, options.Timing.Read, options.Timing.Engage, options.Timing.Probe = long, long, long, long, long
		w.build(options, nil)
		w.count(w.manager)
		w.start(w.manager)
		Eventually(w.counted(w.name("one"))).Should(Equal(1))
		Expect(w.state("hole-0")()).To(MatchRegexp("^(Connecting *){2}"))
	})

	It("says of a cluster that it does not answer", func(ctx context.Context) {
		w := newWorld(ctx)
		w.engage(ctx, "hole", workload, hole(ctx))
		options := w.options()
		options.Timing.Dial = time.Second
		w.build(options, nil)
		w.count(w.manager)
		w.start(w.manager)
		Eventually(w.state("hole")).Should(HavePrefix("Connecting WorkloadTimeout"))
	})
})

var _ = Describe("RBAC and security considerations", func() {
	It("names the kind that the user of the kubeconfig may not receive, until it may", func(ctx context.Context) {
		w := run(ctx)
		w.pod(ctx, workloadAdmin, "first")
		name := w.engage(ctx, "one", workload, w.account(ctx, "agent"))
		Eventually(w.state("one")).Should(Equal("Degraded Forbidden kinds that cannot be received from the cluster: pods (Forbidden)"))
		w.grant(ctx, "agent")
		Eventually(w.counted(name)).Should(Equal(1))
		Eventually(w.state("one")).Should(HavePrefix("Engaged"))
	})
})

var _ = Describe("Cluster names and identity", func() {
	It("can be composed with other providers under a prefix", func(ctx context.Context) {
		w := newWorld(ctx)
		w.build(w.options(), func(provider multicluster.Provider) multicluster.Provider {
			composed := multi.New(multi.Options{})
			Expect(composed.AddProvider("capi", provider)).To(Succeed())
			return composed
		})
		w.count(w.manager)
		w.start(w.manager)
		w.pod(ctx, workloadAdmin, "first")
		w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.counted("capi#" + w.name("one"))).Should(Equal(1))
		_, err := w.manager.GetCluster(ctx, "capi#"+w.name("one"))
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("Disengagement on deletion", func() {
	It("ends with the Cluster, and begins again with its successor", func(ctx context.Context) {
		w := run(ctx)
		w.pod(ctx, workloadAdmin, "first")
		name := w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.counted(name)).Should(Equal(1))
		Expect(managementAdmin.Delete(ctx, builder.Cluster(w.namespace, "one"))).To(Succeed())
		Eventually(func() error { _, err := w.manager.GetCluster(ctx, name); return err }).Should(MatchError(multicluster.ErrClusterNotFound))
		w.pod(ctx, workloadAdmin, "second")
		Consistently(w.counted(name)).Should(Equal(1))
		w.cluster(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		Eventually(w.counted(name)).Should(Equal(2))
	})
})

var _ = Describe("Field indexing behaviour", func() {
	It("has an index in clusters that are there and in those that come", func(ctx context.Context) {
		w := newWorld(ctx)
		w.build(w.options(), nil)
		byName := func(o client.Object) []string { return []string{o.GetName()} }
		Expect(w.manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "before", byName)).To(Succeed())
		w.count(w.manager)
		w.start(w.manager)
		w.pod(ctx, workloadAdmin, "first")
		one := w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.state("one")).Should(HavePrefix("Engaged"))
		Expect(w.manager.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, "after", byName)).To(Succeed())
		two := w.engage(ctx, "two", workload, workload.Config)
		Eventually(w.state("two")).Should(HavePrefix("Engaged"))
		for _, name := range []multicluster.ClusterName{one, two} {
			for _, field := range []string{"before", "after"} {
				c, err := w.manager.GetCluster(ctx, name)
				Expect(err).NotTo(HaveOccurred())
				pods := &corev1.PodList{}
				Expect(c.GetClient().List(ctx, pods, client.MatchingFields{field: "first"})).To(Succeed())
				Expect(pods.Items).To(HaveLen(1))
			}
		}
	})
})

var _ = Describe("Configuring the provider via Options", func() {
	It("asks GetSecret and NewCluster", func(ctx context.Context) {
		w := newWorld(ctx)
		w.pod(ctx, workloadAdmin, "first")
		options := w.options()
		var built atomic.Int64
		options.GetSecret = func(context.Context, *clusterv1.Cluster) (*rest.Config, error) { return workload.Config, nil }
		options.NewCluster = func(_ context.Context, ccl *clusterv1.Cluster, cfg *rest.Config, opts ...cluster.Option) (cluster.Cluster, error) {
			Expect(ccl.Name).To(Equal("one"))
			built.Add(1)
			return cluster.New(cfg, opts...)
		}
		w.build(options, nil)
		w.count(w.manager)
		w.start(w.manager)
		w.cluster(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		Eventually(w.counted(w.name("one"))).Should(Equal(1))
		Expect(built.Load()).To(BeEquivalentTo(1))
	})
})

var _ = Describe("Using the provider in a multi-cluster controller", func() {
	It("gives what the kubeconfig provider of multicluster-runtime gives", func(ctx context.Context) {
		w := run(ctx)
		other := &world{namespace: w.namespace, counts: map[multicluster.ClusterName]int{}}
		provider := kubeconfigprovider.New(kubeconfigprovider.Options{
			Namespace: w.namespace, ClusterOptions: w.options().ClusterOptions,
		})
		mgr, err := mcmanager.WithMultiCluster(other.localManager(), provider)
		Expect(err).NotTo(HaveOccurred())
		Expect(provider.SetupWithManager(ctx, mgr)).To(Succeed())
		other.namespace += "-other" // the name of a controller is unique in a process
		other.count(mgr)
		other.namespace = w.namespace
		other.start(mgr)
		for name, plane := range map[string]*env.ControlPlane{"one": workload, "two": management} {
			w.engage(ctx, name, plane, plane.Config)
			raw, err := plane.Kubeconfig()
			Expect(err).NotTo(HaveOccurred())
			Expect(managementAdmin.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: w.namespace, Name: name, Labels: map[string]string{kubeconfigprovider.DefaultKubeconfigSecretLabel: "true"},
				},
				Data: map[string][]byte{kubeconfigprovider.DefaultKubeconfigSecretKey: raw},
			})).To(Succeed())
		}
		pods := []client.Object{
			w.pod(ctx, workloadAdmin, "a"), w.pod(ctx, workloadAdmin, "b"), w.pod(ctx, workloadAdmin, "c"), w.pod(ctx, managementAdmin, "a"),
		}
		for name, is := range map[string]int{"one": 3, "two": 1} {
			Eventually(w.counted(w.name(name))).Should(Equal(is))
			Eventually(other.counted(multicluster.ClusterName(name))).Should(Equal(is))
		}
		Expect(workloadAdmin.Delete(ctx, pods[0], client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(w.counted(w.name("one"))).Should(Equal(2))
		Eventually(other.counted("one")).Should(Equal(2))
	})
})

var _ = Describe("Failure modes and troubleshooting", func() {
	It("engages a cluster that lacks a kind for all others, and has the kind when its CRD comes", func(ctx context.Context) {
		w := run(ctx)
		w.pod(ctx, workloadAdmin, "first")
		name := w.engage(ctx, "one", workload, workload.Config)
		Eventually(w.counted(name)).Should(Equal(1))
		c, err := w.manager.GetCluster(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		informer, err := c.GetCache().GetInformer(ctx, &clusterv1.Cluster{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(w.state("one")).Should(SatisfyAll(HavePrefix("Degraded KindMissing"), ContainSubstring("Cluster.cluster.x-k8s.io")))
		crds, err := env.CAPICRDs()
		Expect(err).NotTo(HaveOccurred())
		extensions, err := client.New(workload.Config, client.Options{Scheme: extensionsScheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(extensions.Create(ctx, crds[0])).To(Succeed())
		Eventually(informer.HasSynced).Should(BeTrue())
		Eventually(w.state("one")).Should(HavePrefix("Engaged"))
	})

	It("takes over credentials that are replaced, while a controller works and no request fails", func(ctx context.Context) {
		w := run(ctx)
		w.grant(ctx, "agent")
		name := w.engage(ctx, "one", workload, w.account(ctx, "agent"))
		Eventually(w.state("one")).Should(HavePrefix("Engaged"))
		work, stop := context.WithCancel(ctx)
		defer stop()
		var requests atomic.Int64
		var failure atomic.Value
		var working sync.WaitGroup
		for range 2 {
			working.Go(func() {
				for work.Err() == nil {
					if err := w.churn(ctx, name); err != nil {
						failure.CompareAndSwap(nil, err)
						return
					}
					requests.Add(1)
				}
			})
		}
		for round := range 3 {
			at := requests.Load()
			Eventually(requests.Load).Should(BeNumerically(">", at+3))
			// The tokens of an account end with it.
			next := fmt.Sprintf("agent-%d", round)
			w.grant(ctx, next)
			w.kubeconfig(ctx, "one", workload, w.account(ctx, next))
			before := "agent"
			if round > 0 {
				before = fmt.Sprintf("agent-%d", round-1)
			}
			Expect(workloadAdmin.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: before}})).To(Succeed())
			w.pod(ctx, workloadAdmin, fmt.Sprintf("lasting-%d", round))
			Eventually(w.counted(name)).Should(BeNumerically(">=", round+1))
		}
		stop()
		working.Wait()
		Expect(failure.Load()).To(BeNil())
		Eventually(w.counted(name)).Should(Equal(3))
		Expect(w.state("one")()).To(HavePrefix("Engaged"))
	})
})

// churn writes, reads and deletes in a cluster, as a reconciler does.
func (w *world) churn(ctx context.Context, name multicluster.ClusterName) error {
	c, err := w.manager.GetCluster(ctx, name)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "churn-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	if err := c.GetClient().Create(ctx, pod); err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	if err := c.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	return c.GetClient().Delete(ctx, pod, client.GracePeriodSeconds(0))
}

func extensionsScheme() *runtime.Scheme {
	GinkgoHelper()
	s := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(s)).To(Succeed())
	return s
}
