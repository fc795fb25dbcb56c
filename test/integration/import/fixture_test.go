package import_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// A literal of the contract, as those of package importing.
const managedBy = "archelon.io/managed-by"

// manager is no program: managers run in this process.
const manager = ""

// fixture is that of package importing, with managers in this process.
type fixture struct{ *importing.Fixture }

func newFixture(ctx context.Context, opts stage.Options) *fixture {
	GinkgoHelper()
	return fixtureOn(ctx, startStage(ctx, opts), env.Options{Name: opts.Name + "-workload", Audit: true})
}

// fixtureOn adds a workload cluster to a stage.
func fixtureOn(ctx context.Context, s *stage.Stage, workload env.Options) *fixture {
	GinkgoHelper()
	return &fixture{importing.New(ctx, s, workload)}
}

// startStage sets a stage for the time of the node, on control planes that other containers have used.
func startStage(ctx context.Context, opts stage.Options) *stage.Stage {
	GinkgoHelper()
	opts.Kept = planes
	s, err := stage.Start(ctx, opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	s.Values, s.Launch = importing.Values(), launch
	return s
}

// startManager runs the manager until the node ends, and until it is ready.
func (f *fixture) startManager(ctx context.Context, args ...string) {
	GinkgoHelper()
	f.StartLeader(ctx, manager, args...)
}

// run starts a manager that may be killed, and waits until it is ready. It does not wait for the Lease of one that was
// killed.
func (f *fixture) run(ctx context.Context, args ...string) {
	GinkgoHelper()
	m, err := f.StartManager(ctx, manager, GinkgoWriter, append([]string{"-v=1"}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	f.Manager = m
	DeferCleanup(func() {
		select {
		case <-m.Done(): // It was killed, or a spec has stopped it.
		default:
			Expect(m.Stop()).To(Succeed())
		}
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
		Expect(m.Logs()).NotTo(ContainSubstring("panic"))
	})
	Eventually(m.Ready).WithContext(ctx).Should(Succeed())
}

// expectNoAgent waits until Rancher has cleaned up in the workload cluster. An import that begins before
// looks again after seconds only.
func (f *fixture) expectNoAgent(ctx context.Context) {
	GinkgoHelper()
	Eventually(f.Lane.K(ctx).Get(importing.NamespaceOf(importing.AgentNamespace))).
		Should(Satisfy(apierrors.IsNotFound), "namespace %s in the workload cluster", importing.AgentNamespace)
}

// workloadRequests returns the audited requests of the manager to the workload cluster.
func (f *fixture) workloadRequests() []auditv1.Event {
	GinkgoHelper()
	events, err := f.Lane.Plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return !strings.HasPrefix(e.UserAgent, "archelon") })
}

// workloadWrites returns those of workloadRequests that are meant to change something.
func (f *fixture) workloadWrites() []auditv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(f.workloadRequests(), readsOnly)
}

// turtlesV3Record creates a record of Rancher Turtles.
func (f *fixture) turtlesV3Record(ctx context.Context, cluster *clusterv1.Cluster) *managementv3.Cluster {
	GinkgoHelper()
	record := builder.TurtlesV3Record(cluster)
	Expect(f.Client.Create(ctx, record)).To(Succeed())
	return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: record.GetName()}}
}

// metricsText returns the metrics of the manager that was started last, as it would serve them.
func metricsText(ctx context.Context) string {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}
