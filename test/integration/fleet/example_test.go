package fleet_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	namespaceprovider "sigs.k8s.io/multicluster-runtime/providers/namespace"
)

// animals is what the example of multicluster-runtime has: ConfigMaps in clusters.
func animals() map[string][]string {
	return map[string][]string{"zoo": {"elephant", "lion"}, "jungle": {"monkey"}, "island": {"bird"}}
}

// keeper is the controller of multicluster-runtime's own example (examples/namespace), which keeps a record in place of
// its log.
type keeper struct {
	mu   sync.Mutex
	kept map[string]bool
}

// keep adds the controller to a manager. A cluster is recorded without the name of the spec's namespace in front of it.
func keep(mgr mcmanager.Manager, w *world, of string) *keeper {
	GinkgoHelper()
	k := &keeper{kept: map[string]bool{}}
	Expect(mcbuilder.ControllerManagedBy(mgr).
		Named("multicluster-configmaps-" + of + "-" + w.namespace).
		For(&corev1.ConfigMap{}).
		Complete(mcreconcile.Func(
			func(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
				cl, err := mgr.GetCluster(ctx, req.ClusterName)
				if err != nil {
					return ctrl.Result{}, err
				}
				found, of := strings.CutPrefix(string(req.ClusterName), w.namespace)
				cm := &corev1.ConfigMap{}
				if err := cl.GetClient().Get(ctx, req.NamespacedName, cm); err != nil {
					if apierrors.IsNotFound(err) {
						k.record(found, req.Name, false)
						return ctrl.Result{}, nil
					}
					return ctrl.Result{}, err
				}
				k.record(found, cm.Name, of)
				return ctrl.Result{}, nil
			},
		))).To(Succeed())
	return k
}

func (k *keeper) record(of, name string, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := strings.TrimLeft(of, "-/") + " " + name
	delete(k.kept, key)
	if is {
		k.kept[key] = true
	}
}

// all returns what there is, "CLUSTER NAME".
func (k *keeper) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for key := range k.kept {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

var _ = Describe("The example of multicluster-runtime", func() {
	It("has the same result with this provider and with the namespace provider", func(ctx context.Context) {
		w := newWorld(ctx)
		for cluster, names := range animals() {
			namespace := w.namespace + "-" + cluster
			Expect(workloadAdmin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
			for _, name := range names {
				Expect(workloadAdmin.Create(ctx, configMap(namespace, name))).To(Succeed())
			}
		}

		By("taking each namespace for a cluster, as the example does")
		whole, err := cluster.New(workload.Config, func(o *cluster.Options) { o.Scheme = scheme })
		Expect(err).NotTo(HaveOccurred())
		theirs, err := mcmanager.WithMultiCluster(w.localManager(), namespaceprovider.New(whole))
		Expect(err).NotTo(HaveOccurred())
		expected := keep(theirs, w, "namespaces")
		w.start(whole)
		w.start(theirs)

		By("having a CAPI Cluster for each of them")
		options := w.options()
		options.NewCluster = func(
			_ context.Context, ccl *clusterv1.Cluster, cfg *rest.Config, opts ...cluster.Option,
		) (cluster.Cluster, error) {
			return cluster.New(cfg, append(opts, func(o *cluster.Options) {
				o.Cache.DefaultNamespaces = map[string]cache.Config{w.namespace + "-" + ccl.Name: {}}
			})...)
		}
		w.build(options, nil)
		got := keep(w.manager, w, "clusters")
		w.start(w.manager)
		for name := range animals() {
			w.engage(ctx, name, workload, workload.Config)
		}

		same := func(want ...string) {
			GinkgoHelper()
			Eventually(expected.all).Should(Equal(want))
			Eventually(got.all).Should(Equal(want))
		}
		same("island bird", "jungle monkey", "zoo elephant", "zoo lion")
		Expect(workloadAdmin.Create(ctx, configMap(w.namespace+"-island", "lizard"))).To(Succeed())
		Expect(workloadAdmin.Delete(ctx, configMap(w.namespace+"-zoo", "lion"))).To(Succeed())
		same("island bird", "island lizard", "jungle monkey", "zoo elephant")
	})
})

func configMap(namespace, name string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
