package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	settledClusters = 200
	syncPeriod      = 5 * time.Second
	// resyncs take a tenth longer or shorter.
	threeResyncs = 3*syncPeriod + 2*time.Second
)

// Clusters that are imported and connected cost nothing: no write, and no request beyond watches and the lease. Rancher
// is played by the spec itself, so that nobody else changes anything.
var _ = Describe("Settled clusters", Label("nightly"), Ordered, func() {
	var (
		f        *fixture
		token    string
		contacts atomic.Int32 // connections to workload clusters
	)
	BeforeAll(func(ctx context.Context) {
		f = newSilentFixture(ctx, "silence")
		token = f.metricsReader(ctx)
		server := countConnections(ctx, &contacts)
		f.startSilentManager(ctx)
		f.settle(ctx, server)
	}, NodeTimeout(10*time.Minute))

	It("cost no request in three resync periods", func(ctx context.Context) {
		before := f.reconciles(ctx, token)
		requests := len(f.Requests())
		Consistently(func() string { return importing.Listing(spoken(f.Requests()[requests:])) }).
			WithTimeout(threeResyncs).WithPolling(time.Second).Should(BeEmpty())
		Expect(contacts.Load()).To(BeZero())
		// Without this the silence could be that of a manager that does not look.
		Eventually(func() int { return f.reconciles(ctx, token) - before }).Should(BeNumerically(">=", 2*settledClusters), "looks at clusters")
	}, NodeTimeout(10*time.Minute))

	It("show in metrics to those who may read them", func(ctx context.Context) {
		status, body := f.scrape(ctx, token)
		Expect(status).To(Equal(http.StatusOK))
		Expect(body).To(ContainSubstring("archelon_import_stops_total"))
		status, _ = f.scrape(ctx, "")
		Expect(status).To(Equal(http.StatusUnauthorized))
		status, _ = f.scrape(ctx, token+"x")
		Expect(status).To(Equal(http.StatusUnauthorized))
		nobody := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody", Namespace: "default"}}
		Expect(f.Client.Create(ctx, nobody)).To(Succeed())
		config, err := f.Management.ServiceAccountConfig(ctx, nobody.Namespace, nobody.Name)
		Expect(err).NotTo(HaveOccurred())
		status, _ = f.scrape(ctx, config.BearerToken)
		Expect(status).To(Equal(http.StatusForbidden))
	})

	It("cost a new manager no more than lists and watches", func(ctx context.Context) {
		Expect(f.Manager.Stop()).To(Succeed())
		requests := len(f.Requests())
		f.startSilentManager(ctx)
		Eventually(func() int { return f.reconciles(ctx, token) }).WithTimeout(2 * patience).Should(BeNumerically(">=", settledClusters))
		Expect(importing.Listing(beyondStart(f.Requests()[requests:]))).To(BeEmpty())
		looked := len(f.Requests())
		Consistently(func() string { return importing.Listing(spoken(f.Requests()[looked:])) }).
			WithTimeout(threeResyncs).WithPolling(time.Second).Should(BeEmpty())
		Expect(contacts.Load()).To(BeZero())
	}, NodeTimeout(10*time.Minute))

	It("are looked at, so that a change is seen at once", func(ctx context.Context) {
		f.startSilentManager(ctx)
		list := &clusterv1.ClusterList{}
		Expect(f.Client.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(settledClusters))
		f.connected(ctx, f.V3Records(ctx, &list.Items[0])[0].Name, corev1.ConditionFalse)
		Eventually(f.Reason(ctx, &list.Items[0])).ShouldNot(Equal("True/Imported"))
		Eventually(contacts.Load).Should(BeNumerically(">", 0))
	})
})

