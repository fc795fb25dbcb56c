package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/proxy"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario 4: the life of an import, with each single request of the manager going wrong in turn. There is never a second
// record, every import gets connected, and every deletion ends.
var _ = Describe("Faults", func() {
	for _, strategy := range []string{"v3", "v1"} {
		Describe("as "+strategy, Ordered, func() {
			var (
				f       *fixture
				gateway *proxy.Proxy
				args    []string
			)
			BeforeAll(func(ctx context.Context) {
				args = []string{"-v=1", fmt.Sprintf("--feature-gates=managementv3-cluster=%t", strategy == "v3")}
				f = newFixture(ctx, stage.Options{Name: "faults-" + strategy, Rancher: func(o *rancher.Options) {
					o.Timings = rancher.Timings{AgentRetry: 20 * time.Millisecond, NamespaceController: 50 * time.Millisecond, Poll: 20 * time.Millisecond, TokenGrace: time.Minute}
					o.Logger = GinkgoLogr
				}})
				var err error
				gateway, err = proxy.Start(f.Management.Config)
				Expect(err).NotTo(HaveOccurred())
				DeferCleanup(gateway.Stop)
				f.Through = gateway.Through
			})
			DescribeTable("survives", func(ctx context.Context, verdict proxy.Verdict, crash bool) {
				m := f.restartable(ctx, args)
				for n := 1; ; n++ {
					trap := &trap{at: n, verdict: verdict}
					if crash {
						trap.sprung = m.crash
					}
					gateway.Judge(trap.judge)
					f.liveAndDie(ctx, fmt.Sprintf("c%d", n))
					if !trap.closed() {
						AddReportEntry("requests", n-1)
						Expect(n).To(BeNumerically(">", 10), "the trap must have met every request of an import and a deletion")
						return
					}
				}
			},
				Entry("requests that are refused", Label("long"), proxy.Refuse, false),
				Entry("conflicts", Label("long"), proxy.Conflict, false),
				Entry("answers that are lost", proxy.Lose, false),
				Entry("crashes right after a request took effect", proxy.Lose, true),
				Entry("crashes right before a request", proxy.Refuse, true),
			)
		})
	}
})

// liveAndDie imports a cluster and deletes it. There must never be two records.
func (f *fixture) liveAndDie(ctx context.Context, name string) {
	GinkgoHelper()
	namespace := f.namespace(ctx, nil)
	cluster := f.cluster(ctx, namespace, name, func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} })
	records := func() int { return len(f.v1Records(ctx, cluster)) + len(f.v3Records(ctx, cluster)) }
	Eventually(func(g Gomega) {
		g.Expect(records()).To(BeNumerically("<=", 1))
		g.Expect(f.reason(ctx, cluster)()).To(Equal("True/Imported"))
	}).Should(Succeed())
	Expect(records()).To(Equal(1))
	Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(f.gone(ctx, cluster)).Should(BeTrue())
	f.expectNothingLeft(ctx, cluster)
}

// trap makes one request of the manager go wrong: the nth that is neither a watch, nor a list, nor about Events or the Lease.
type trap struct {
	at      int
	verdict proxy.Verdict
	sprung  func()

	mu   sync.Mutex
	seen int
}

func (t *trap) judge(r *http.Request) proxy.Verdict {
	if r.URL.Query().Get("watch") == "true" || strings.Contains(r.URL.Path, "/leases") || strings.HasSuffix(r.URL.Path, "/events") ||
		r.Method == http.MethodGet && !strings.Contains(r.URL.Path, "/secrets/") && !strings.Contains(r.URL.Path, "/clusters/") {
		return proxy.Pass
	}
	t.mu.Lock()
	t.seen++
	hit := t.seen == t.at
	t.mu.Unlock()
	if !hit {
		return proxy.Pass
	}
	if t.sprung != nil {
		go t.sprung()
	}
	return t.verdict
}

// closed reports whether the request came.
func (t *trap) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen >= t.at
}

// restartable is a manager that can crash and comes back at once.
type restartable struct {
	start func() *stage.Manager
	mu    sync.Mutex
	m     *stage.Manager
	done  bool
}

func (f *fixture) restartable(ctx context.Context, args []string) *restartable {
	GinkgoHelper()
	r := &restartable{start: func() *stage.Manager {
		m, err := f.StartManager(context.WithoutCancel(ctx), manager, GinkgoWriter, args...)
		Expect(err).NotTo(HaveOccurred())
		return m
	}}
	r.m = r.start()
	DeferCleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done = true
		Expect(r.m.Stop()).To(Succeed())
		Expect(r.m.Logs()).NotTo(ContainSubstring("DATA RACE"))
	})
	Eventually(r.m.Ready).WithContext(ctx).Should(Succeed())
	return r
}

// crash kills the manager and starts another one.
func (r *restartable) crash() {
	defer GinkgoRecover()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.m.Kill()
		r.m = r.start()
	}
}
