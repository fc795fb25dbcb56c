package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
)

// Trouble that does not end costs less and less, and is told. Rancher is played by the spec itself.
var _ = Describe("Trouble that lasts", Label("nightly"), Ordered, func() {
	var (
		f         *fixture
		namespace string
		server    string // of workload clusters; it takes connections and never says anything
	)
	BeforeAll(func(ctx context.Context) {
		f = newSilentFixture(ctx, "lasting")
		namespace = f.Namespace(ctx, nil)
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		server = "https://" + listener.Addr().String()
		// No request to a workload cluster is given up while a spec looks at something else.
		f.startManager(ctx, "--feature-gates=managementv3-cluster=true", "--workload-timeout=2m")
	}, NodeTimeout(10*time.Minute))

	It("is retried with backoff although the failure reads otherwise each time", func(ctx context.Context) {
		url := resetting(ctx)
		f.refuseRecords(ctx, admissionregistrationv1.WebhookClientConfig{URL: &url}, apierrors.IsInternalError)
		cluster := f.ClusterWith(ctx, namespace, "reset", usable(server), importing.Selected)

		var tries []auditv1.Event
		Eventually(func() int { tries = f.creations(); return len(tries) }).WithTimeout(2 * patience).Should(BeNumerically(">=", 10))
		// The first may be doubled by the event of the name that was written ahead. After that the
		// delays double from 200 ms on.
		Expect(tries[7].RequestReceivedTimestamp.Sub(tries[0].RequestReceivedTimestamp.Time)).To(BeNumerically(">", 5*time.Second))
		Expect(len(f.told(cluster))).To(BeNumerically("<=", 2), "writes of the condition")
		found := conditions.Get(importing.Current(ctx, f.Client, cluster), importing.Condition)
		Expect(found).To(HaveField("Reason", "InternalError"))
		Expect(found.Message).To(And(ContainSubstring("failed calling webhook"), Not(ContainSubstring("->"))))

		By("removing the condition, as a restored backup does, which is seen before the next try, after 100 seconds")
		f.Status(ctx, cluster, func(c *clusterv1.Cluster) { conditions.Delete(c, importing.Condition) })
		Eventually(f.Reason(ctx, cluster)).WithTimeout(time.Minute).Should(Equal("False/InternalError"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	})

	It("is retried ever later if it is a conflict, and told", func(ctx context.Context) {
		before := len(f.creations())
		back := f.refuseRecords(ctx, conflicting(), apierrors.IsConflict)
		cluster := f.ClusterWith(ctx, namespace, "conflict", usable(server), importing.Selected)

		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/InternalError"))
		Expect(len(f.creations())-before).To(BeNumerically("<=", 16), "tries until it is told")
		Expect(conditions.Get(importing.Current(ctx, f.Client, cluster), importing.Condition).Message).
			To(And(ContainSubstring("of the spec"), ContainSubstring("409")))

		Expect(f.Client.Delete(ctx, back)).To(Succeed())
		Eventually(func() []managementv3.Cluster { return f.V3Records(ctx, cluster) }).Should(HaveLen(1))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	})

	It("is retried while a connection is lost, which comes back without a second import", func(ctx context.Context) {
		token := f.metricsReader(ctx)
		imports := func() string {
			_, body := f.scrape(ctx, token)
			return regexp.MustCompile(`(?m)^archelon_import_duration_seconds_count.*$`).FindString(body)
		}
		cluster := f.ClusterWith(ctx, namespace, "known", usable(server), importing.Selected)
		Eventually(func() []managementv3.Cluster { return f.V3Records(ctx, cluster) }).Should(HaveLen(1))
		record := f.V3Records(ctx, cluster)[0].Name
		f.register(ctx, record)
		f.connected(ctx, record, corev1.ConditionTrue)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		counted := ""
		Eventually(func() string { counted = imports(); return counted }).Should(HaveSuffix(" 1"))

		written := len(f.told(cluster))
		f.connected(ctx, record, corev1.ConditionFalse)
		Eventually(f.Reason(ctx, cluster)).ShouldNot(Equal("True/Imported"))
		Expect(f.Reason(ctx, cluster)()).To(Equal("False/AgentDisconnected"), "while the workload cluster does not answer")
		Eventually(func() []string { return f.Events(ctx, cluster) }).Should(ContainElement("AgentDisconnected"))
		f.connected(ctx, record, corev1.ConditionTrue)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.told(cluster)[written:]).To(HaveLen(2), "writes of the condition")
		Expect(imports()).To(Equal(counted))
	})
})

// creations are the requests of the manager that would have made a v3 Cluster.
func (f *fixture) creations() []auditv1.Event {
	GinkgoHelper()
	var found []auditv1.Event
	for _, e := range importing.PerObject(f.Requests()) {
		if e.Verb == "create" && e.ObjectRef.APIGroup == "management.cattle.io" && e.ObjectRef.Resource == "clusters" {
			found = append(found, e)
		}
	}
	return found
}

// told are the writes of the manager to the status of a CAPI cluster.
func (f *fixture) told(cluster *clusterv1.Cluster) []auditv1.Event {
	GinkgoHelper()
	var found []auditv1.Event
	for _, e := range f.RequestsFor(cluster) {
		if e.ObjectRef.Name == cluster.Name && e.ObjectRef.Subresource == "status" {
			found = append(found, e)
		}
	}
	return found
}

// refuseRecords has a webhook asked about new v3 Clusters, and returns when it is.
func (f *fixture) refuseRecords(ctx context.Context, by admissionregistrationv1.WebhookClientConfig, how func(error) bool) client.Object {
	GinkgoHelper()
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "lasting"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "lasting.example.com", ClientConfig: by, AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"management.cattle.io"}, APIVersions: []string{"v3"}, Resources: []string{"clusters"}},
			}},
		}},
	}
	Expect(f.Client.Create(ctx, webhook)).To(Succeed())
	DeferCleanup(func(ctx context.Context) error { return client.IgnoreNotFound(f.Client.Delete(ctx, webhook)) })
	Eventually(func() error {
		return f.Client.Create(ctx, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-probe"}}, client.DryRunAll)
	}).Should(MatchError(how, "the refusal of the webhook"))
	return webhook
}

// resetting is the URL of a server that resets every connection, as a proxy does whose backend is gone.
func resetting(ctx context.Context) string {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			// The client has begun to read by then, so that its error has both addresses.
			_, _ = connection.Read(make([]byte, 1))
			if tcp, ok := connection.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = connection.Close()
		}
	}()
	return "https://" + listener.Addr().String() + "/"
}

// conflicting is a webhook that refuses everything with a code that means a conflict everywhere else.
func conflicting() admissionregistrationv1.WebhookClientConfig {
	GinkgoHelper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if json.NewDecoder(r.Body).Decode(review) != nil || review.Request == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusConflict, Message: "quota of the spec"}}
		review.Request = nil
		body, err := json.Marshal(review)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(body)
	}))
	DeferCleanup(server.Close)
	return admissionregistrationv1.WebhookClientConfig{
		URL:      &server.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}
