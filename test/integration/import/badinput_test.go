package import_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	// marker is part of every secret that these specs make up.
	marker = "do-not-show"
	// forbidden matches what no condition, Event or log line may hold: such a secret, a token of
	// Rancher, PEM, and PEM in base64.
	forbidden = marker + `|[bcdfghjklmnpqrstvwxz2-9]{54}|-----BEGIN|LS0tLS1CRUdJTi`

	// window is how long tries are counted at least.
	window = 8 * time.Second

	// manifestTimeout is enough for manifests that are too large, all at once from a busy machine. One spec waits for it
	// twice in vain.
	manifestTimeout = 10 * time.Second
)

// rate is how often an import is tried.
type rate int

const (
	// never: what is wrong shows before a workload cluster is asked.
	never rate = iota
	// once: only an event leads to another try. There may be a second, by an event of the beginning.
	once
	// growing: each try is followed by a pause, of 1, 2, 4... seconds.
	growing
)

// badInput is one thing that is wrong.
type badInput struct {
	// what is wrong; the name of the spec.
	what string
	// name of the CAPI cluster.
	name string
	// reason of the condition.
	reason string
	// remedy is a pattern that the message matches.
	remedy string
	// rate is how often it is tried.
	rate rate
}

// part returns what everyday runs show of the things that are wrong, or what they leave to the night. Tests beside the
// code have a row for each.
func part(night bool, cases []badInput, everyday ...string) []badInput {
	return slices.DeleteFunc(cases, func(c badInput) bool { return slices.Contains(everyday, c.name) == night })
}

func names(cases []badInput) []string {
	var list []string
	for _, c := range cases {
		list = append(list, c.name)
	}
	return list
}

func entries(cases []badInput) []TableEntry {
	var list []TableEntry
	for _, c := range cases {
		list = append(list, Entry(c.what, c))
	}
	return list
}

// badWorld is a fixture with a light workload cluster for each CAPI cluster.
type badWorld struct {
	*fixture
	servers *workloadserver.Server

	mu     sync.Mutex
	writes map[string]int // of the manager, by workload cluster
}

// Whatever is wrong has a reason of its own and a message that names the remedy, shows no secret and is not tried all
// the time; once it is put right the import goes on to its end. The clusters of a group are looked at together, because
// the pauses between tries take their time. For the same reason there are two worlds, side by side.
var (
	_ = Describe("Bad input", Ordered, ContinueOnFailure, func() {
		w := newBadWorld()
		Describe("of Rancher's manifest", Ordered, func() { w.badManifests(false) })
		Describe("of Rancher's manifest, in more ways", Label("nightly"), Ordered, func() { w.badManifests(true) })
		Describe("of objects", Ordered, w.badObjects)
	})
	_ = Describe("Bad input", Ordered, ContinueOnFailure, func() {
		w := newBadWorld()
		Describe("of Rancher's settings", Ordered, w.badSettings)
		Describe("of Rancher's tokens", Ordered, w.badTokens)
		Describe("of kubeconfigs", Ordered, func() { w.badKubeconfigs(false) })
		Describe("of kubeconfigs, in more ways", Label("nightly"), Ordered, func() { w.badKubeconfigs(true) })
	})
)

// newBadWorld returns the world of the container that is being built.
func newBadWorld() *badWorld {
	w := &badWorld{writes: map[string]int{}}
	BeforeAll(func(ctx context.Context) {
		w.fixture = newFixture(ctx, stage.Options{Name: "badinput", Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		var err error
		w.servers, err = workloadserver.Start(context.WithoutCancel(ctx), w.observe)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.servers.Stop)
		w.Values = nil // The admission policy refuses some of it, so that it cannot be there, and a manager that adopts takes a record of Turtles.
		w.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period=1h",
			"--manifest-timeout="+manifestTimeout.String())
	})
	AfterEach(func() { Expect(w.Manager.Done()).NotTo(BeClosed()) })
	AfterAll(func() {
		w.ExpectNoSecrets()
		Expect(w.Manager.Logs()).NotTo(MatchRegexp(forbidden))
		Expect(w.Manager.Logs()).NotTo(ContainSubstring("panic"))
	})
	return w
}

// observe counts what the manager changes in light workload clusters.
func (w *badWorld) observe(r workloadserver.Request) {
	if r.Client != "archelon" || r.Verb == "get" || r.Verb == "list" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[r.Cluster]++
}

