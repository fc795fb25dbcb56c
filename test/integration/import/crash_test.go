package import_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/proxy"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// The life of an import, with each single request of the manager going wrong in turn. There is never a second
// record, every import gets connected, and every deletion ends.
var _ = Describe("Faults", func() {
	for _, strategy := range []string{"v3", "v1"} {
		Describe("as "+strategy, Ordered, func() {
			var (
				f               *fixture
				gateway, inside *proxy.Proxy
				kubeconfig      []byte
				args            []string
			)
			BeforeAll(func(ctx context.Context) {
				args = []string{"-v=1", importing.Gate(strategy)}
				f = newFixture(ctx, stage.Options{Name: "faults-" + strategy, Rancher: func(o *rancher.Options) {
					o.Timings = rancher.Timings{AgentRetry: 20 * time.Millisecond, NamespaceController: 50 * time.Millisecond, Poll: 20 * time.Millisecond, TokenGrace: time.Minute}
					o.Logger = GinkgoLogr
				}})
				gateway = startProxy(f.Management.Config)
				f.Through = gateway.Through
				inside = startProxy(f.Lane.Plane.Config)
				kubeconfig = f.kubeconfigThrough(ctx, inside)
			})
			survive := func(gateway func() *proxy.Proxy, matters func(*http.Request) bool, least int) func(context.Context, proxy.Verdict, bool, int) {
				return func(ctx context.Context, verdict proxy.Verdict, crash bool, each int) {
					m := f.restartable(ctx, args)
					for n := 1; ; n += each {
						trap := &trap{at: n, verdict: verdict, matters: matters}
						if crash {
							trap.sprung = m.crash
						}
						gateway().Judge(trap.judge)
						f.liveAndDie(ctx, fmt.Sprintf("c%d", n), kubeconfig)
						if !trap.closed() {
							AddReportEntry("requests", n-1)
							Expect(n-1).To(BeNumerically(">=", least), "the trap must have met every request")
							return
						}
					}
				}
			}
			DescribeTable("survives", survive(func() *proxy.Proxy { return gateway }, managementRequest, 10),
				Entry("requests that are refused", Label("long"), proxy.Refuse, false, 1),
				Entry("conflicts", Label("nightly"), importing.LongUnless(strategy == "v3"), proxy.Conflict, false, 1),
				Entry("answers that are lost", Label("long"), proxy.Lose, false, 1),
				Entry("crashes right after a request took effect", Label("nightly"), proxy.Lose, true, 1),
				// The simulation has a crash at every request.
				Entry("crashes right after every fifth request took effect", importing.LongUnless(strategy == "v3"), proxy.Lose, true, 5),
				Entry("crashes right before a request", Label("long"), proxy.Refuse, true, 1),
			)
			DescribeTable("survives, in the workload cluster,", Label("long"), survive(func() *proxy.Proxy { return inside }, anyRequest, 12),
				Entry("requests that are refused", proxy.Refuse, false, 1),
				Entry("answers that are lost", proxy.Lose, false, 1),
				Entry("crashes right after a request took effect", proxy.Lose, true, 1),
			)
		})
	}
})

// startProxy starts a proxy for the time of the node.
func startProxy(config *rest.Config) *proxy.Proxy {
	GinkgoHelper()
	p, err := proxy.Start(config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Stop)
	return p
}

// kubeconfigThrough returns the kubeconfig of an administrator of the workload cluster that leads through a proxy.
func (f *fixture) kubeconfigThrough(ctx context.Context, p *proxy.Proxy) []byte {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "capi"}}
	Expect(client.IgnoreAlreadyExists(f.Lane.Client.Create(ctx, account))).To(Succeed())
	Expect(client.IgnoreAlreadyExists(f.Lane.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "capi"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}))).To(Succeed())
	config, err := f.Lane.Plane.ServiceAccountConfig(ctx, account.Namespace, account.Name)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := f.Lane.Plane.KubeconfigFor(p.Through(config))
	Expect(err).NotTo(HaveOccurred())
	return kubeconfig
}

// liveAndDie imports a cluster and deletes it. There must never be two records.
func (f *fixture) liveAndDie(ctx context.Context, name string, kubeconfig []byte) {
	GinkgoHelper()
	namespace := f.Namespace(ctx, nil)
	cluster := f.ClusterWith(ctx, namespace, name, kubeconfig, importing.Selected)
	records := func() int { return len(f.V1Records(ctx, cluster)) + len(f.V3Records(ctx, cluster)) }
	Eventually(func(g Gomega) {
		g.Expect(records()).To(BeNumerically("<=", 1))
		g.Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))
	}).Should(Succeed())
	Expect(records()).To(Equal(1))
	Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	f.ExpectNothingLeft(ctx, cluster)
}

// managementRequest picks what belongs to an import of all that the manager asks of the management cluster: no watch,
// no list, nothing about Events or the Lease.
func managementRequest(r *http.Request) bool {
	return r.URL.Query().Get("watch") != "true" && !strings.Contains(r.URL.Path, "/leases") && !strings.HasSuffix(r.URL.Path, "/events") &&
		(r.Method != http.MethodGet || strings.Contains(r.URL.Path, "/secrets/") || strings.Contains(r.URL.Path, "/clusters/"))
}

func anyRequest(*http.Request) bool { return true }

// trap makes one request of the manager go wrong: the nth that matters.
type trap struct {
	at      int
	matters func(*http.Request) bool
	verdict proxy.Verdict
	sprung  func()

	mu   sync.Mutex
	seen int
}

func (t *trap) judge(r *http.Request) proxy.Verdict {
	if !t.matters(r) {
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
	r := &restartable{}
	r.start = func() *stage.Manager {
		m, err := f.StartManager(context.WithoutCancel(ctx), manager, GinkgoWriter, args...)
		Expect(err).NotTo(HaveOccurred())
		go func() {
			defer GinkgoRecover()
			<-m.Done()
			r.mu.Lock()
			defer r.mu.Unlock()
			// crash and the end of the node replace or stop it under the lock.
			Expect(r.m == m && !r.done).To(BeFalse(), "the manager ended by itself:\n%s", m.Logs())
		}()
		return m
	}
	r.mu.Lock()
	r.m = r.start()
	r.mu.Unlock()
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
