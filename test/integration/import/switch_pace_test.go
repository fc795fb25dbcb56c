package import_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// A change of the kind of record reaches a few clusters at a time, and goes on only as those come back.
var _ = Describe("Switching the strategy at a pace", Label("nightly"), Ordered, func() {
	const (
		clusters  = 6
		places    = 2
		switchKey = "archelon.io/strategy-switch"
	)
	var (
		f        *fixture
		all      []*clusterv1.Cluster
		mended   []byte // the kubeconfig of the first cluster
		absences *absences
	)
	pace := func(n int) string { return fmt.Sprintf("--strategy-switch-concurrency=%d", n) }
	reasons := func(ctx context.Context) func() []string {
		return func() []string {
			var found []string
			for _, cluster := range all {
				found = append(found, f.Reason(ctx, cluster)())
			}
			return found
		}
	}
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "pace", Audit: true, Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		servers := importing.StartLights(ctx)
		for i := range clusters {
			name := fmt.Sprintf("pace-%d", i)
			kubeconfig, err := servers.Kubeconfig(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
			DeferCleanup(f.Rancher.RemoveWorkload, name)
			if i == 0 {
				mended = kubeconfig
			}
			all = append(all, f.ClusterWith(ctx, namespace, name, kubeconfig))
		}
		f.run(ctx, importing.Gate("v1"), "--sync-period=1h")
		Eventually(reasons(ctx)).WithTimeout(2 * patience).Should(HaveEach("True/Imported"))
		Expect(f.Manager.Stop()).To(Succeed())
		absences = watchAbsences(ctx, f.Management.Config, all)
	})
	// kubeconfig changes that of the first cluster. As long as the agent is connected nobody needs it.
	kubeconfig := func(ctx context.Context, content []byte) {
		GinkgoHelper()
		secret := builder.KubeconfigSecret(all[0].Namespace, all[0].Name, content)
		Expect(f.Client.Update(ctx, secret)).To(Succeed())
	}

	It("replaces nothing with no place", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v3"), pace(0), "--sync-period=1h")
		Eventually(reasons(ctx)).Should(HaveEach("True/WaitingForTurn"))
		Expect(f.Manager.Stop()).To(Succeed())
		Expect(absences.most()).To(BeZero())
	})

	It("never has more than its places without a connection, through a restart and beside one that does not come back", func(ctx context.Context) {
		kubeconfig(ctx, []byte("broken"))
		f.run(ctx, importing.Gate("v3"), pace(places), "--sync-period=1h")
		back := func() int {
			count := 0
			for _, reason := range reasons(ctx)() {
				if reason == "True/Imported" {
					count++
				}
			}
			return count
		}
		Eventually(back).WithTimeout(2 * patience).WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", 1))
		f.Manager.Kill()
		f.run(ctx, importing.Gate("v3"), pace(places), "--sync-period=1h")
		Eventually(back).WithTimeout(2 * patience).Should(Equal(clusters - 1))
		Expect(f.Reason(ctx, all[0])()).To(Equal("False/KubeconfigInvalid"))
		Expect(importing.Current(ctx, f.Client, all[0]).Annotations).To(HaveKeyWithValue(switchKey, HavePrefix("v1/")))
		for _, cluster := range all[1:] {
			Expect(f.Look(ctx).Records("v3", cluster)).To(HaveLen(1))
			Expect(importing.Current(ctx, f.Client, cluster).Annotations).NotTo(HaveKey(switchKey))
		}
		body := metricsText(ctx)
		for state, count := range map[string]int{"waiting": 0, "under_way": 1, "done": clusters - 1} {
			Expect(body).To(ContainSubstring(fmt.Sprintf("archelon_import_switch_clusters{state=%q} %d\n", state, count)))
		}
		Expect(absences.most()).To(And(BeNumerically(">", 0), BeNumerically("<=", places)))

		By("and has that one come back when it can")
		kubeconfig(ctx, mended)
		Eventually(reasons(ctx)).WithTimeout(2 * patience).Should(HaveEach("True/Imported"))
		Expect(importing.Current(ctx, f.Client, all[0]).Annotations).NotTo(HaveKey(switchKey))
		Expect(absences.most()).To(BeNumerically("<=", places))
		Expect(f.Manager.Stop()).To(Succeed())
	})

	It("lets a cluster that waits go", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v1"), pace(0), "--sync-period=1h")
		Eventually(reasons(ctx)).Should(HaveEach("True/WaitingForTurn"))
		f.Choose(ctx, importing.Current(ctx, f.Client, all[1]), "false")
		Eventually(f.Reason(ctx, all[1])).Should(Equal("False/NotSelected"))
		Expect(f.Client.Delete(ctx, f.Look(ctx).Records("v3", all[2])[0])).To(Succeed())
		Eventually(f.Reason(ctx, all[2])).Should(Equal("False/RemovedInRancher"))
		for _, cluster := range all {
			Expect(f.Client.Delete(ctx, importing.Current(ctx, f.Client, cluster))).To(Succeed())
		}
		Eventually(f.NothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
	})

	AfterAll(func() { f.ExpectLawful() })
})

// absences knows how many CAPI clusters had no connected Rancher cluster at the same time, by
// a watch that misses nothing.
type absences struct {
	mu        sync.Mutex
	connected map[string]map[types.UID]bool // by the UID of the CAPI cluster, and that of the Rancher cluster
	worst     int
}

func watchAbsences(ctx context.Context, config *rest.Config, clusters []*clusterv1.Cluster) *absences {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.NewWithWatch(config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	a := &absences{connected: map[string]map[types.UID]bool{}}
	for _, cluster := range clusters {
		a.connected[string(cluster.UID)] = map[types.UID]bool{}
	}
	begin := &managementv3.ClusterList{}
	Expect(c.List(ctx, begin)).To(Succeed())
	for i := range begin.Items {
		a.note(&begin.Items[i], false)
	}
	a.worst = 0 // They came one after the other just now.
	events, err := watchtools.NewRetryWatcherWithContext(context.WithoutCancel(ctx), begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &managementv3.ClusterList{}, &client.ListOptions{Raw: &options})
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			if cluster, ok := e.Object.(*managementv3.Cluster); ok {
				a.note(cluster, e.Type == watch.Deleted)
			}
		}
	}()
	return a
}

// note takes one event in.
func (a *absences) note(cluster *managementv3.Cluster, gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.connected[cluster.Labels[importing.UIDLabel]]
	if of == nil {
		return
	}
	delete(of, cluster.UID)
	for _, condition := range cluster.Status.Conditions {
		if string(condition.Type) == "Connected" && condition.Status == corev1.ConditionTrue && !gone && cluster.DeletionTimestamp.IsZero() {
			of[cluster.UID] = true
		}
	}
	absent := 0
	for _, connected := range a.connected {
		if len(connected) == 0 {
			absent++
		}
	}
	a.worst = max(a.worst, absent)
}

// most is how many there were at the same time at worst.
func (a *absences) most() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.worst
}