// applied returns how many writes of the manager the workload cluster of a CAPI cluster has seen.
func (w *badWorld) applied(cluster *clusterv1.Cluster) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes[cluster.Namespace]
}

// bareCluster creates a CAPI cluster whose control plane is up, in a namespace and with a workload cluster of its own,
// and without a kubeconfig Secret.
func (w *badWorld) bareCluster(ctx context.Context, name string, labels map[string]string) *clusterv1.Cluster {
	GinkgoHelper()
	cluster := builder.Cluster(w.Namespace(ctx, nil), name)
	cluster.Labels = labels
	config := w.servers.Config(cluster.Namespace)
	config.ContentType = "application/json" // all that a light one understands
	Expect(w.Rancher.AddWorkload(cluster.Namespace, config)).To(Succeed())
	Expect(w.Client.Create(ctx, cluster)).To(Succeed())
	w.Status(ctx, cluster, builder.ControlPlaneUp)
	return cluster
}

// kubeconfig returns the Secret with a good kubeconfig for a CAPI cluster.
func (w *badWorld) kubeconfig(cluster *clusterv1.Cluster) *corev1.Secret {
	GinkgoHelper()
	content, err := w.servers.Kubeconfig(cluster.Namespace)
	Expect(err).NotTo(HaveOccurred())
	return builder.KubeconfigSecret(cluster.Namespace, cluster.Name, content)
}

// symptoms are what shows of something wrong.
type symptoms struct {
	reason, message string
	notes           []string // of Events
	tries           []time.Time
	applied         int // writes in the workload cluster
	at              time.Time
}

// examine waits until every cluster has had time for several tries, and has had two if it should,
// and reports on all of them.
func (w *badWorld) examine(ctx context.Context, clusters map[string]*clusterv1.Cluster, during time.Duration, cases ...badInput) map[string]symptoms {
	GinkgoHelper()
	if len(cases) == 1 { // Of several each is to fail by itself. On a busy machine Rancher may take its time, and something else is wrong until then.
		Eventually(w.Reason(ctx, clusters[cases[0].name])).Should(Equal("False/" + cases[0].reason))
	}
	// On a busy machine a first try may begin late, and a second one has to wait for its time.
	Eventually(func() []string { return w.triedOnce(clusters, cases) }).WithPolling(time.Second).Should(BeEmpty(), "clusters that wait for a second try")
	Consistently(w.Manager.Done()).WithTimeout(during).ShouldNot(BeClosed())
	found := map[string]symptoms{}
	for name, cluster := range clusters {
		progress := BeElementOf("none", "False/WaitingForRancher", "False/WaitingForControlPlane", "False/ConnectingAgent")
		Eventually(w.Reason(ctx, cluster)).ShouldNot(progress, name)
		state := conditions.Get(importing.Current(ctx, w.Client, cluster), importing.Condition)
		reason := string(state.Status) + "/" + state.Reason
		var notes []string
		Eventually(func() []string { notes = w.Notes(ctx, cluster); return notes }).Should(ContainElement(state.Message), name)
		found[name] = symptoms{reason: reason, message: state.Message, notes: notes, applied: w.applied(cluster)}
	}
	tries := w.tries()
	for name, cluster := range clusters {
		s := found[name]
		s.tries, s.at = tries[client.ObjectKeyFromObject(cluster)], time.Now()
		found[name] = s
	}
	return found
}

// triedOnce returns which clusters should be tried again and again and have not had a second try.
func (w *badWorld) triedOnce(clusters map[string]*clusterv1.Cluster, cases []badInput) []string {
	GinkgoHelper()
	var waiting []string
	tries := w.tries()
	for _, c := range cases {
		if c.rate == growing && len(tries[client.ObjectKeyFromObject(clusters[c.name])]) < 2 {
			waiting = append(waiting, c.name)
		}
	}
	return waiting
}

