package import_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

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
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period=1h")
	})
	BeforeEach(func(ctx context.Context) { namespace = f.Namespace(ctx, nil) })
	AfterEach(func(ctx context.Context) {
		list := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			Expect(client.IgnoreNotFound(f.Client.Delete(ctx, &list.Items[i]))).To(Succeed())
			Eventually(f.K(ctx).Get(&list.Items[i])).Should(Satisfy(apierrors.IsNotFound))
			f.ExpectNothingLeft(ctx, &list.Items[i])
		}
	})
	// goOn waits for an import that waited to go on soon, and for its end, which waits for other events.
	goOn := func(ctx context.Context, cluster *clusterv1.Cluster, waited string) {
		GinkgoHelper()
		Eventually(f.Reason(ctx, cluster)).WithTimeout(importing.Reaction).ShouldNot(Equal(waited))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	}

	It("goes on when the control plane comes up", func(ctx context.Context) {
		cluster := f.Cluster(ctx, namespace, "late")
		f.Status(ctx, cluster, builder.ControlPlaneAwaited)
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForControlPlane"))
		f.Status(ctx, cluster, builder.ControlPlaneUp)
		goOn(ctx, cluster, "False/WaitingForControlPlane")
	})

	It("goes on when Rancher fills in the registration token", func(ctx context.Context) {
		Expect(f.Rancher.HoldTokens(ctx, true)).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "token", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Consistently(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForRancher"))
		Expect(f.Rancher.HoldTokens(ctx, false)).To(Succeed())
		goOn(ctx, cluster, "False/WaitingForRancher")
	})

	It("goes on when the agent connects", func(ctx context.Context) {
		f.Rancher.HoldConnect(true)
		cluster := f.Cluster(ctx, namespace, "agent", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
		f.Rancher.HoldConnect(false)
		Eventually(func() any { return f.V3Records(ctx, cluster)[0].Status.Conditions }).Should(ContainElement(And(
			HaveField("Type", BeEquivalentTo("Connected")), HaveField("Status", BeEquivalentTo("True")),
		)), "the event, which is Rancher's")
		goOn(ctx, cluster, "False/WaitingForAgent")
	})

	It("goes on when the kubeconfig Secret appears", func(ctx context.Context) {
		cluster := f.Cluster(ctx, namespace, "kubeconfig")
		kubeconfig, err := f.Lane.Plane.Kubeconfig()
		Expect(err).NotTo(HaveOccurred())
		secret := builder.KubeconfigSecret(namespace, "kubeconfig", kubeconfig)
		Expect(f.Client.Delete(ctx, secret)).To(Succeed())
		f.Choose(ctx, cluster, "true")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/KubeconfigMissing"))
		Expect(f.Client.Create(ctx, secret)).To(Succeed())
		goOn(ctx, cluster, "False/KubeconfigMissing")
	})

	It("goes on when Rancher's server-url is set", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, "")).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "url", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/ServerURLMissing"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		goOn(ctx, cluster, "False/ServerURLMissing")
	})

	It("goes on when Rancher's server-url changes while the old address is dead", func(ctx context.Context) {
		url := f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, deadServer)).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "moved", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RancherUnreachable"))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		goOn(ctx, cluster, "False/RancherUnreachable")
	})

	It("imports without waiting for a timer, with few requests and one download", func(ctx context.Context) {
		const imports = 3
		var took []time.Duration
		for i := range imports {
			cluster := f.Cluster(ctx, namespace, fmt.Sprintf("quick-%d", i))
			managementBefore, workloadBefore, downloadsBefore := len(f.Requests()), len(f.workloadRequests()), len(f.Rancher.ImportRequests())
			f.Choose(ctx, cluster, "true")
			began := time.Now()
			Eventually(f.Reason(ctx, cluster)).WithPolling(10 * time.Millisecond).Should(Equal("True/Imported"))
			Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("Imported"))

			management := importing.PerObject(f.Requests()[managementBefore:])
			workload := f.workloadRequests()[workloadBefore:]
			applied := workload[len(workload)-1].StageTimestamp.Sub(began)
			took = append(took, applied)
			AddReportEntry(fmt.Sprintf("import %d", i), fmt.Sprintf("applied after %s, %d management requests, %d workload requests", applied, len(management), len(workload)))
			// What lasts is told, every three seconds at most.
			most := 8 + int(time.Since(began)/(3*time.Second))
			Expect(management).To(HaveLen(min(len(management), most)), "management requests:\n%s", importing.Listing(management))
			Expect(workload).To(HaveLen(min(len(workload), 14)), "workload requests:\n%s", importing.Listing(workload))
			Expect(f.Rancher.ImportRequests()).To(HaveLen(downloadsBefore + 1))

			// A settled cluster costs nothing, even when it is looked at.
			settled := len(importing.PerObject(f.Requests()))
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, "touched", "1") })
			Consistently(func() int { return len(importing.PerObject(f.Requests())) }).WithTimeout(300 * time.Millisecond).Should(Equal(settled))
			Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
			f.ExpectNothingLeft(ctx, cluster)
		}
		Expect(metricsText(ctx)).To(ContainSubstring("archelon_import_duration_seconds_count"))
		slices.Sort(took)
		Expect(took[imports/2]).To(BeNumerically("<", importing.Reaction))
	})

	AfterAll(func() {
		f.ExpectLawful()
		f.ExpectNoSecrets()
	})
})
