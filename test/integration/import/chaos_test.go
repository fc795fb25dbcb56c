package import_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/proxy"
	"github.com/archelon-io/archelon/test/stage"
)

// Many imports at once while everything goes wrong: a stale cache, refused and lost requests, conflicts, crashes, and
// for a while two instances that do not know of each other.
var _ = Describe("Chaos", func() {
	var (
		s       *stage.Stage
		gateway *proxy.Proxy
	)
	BeforeEach(func(ctx context.Context) {
		var err error
		s = startStage(ctx, stage.Options{Name: "chaos"})
		gateway, err = proxy.Start(s.Management.Config)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(gateway.Stop)
		s.Through = gateway.Through
	})

	DescribeTable("never makes a second record, nor one without its labels, and connects every cluster", func(
		ctx context.Context, clusters, crashes int,
	) {
		f := &fixture{&importing.Fixture{Stage: s, Tenants: 1}}
		servers := importing.StartLights(ctx)
		namespace := f.Namespace(ctx, nil)
		for i := range clusters {
			f.lightCluster(ctx, servers, namespace, fmt.Sprintf("c%d", i))
		}
		seen := watchRecords(ctx, s.Management.Config)

		gateway.DelayWatches(2 * time.Second)
		gateway.Judge(unreliable)
		m := f.restartable(ctx, []string{"--concurrency=10", "--feature-gates=managementv3-cluster=true"})
		f.Choose(ctx, importing.NamespaceOf(namespace), "true")
		for i := range crashes {
			pause(ctx, time.Duration(200+rand.IntN(1300))*time.Millisecond)
			if i == crashes/2 {
				// For a moment another instance works, too: its Lease is elsewhere, so that neither knows of the other.
				known := s.Values
				s.Values = maps.Clone(known)
				s.Values["leaderElection"] = map[string]any{"namespace": "default"}
				other, err := f.StartManager(ctx, manager, nil, "--concurrency=10", "--feature-gates=managementv3-cluster=true")
				Expect(err).NotTo(HaveOccurred())
				s.Values = known
				pause(ctx, 3*time.Second)
				other.Kill()
			}
			m.crash()
		}
		gateway.Judge(func(*http.Request) proxy.Verdict { return proxy.Pass })

		list := &clusterv1.ClusterList{}
		Eventually(func(g Gomega) {
			g.Expect(s.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			for i := range list.Items {
				g.Expect(f.Reason(ctx, &list.Items[i])()).To(Equal("True/Imported"), list.Items[i].Name)
			}
		}).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(Succeed())
		for i := range list.Items {
			Expect(f.V3Records(ctx, &list.Items[i])).To(HaveLen(1), list.Items[i].Name)
		}
		seen.expectOneEach(list.Items)
	},
		Entry("a few", Label("nightly"), 15, 8),
		Entry("many", Label("long"), 50, 20),
	)
})

// lightCluster creates a CAPI cluster whose workload cluster is a light server.
func (f *fixture) lightCluster(ctx context.Context, servers *workloadserver.Server, namespace, name string) {
	GinkgoHelper()
	kubeconfig, err := servers.Kubeconfig(name)
	Expect(err).NotTo(HaveOccurred())
	Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
	f.ClusterWith(ctx, namespace, name, kubeconfig)
}

// unreliable makes about every eighth request go wrong.
func unreliable(r *http.Request) proxy.Verdict {
	if r.URL.Query().Get("watch") == "true" {
		return proxy.Pass
	}
	switch rand.IntN(24) {
	case 0:
		return proxy.Refuse
	case 1:
		return proxy.Lose
	case 2:
		if r.Method == http.MethodPatch {
			return proxy.Conflict
		}
	}
	return proxy.Pass
}

// pause lets the world go on for a while. What happens meanwhile is the test.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// sightings are all v3 Clusters that were ever made, as a watch that misses nothing saw them.
type sightings struct {
	mu      sync.Mutex
	records map[types.UID]*managementv3.Cluster
}

func watchRecords(ctx context.Context, config *rest.Config) *sightings {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.NewWithWatch(config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	begin := &managementv3.ClusterList{}
	Expect(c.List(ctx, begin)).To(Succeed())
	Expect(begin.Items).To(BeEmpty())
	// A busy API server ends watches, and this one goes on from where it was.
	events, err := watchtools.NewRetryWatcherWithContext(context.WithoutCancel(ctx), begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, &managementv3.ClusterList{}, &client.ListOptions{Raw: &options})
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(events.Stop)
	seen := &sightings{records: map[types.UID]*managementv3.Cluster{}}
	go func() {
		for e := range events.ResultChan() {
			if record, ok := e.Object.(*managementv3.Cluster); ok && e.Type == watch.Added {
				seen.mu.Lock()
				seen.records[record.UID] = record
				seen.mu.Unlock()
			}
		}
	}()
	return seen
}

func (s *sightings) expectOneEach(clusters []clusterv1.Cluster) {
	GinkgoHelper()
	s.mu.Lock()
	defer s.mu.Unlock()
	made := map[string]int{}
	for _, record := range s.records {
		Expect(record.Labels).
			To(And(HaveKey(importing.OwnedLabel), HaveKey(importing.OwnerLabel), HaveKey(importing.OwnerNSLabel), HaveKey(importing.UIDLabel)), record.Name)
		made[record.Labels[importing.UIDLabel]]++
	}
	for i := range clusters {
		Expect(made).To(HaveKeyWithValue(string(clusters[i].UID), 1), "records ever made for %s", clusters[i].Name)
	}
	Expect(made).To(HaveLen(len(clusters)))
}