// tries returns when the manager began to install the agent of each cluster: that is when it reads the
// kubeconfig, and at no other time.
func (w *badWorld) tries() map[client.ObjectKey][]time.Time {
	GinkgoHelper()
	times := map[client.ObjectKey][]time.Time{}
	for _, e := range w.Requests() {
		if e.Verb != "get" || e.ObjectRef == nil || e.ObjectRef.Resource != "secrets" {
			continue
		}
		if name, ok := strings.CutSuffix(e.ObjectRef.Name, "-kubeconfig"); ok {
			key := client.ObjectKey{Namespace: e.ObjectRef.Namespace, Name: name}
			times[key] = append(times[key], e.RequestReceivedTimestamp.Time)
		}
	}
	return times
}

// expect asserts that the symptoms are those of one thing that is wrong.
func (c badInput) expect(s symptoms) {
	GinkgoHelper()
	AddReportEntry(s.reason, fmt.Sprintf("%s (%d tries)", s.message, len(s.tries)))
	Expect(s.reason).To(Equal("False/" + c.reason))
	Expect(s.message).To(MatchRegexp(c.remedy))
	for _, text := range append(s.notes, s.message) {
		Expect(text).NotTo(MatchRegexp(forbidden))
	}
	Expect(s.applied).To(BeZero(), "writes in the workload cluster")
	switch c.rate {
	case never:
		Expect(s.tries).To(BeEmpty())
	case once:
		Expect(len(s.tries)).To(BeNumerically("<=", 2), "tries")
	case growing:
		passed := s.at.Sub(s.tries[0])
		Expect(len(s.tries)).To(And(BeNumerically(">=", 2), BeNumerically("<=", mostTries(passed, time.Second))), "tries in %s", passed)
	}
}

// mostTries returns how many tries there can be when the first pause takes base and each one twice as long as that
// before it. An event may bring one more.
func mostTries(passed, base time.Duration) int {
	return 2 + int(math.Log2(1+passed.Seconds()/base.Seconds()))
}

// begin creates CAPI clusters while Rancher holds its tokens back, and lets go when all that it writes by itself is
// written: else that would be one more event. None has a kubeconfig Secret.
func (w *badWorld) begin(ctx context.Context, names []string, change func(*clusterv1.Cluster)) map[string]*clusterv1.Cluster {
	GinkgoHelper()
	Expect(w.Rancher.HoldTokens(ctx, true)).To(Succeed())
	clusters := map[string]*clusterv1.Cluster{}
	for _, name := range names {
		clusters[name] = w.bareCluster(ctx, name, nil)
		change(clusters[name])
		w.Choose(ctx, importing.Current(ctx, w.Client, clusters[name]), "true")
	}
	for name, cluster := range clusters {
		Eventually(func() bool {
			records := w.V3Records(ctx, cluster)
			return len(records) == 1 && slices.ContainsFunc(records[0].Status.Conditions, func(c managementv3.ClusterCondition) bool {
				return c.Type == "Connected" && c.Status == corev1.ConditionFalse
			})
		}).Should(BeTrue(), name)
	}
	return clusters
}

func (w *badWorld) release(ctx context.Context) {
	GinkgoHelper()
	Expect(w.Rancher.HoldTokens(ctx, false)).To(Succeed())
}

