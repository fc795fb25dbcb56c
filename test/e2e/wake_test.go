package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// reaction is how long a phase may take to go on when its event has come. It is shorter than every timer that
// would wake it otherwise (5 s, 30 s, 5 min, the resync), and long enough for a loaded machine.
const reaction = 4 * time.Second

// deadServer is a server-url at which nobody answers.
const deadServer = "https://127.0.0.1:1"

// Scenario 2: every phase is woken by its event, and an import costs what it has to.
var _ = Describe("Watches", Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "wake", Audit: true, Rancher: func(o *rancher.Options) {
			o.Timings = rancher.Timings{AgentRetry: 50 * time.Millisecond, NamespaceController: 5 * time.Second, Poll: 50 * time.Millisecond, TokenGrace: time.Minute}
			o.Logger = GinkgoLogr
		}})
		f.startManager(ctx, "--feature-gates=managementv3-cluster=true", "--sync-period=1h")
	})
	BeforeEach(func(ctx context.Context) { namespace = f.namespace(ctx, nil) })
	AfterEach(func(ctx context.Context) {
		list := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, &list.Items[i]))).To(Succeed())
			Eventually(f.gone(ctx, &list.Items[i])).Should(BeTrue())
			f.expectNothingLeft(ctx, &list.Items[i])
		}
	})
	soon := func(actual any) AsyncAssertion { return Eventually(actual).WithTimeout(reaction) }
	selected := func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} }

	It("goes on when the control plane comes up", func(ctx context.Context) {
		cluster := f.cluster(ctx, namespace, "late")
		f.status(ctx, cluster, builder.ControlPlaneDown)
		f.choose(ctx, cluster, "true")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
		f.status(ctx, cluster, builder.ControlPlaneUp)
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when Rancher fills in the registration token", func(ctx context.Context) {
		Expect(f.Rancher.HoldTokens(ctx, true)).To(Succeed())
		cluster := f.cluster(ctx, namespace, "token", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Consistently(f.reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Expect(f.Rancher.HoldTokens(ctx, false)).To(Succeed())
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when the agent connects", func(ctx context.Context) {
		f.Rancher.HoldConnect(true)
		cluster := f.cluster(ctx, namespace, "agent", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
		f.Rancher.HoldConnect(false)
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when the kubeconfig Secret appears", func(ctx context.Context) {
		cluster := f.cluster(ctx, namespace, "kubeconfig")
		kubeconfig, err := f.workload.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		secret := builder.KubeconfigSecret(namespace, "kubeconfig", kubeconfig)
		Expect(f.Client.Delete(ctx, secret)).To(Succeed())
		f.choose(ctx, cluster, "true")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/KubeconfigMissing"))
		Expect(f.Client.Create(ctx, secret)).To(Succeed())
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when Rancher's server-url is set", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, "")).To(Succeed())
		cluster := f.cluster(ctx, namespace, "url", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/ServerURLMissing"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("goes on when Rancher's server-url changes while the old address is dead", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, deadServer)).To(Succeed())
		cluster := f.cluster(ctx, namespace, "moved", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RancherUnreachable"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		soon(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	})

	It("imports without waiting for a timer, with few requests and one download", func(ctx context.Context) {
		const imports = 5
		var took []time.Duration
		for i := range imports {
			cluster := f.cluster(ctx, namespace, fmt.Sprintf("quick-%d", i))
			managementBefore, workloadBefore, downloadsBefore := len(f.requests()), len(f.workloadRequests()), len(f.Rancher.ImportRequests())
			f.choose(ctx, cluster, "true")
			began := time.Now()
			Eventually(f.reason(ctx, cluster)).WithPolling(10 * time.Millisecond).Should(Equal("True/Imported"))
			Eventually(func() []string { return f.events(ctx, cluster) }).Should(ContainElement("Imported"))

			management := perObject(f.requests()[managementBefore:])
			workload := f.workloadRequests()[workloadBefore:]
			applied := workload[len(workload)-1].StageTimestamp.Sub(began)
			took = append(took, applied)
			AddReportEntry(fmt.Sprintf("import %d", i), fmt.Sprintf("applied after %s, %d management requests, %d workload requests", applied, len(management), len(workload)))
			Expect(management).To(HaveLen(min(len(management), 10)), "management requests:\n%s", describe(management))
			Expect(workload).To(HaveLen(min(len(workload), 14)), "workload requests:\n%s", describe(workload))
			Expect(f.Rancher.ImportRequests()).To(HaveLen(downloadsBefore + 1))

			// A settled cluster costs nothing, even when it is looked at.
			settled := len(perObject(f.requests()))
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, "touched", "1") })
			Consistently(func() int { return len(perObject(f.requests())) }).WithTimeout(300 * time.Millisecond).Should(Equal(settled))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.expectNothingLeft(ctx, cluster)
		}
		slices.Sort(took)
		Expect(took[imports/2]).To(BeNumerically("<", reaction))
	})

	It("serves metrics to those who may read them", func(ctx context.Context) {
		token := f.metricsReader(ctx)
		status, body := f.scrape(ctx, token)
		Expect(status).To(Equal(http.StatusOK))
		Expect(body).To(And(ContainSubstring("archelon_import_duration_seconds_count"), ContainSubstring("archelon_import_stops_total")))
		status, _ = f.scrape(ctx, "")
		Expect(status).To(Equal(http.StatusUnauthorized))
	})

	AfterAll(func() {
		expectLawful(f)
		expectNoSecrets(f)
	})
})

// perObject drops what is not caused by a single import: watches, the lists before them, discovery and probes.
func perObject(events []auditv1.Event) []auditv1.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e auditv1.Event) bool {
		return e.Verb == "watch" || e.Verb == "list" || e.ObjectRef == nil || e.ObjectRef.Resource == "leases"
	})
}

func describe(events []auditv1.Event) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %d", e.Verb, e.RequestURI, e.ResponseStatus.Code))
	}
	return strings.Join(lines, "\n")
}

// workloadRequests returns the audited requests of the manager to the workload cluster.
func (f *fixture) workloadRequests() []auditv1.Event {
	GinkgoHelper()
	events, err := f.workload.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return !strings.HasPrefix(e.UserAgent, "archelon") })
}

// scrape reads the manager's metrics with a bearer token.
func (f *fixture) scrape(ctx context.Context, token string) (int, string) {
	GinkgoHelper()
	code, body, err := scrape(ctx, f.manager.Metrics, token)
	Expect(err).NotTo(HaveOccurred())
	return code, body
}

// scrape reads metrics under a URL with a bearer token.
func scrape(ctx context.Context, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the manager signs its own
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