// newSilentFixture is a management cluster with Rancher's CRDs and settings, and without Rancher.
func newSilentFixture(ctx context.Context, name string) *fixture {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	ranchers, err := rancher.CRDs(true)
	Expect(err).NotTo(HaveOccurred())
	management, err := env.Start(ctx, env.Options{Name: name, CRDs: append(crds, ranchers...), Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(management.Stop)
	s := &stage.Stage{Management: management, Client: importing.AdminClient(management)}
	Expect(s.Prepare(ctx)).To(Succeed())
	for name, value := range map[string]string{"server-url": "https://127.0.0.1:1", "cacerts": "", "agent-tls-mode": "system-store"} {
		Expect(s.Client.Create(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value})).To(Succeed())
	}
	return without(s)
}

func (f *fixture) startSilentManager(ctx context.Context) {
	GinkgoHelper()
	f.startManager(ctx, "--feature-gates=managementv3-cluster=true", "--sync-period="+syncPeriod.String())
}

// settle creates CAPI clusters and connects what the manager makes for them. When it returns nothing is left to do.
func (f *fixture) settle(ctx context.Context, server string) {
	GinkgoHelper()
	namespace := f.Namespace(ctx, nil)
	var clusters []*clusterv1.Cluster
	for i := range settledClusters {
		clusters = append(clusters, f.ClusterWith(ctx, namespace, fmt.Sprintf("settled-%d", i), usable(server), importing.Selected))
	}
	records := &managementv3.ClusterList{}
	Eventually(func() []managementv3.Cluster {
		Expect(f.Client.List(ctx, records)).To(Succeed())
		return records.Items
	}).WithTimeout(2 * patience).WithPolling(500 * time.Millisecond).Should(HaveLen(settledClusters))
	for i := range records.Items {
		f.connected(ctx, records.Items[i].Name, corev1.ConditionTrue)
	}
	for _, cluster := range clusters {
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	}
	// Now that they are connected, give each all that an installation of the agent would need.
	for i := range records.Items {
		f.register(ctx, records.Items[i].Name)
	}
	Eventually(func() int { return len(f.Notes(ctx, clusters[len(clusters)-1])) }).Should(Equal(2))
	// The last events and conditions are on their way.
	last := len(f.Requests())
	Eventually(func() bool {
		before := last
		last = len(f.Requests())
		return len(spoken(f.Requests()[before:])) == 0
	}).WithTimeout(2 * patience).WithPolling(2 * time.Second).Should(BeTrue())
}

// connected sets condition Connected of a v3 Cluster, as Rancher does.
func (f *fixture) connected(ctx context.Context, name string, status corev1.ConditionStatus) {
	GinkgoHelper()
	record := &managementv3.Cluster{}
	Expect(f.Client.Get(ctx, client.ObjectKey{Name: name}, record)).To(Succeed())
	before := record.DeepCopy()
	record.Status.Conditions = []managementv3.ClusterCondition{
		{Type: "Connected", Status: status, LastUpdateTime: time.Now().UTC().Format(time.RFC3339)},
		{Type: "Ready", Status: status},
		{Type: "Waiting", Status: corev1.ConditionTrue}, // from the first connection on
	}
	Expect(f.Client.Status().Patch(ctx, record, client.MergeFrom(before))).To(Succeed())
}

// register gives a v3 Cluster its namespace and a complete registration token, as Rancher does.
func (f *fixture) register(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, importing.NamespaceOf(name))).To(Succeed())
	token := &managementv3.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default-token"}}
	token.Spec.ClusterName = name
	Expect(f.Client.Create(ctx, token)).To(Succeed())
	token.Status.Token = strings.Repeat("t", 54)
	token.Status.ManifestURL = "https://127.0.0.1:1/v3/import/" + token.Status.Token + "_" + name + ".yaml"
	Expect(client.IgnoreNotFound(f.Client.Status().Update(ctx, token))).To(Succeed())
	Expect(f.Client.Update(ctx, token)).To(Succeed())
}

// countConnections listens as the API server of all workload clusters, and hangs up.
func countConnections(ctx context.Context, count *atomic.Int32) string {
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
			count.Add(1)
			_ = connection.Close()
		}
	}()
	return "https://" + listener.Addr().String()
}

// usable is a kubeconfig that nothing is wrong with but its server.
func usable(server string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server)
}

// spoken are the requests that a settled manager has no reason for: all but watches and the lease.
func spoken(events []auditv1.Event) []auditv1.Event {
	var found []auditv1.Event
	for _, e := range events {
		if e.Verb != "watch" && (e.ObjectRef == nil || e.ObjectRef.Resource != "leases") {
			found = append(found, e)
		}
	}
	return found
}

// beyondStart are those of spoken that a start does not explain: not lists, discovery, the reviews of who asks for
// metrics, and what a leader does in its own namespace.
func beyondStart(events []auditv1.Event) []auditv1.Event {
	var found []auditv1.Event
	for _, e := range spoken(events) {
		discovery := e.Verb == "get" && e.ObjectRef == nil
		ours := e.ObjectRef != nil && e.ObjectRef.Namespace == stage.SystemNamespace
		if e.Verb == "list" || discovery || ours || strings.HasSuffix(e.RequestURI, "reviews") {
			continue
		}
		found = append(found, e)
	}
	return found
}

var reconciled = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="rancher-import",result="[a-z_]+"\} (\d+)`)

// reconciles returns how many reconciles the manager has done.
func (f *fixture) reconciles(ctx context.Context, token string) int {
	GinkgoHelper()
	_, body := f.scrape(ctx, token)
	total := 0
	for _, match := range reconciled.FindAllStringSubmatch(body, -1) {
		n, err := strconv.Atoi(match[1])
		Expect(err).NotTo(HaveOccurred())
		total += n
	}
	return total
}