func (w *badWorld) badManifests(night bool) {
	var (
		clusters  = map[string]*clusterv1.Cluster{}
		strangers atomic.Int32
		stranger  = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	)
	var found map[string]symptoms
	downloads := map[string]int{}
	const (
		lookAtRancher = "log of Rancher"
		lookBetween   = "Check the proxies"
	)
	faults := map[string]rancher.Fault{
		"refused":   {Kind: rancher.FaultStatus, Status: http.StatusBadRequest},
		"not-found": {Kind: rancher.FaultStatus, Status: http.StatusNotFound},
		"error":     {Kind: rancher.FaultStatus, Status: http.StatusInternalServerError},
		"teapot":    {Kind: rancher.FaultStatus, Status: http.StatusTeapot},
		"html":      {Kind: rancher.FaultHTML},
		"empty":     {Kind: rancher.FaultEmpty},
		"truncated": {Kind: rancher.FaultTruncated},
		"cut":       {Kind: rancher.FaultCut},
		"large":     {Kind: rancher.FaultLarge, Bytes: 5 << 20},
		"endless":   {Kind: rancher.FaultEndless},
		"not-yaml":  {Kind: rancher.FaultNotYAML},
		"foreign":   {Kind: rancher.FaultForeignKind},
		"no-secret": {Kind: rancher.FaultNoSecret},
		"redirect":  {Kind: rancher.FaultRedirect},
		"hang":      {Kind: rancher.FaultHang},
		"drop":      {Kind: rancher.FaultDrop},
	}
	during := window
	if night {
		during = 2 * window // One of them has a timeout.
	}
	cases := part(night, []badInput{
		{"status 400", "refused", "RegistrationRefused", "delete ClusterRegistrationToken", growing},
		{"status 404", "not-found", "ManifestNotFound", "Check that Rancher's setting server-url", growing},
		{"status 500", "error", "RancherServerError", lookAtRancher, growing},
		{"another status", "teapot", "ManifestUnexpectedStatus", lookBetween, growing},
		{"a login page", "html", "ManifestIsHTML", "needs no login", growing},
		{"nothing", "empty", "ManifestEmpty", lookAtRancher, growing},
		{"half a manifest", "truncated", "ManifestTruncated", lookBetween, growing},
		{"half a manifest that ends well", "cut", "ManifestNotYAML", lookAtRancher, growing},
		{"5 MiB", "large", "ManifestTooLarge", "Check that Rancher's setting server-url", growing},
		{"a manifest without end", "endless", "ManifestTooLarge", "Check that Rancher's setting server-url", growing},
		{"no YAML", "not-yaml", "ManifestNotYAML", lookAtRancher, growing},
		{"an object of a foreign kind", "foreign", "ManifestForeignObject", "Nothing was applied", growing},
		{"a Deployment without its Secret", "no-secret", "ManifestIncomplete", lookAtRancher, growing},
		{"a redirect to another host", "redirect", "ManifestRedirected", "Set Rancher's setting server-url", growing},
		{"no answer", "hang", "RancherTimeout", "Check its load, and the network", growing},
		{"a closed connection", "drop", "RancherUnreachable", "Check what answers at Rancher's server-url", growing},
	}, "refused", "html", "truncated", "foreign", "redirect")
	BeforeAll(func(ctx context.Context) {
		stranger.StartTLS()
		DeferCleanup(stranger.Close)
		clusters = w.begin(ctx, names(cases), func(cluster *clusterv1.Cluster) {
			Expect(w.Client.Create(ctx, w.kubeconfig(cluster))).To(Succeed())
			// Half of a short manifest would still be in a buffer of Rancher's when the connection ends.
			w.Patch(ctx, cluster, func(o client.Object) {
				importing.SetAnnotation(o, "archelon.io/agent-env", "LONG: "+strings.Repeat("x", 8000))
			})
		})
		for name, cluster := range clusters {
			fault := faults[name]
			fault.Cluster = w.V3Records(ctx, cluster)[0].Name
			fault.Location = stranger.URL
			w.Rancher.SetFault(fault)
		}
		w.release(ctx)
		counted := func() map[string]int {
			counts := map[string]int{}
			for _, request := range w.Rancher.ImportRequests() {
				counts[request.Cluster]++
			}
			return counts
		}
		for name, cluster := range clusters {
			id := w.V3Records(ctx, cluster)[0].Name
			Eventually(func() int { return counted()[id] }).Should(BeNumerically(">=", 2), name)
		}
		found = w.examine(ctx, clusters, during, cases...)
		downloads = counted()
		w.Rancher.ClearFaults()
	})
	DescribeTable("tells what came, and goes on when Rancher answers properly", func(ctx context.Context, c badInput) {
		c.expect(found[c.name])
		// A try that ends while the symptoms are looked at is not among theirs.
		id := w.V3Records(ctx, clusters[c.name])[0].Name
		Expect(downloads[id]).To(And(BeNumerically(">=", 2), BeNumerically("<=", len(found[c.name].tries)+1)), "downloads")
		Eventually(w.Reason(ctx, clusters[c.name])).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	}, entries(cases))
	if !night {
		It("follows nobody to another host", func() { Expect(strangers.Load()).To(BeZero()) })
	}
}

