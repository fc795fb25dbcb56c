package import_test

import (
	"context"
	"fmt"
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

// Every phase is woken by its event, and an import costs what it has to.
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
		f.startManager(ctx, loud, "--feature-gates=managementv3-cluster=true", "--sync-period=1h")
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
	// goOn waits for an import that waited to go on soon, and for its end, which waits for other events.
	goOn := func(ctx context.Context, cluster *clusterv1.Cluster, waited string) {
		GinkgoHelper()
		Eventually(f.reason(ctx, cluster)).WithTimeout(reaction).ShouldNot(Equal(waited))
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
	}
	selected := func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: "true"} }

	It("goes on when the control plane comes up", func(ctx context.Context) {
		cluster := f.cluster(ctx, namespace, "late")
		f.status(ctx, cluster, builder.ControlPlaneDown)
		f.choose(ctx, cluster, "true")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
		f.status(ctx, cluster, builder.ControlPlaneUp)
		goOn(ctx, cluster, "False/WaitingForControlPlane")
	})

	It("goes on when Rancher fills in the registration token", func(ctx context.Context) {
		Expect(f.Rancher.HoldTokens(ctx, true)).To(Succeed())
		cluster := f.cluster(ctx, namespace, "token", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Consistently(f.reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Expect(f.Rancher.HoldTokens(ctx, false)).To(Succeed())
		goOn(ctx, cluster, "False/WaitingForRancher")
	})

	It("goes on when the agent connects", func(ctx context.Context) {
		f.Rancher.HoldConnect(true)
		cluster := f.cluster(ctx, namespace, "agent", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
		f.Rancher.HoldConnect(false)
		goOn(ctx, cluster, "False/WaitingForAgent")
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
		goOn(ctx, cluster, "False/KubeconfigMissing")
	})

	It("goes on when Rancher's server-url is set", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, "")).To(Succeed())
		cluster := f.cluster(ctx, namespace, "url", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/ServerURLMissing"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		goOn(ctx, cluster, "False/ServerURLMissing")
	})

	It("goes on when Rancher's server-url changes while the old address is dead", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, deadServer)).To(Succeed())
		cluster := f.cluster(ctx, namespace, "moved", selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RancherUnreachable"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		goOn(ctx, cluster, "False/RancherUnreachable")
	})

	It("imports without waiting for a timer, with few requests and one download", func(ctx context.Context) {
		const imports = 3
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
			// What lasts is told, every three seconds at most.
			most := 8 + int(time.Since(began)/(3*time.Second))
			Expect(management).To(HaveLen(min(len(management), most)), "management requests:\n%s", describe(management))
			Expect(workload).To(HaveLen(min(len(workload), 14)), "workload requests:\n%s", describe(workload))
			Expect(f.Rancher.ImportRequests()).To(HaveLen(downloadsBefore + 1))

			// A settled cluster costs nothing, even when it is looked at.
			settled := len(perObject(f.requests()))
			f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, "touched", "1") })
			Consistently(func() int { return len(perObject(f.requests())) }).WithTimeout(300 * time.Millisecond).Should(Equal(settled))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.expectNothingLeft(ctx, cluster)
		}
		Expect(metricsText(ctx)).To(ContainSubstring("archelon_import_duration_seconds_count"))
		slices.Sort(took)
		Expect(took[imports/2]).To(BeNumerically("<", reaction))
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