func (w *badWorld) badSettings() {
	type step func(context.Context, *clusterv1.Cluster)
	set := func(name string, value func() string) step {
		return func(ctx context.Context, _ *clusterv1.Cluster) {
			GinkgoHelper()
			object := &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: name}}
			w.Patch(ctx, importing.Current(ctx, w.Client, object), func(client.Object) { object.Value = value() })
		}
	}
	to := func(value string) func() string { return func() string { return value } }
	var (
		otherCA   = func() string { return string(w.Management.Config.CAData) }
		rancherCA = func() string { return string(w.Rancher.CACert()) }
		serverURL = func() string { return w.Rancher.URL() }
		plainURL  = func() string { return strings.Replace(w.Rancher.URL(), "https://", "http://", 1) }
	)
	DescribeTable("tells which is wrong, and goes on when it is put right", func(ctx context.Context, c badInput, spoil, repair step) {
		spoil(ctx, nil)
		clusters := w.begin(ctx, []string{c.name}, func(cluster *clusterv1.Cluster) {
			Expect(w.Client.Create(ctx, w.kubeconfig(cluster))).To(Succeed())
		})
		w.release(ctx)
		// Tries are a second and then two apart, if there are several.
		found := w.examine(ctx, clusters, window/2, c)[c.name]
		repair(ctx, clusters[c.name])
		c.expect(found)
		Eventually(w.Reason(ctx, clusters[c.name])).Should(Equal("True/Imported"))
	},
		Entry("cacerts is of another CA", badInput{"", "other-ca", "RancherTLSNotTrusted", "not signed by the CAs in Rancher's setting cacerts.*. Correct", growing},
			set("cacerts", otherCA), set("cacerts", rancherCA)),
		Entry("the system does not know Rancher's CA", Label("nightly"), badInput{"", "no-ca", "RancherTLSNotTrusted", "not signed by the CAs of the system.*. Correct", growing},
			set("agent-tls-mode", to("system-store")), set("agent-tls-mode", to(""))),
		Entry("cacerts is no certificate", badInput{"", "no-pem", "CACertsInvalid", "Correct the CA of Rancher", once},
			set("cacerts", to(marker)), set("cacerts", rancherCA)),
		Entry("agent-tls-mode is unknown", Label("nightly"), badInput{"", "mode", "AgentTLSModeInvalid", "Correct it in Rancher's global settings", once},
			set("agent-tls-mode", to(marker)), set("agent-tls-mode", to(""))),
		Entry("server-url is empty", badInput{"", "no-url", "ServerURLMissing", "Set it in Rancher's global settings", never},
			set("server-url", to("")), set("server-url", serverURL)),
		Entry("server-url is empty and then not https", Label("nightly"), badInput{"", "no-url-plain", "ServerURLMissing", "Set it in Rancher's global settings", never},
			set("server-url", to("")), func(ctx context.Context, cluster *clusterv1.Cluster) {
				set("server-url", plainURL)(ctx, cluster)
				Eventually(w.Reason(ctx, cluster)).Should(Equal("False/ServerURLInvalid"))
				set("server-url", serverURL)(ctx, cluster)
			}),
		Entry("server-url is empty until somebody has paused the cluster", Label("nightly"), badInput{"", "no-url-paused", "ServerURLMissing", "Set it in Rancher's global settings", never},
			set("server-url", to("")), func(ctx context.Context, cluster *clusterv1.Cluster) {
				pause := func(paused bool) {
					w.Patch(ctx, importing.Current(ctx, w.Client, cluster), func(client.Object) { cluster.Spec.Paused = &paused })
				}
				pause(true)
				Eventually(w.Reason(ctx, cluster)).Should(Equal("False/Paused"))
				set("server-url", serverURL)(ctx, cluster)
				pause(false)
			}),
		Entry("cacerts is missing and then empty", badInput{"", "no-cacerts", "RancherSettingsUnavailable", "cacerts does not exist", once},
			func(ctx context.Context, _ *clusterv1.Cluster) {
				Expect(w.Client.Delete(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "cacerts"}})).To(Succeed())
			}, func(ctx context.Context, cluster *clusterv1.Cluster) {
				Expect(w.Client.Create(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "cacerts"}})).To(Succeed())
				Eventually(w.Reason(ctx, cluster)).Should(Equal("False/RancherTLSNotTrusted"), "an empty one stands for the CAs of the system")
				set("cacerts", rancherCA)(ctx, cluster)
			}),
		Entry("server-url is not https", Label("nightly"), badInput{"", "plain-url", "RegistrationURLInvalid", "Correct Rancher's setting server-url", once},
			set("server-url", plainURL), set("server-url", serverURL)),
	)
}
