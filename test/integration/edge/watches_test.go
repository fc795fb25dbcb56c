package edge_test

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

var _ = Describe("The watches of a manager with all features", func() {
	DescribeTable("are those of the page on caches", func(ctx SpecContext, elsewhere bool, where, off []string) {
		rancher := newRancherCluster(ctx)
		(&importing.Fixture{Stage: rancher.Stage}).StartFleet(ctx)
		site := &management{Cluster: &apart.Cluster{ControlPlane: rancher.Management, Client: rancher.Client}, rancher: rancher}
		if elsewhere {
			site = newManagement(ctx, rancher, "site")
			site.connect(ctx, rancher.admit(ctx, site.UID))
		}
		site.values = fullValues(elsewhere)
		site.installAll(ctx)
		watches := &watches{metadata: map[types.UID]bool{}}
		site.lookalike = watches.wrap
		site.run(ctx)

		documented := documentedWatches(where, off)
		Eventually(func() []string {
			open, _ := watches.of(requests(site.ControlPlane, managerOfCAPI))
			return open
		}).WithContext(ctx).MustPassRepeatedly(20).Should(ConsistOf(documented))
		_, all := watches.of(requests(site.ControlPlane, managerOfCAPI))
		Expect(all).To(HaveEach(BeElementOf(documented)), "open or ended")
	},
		Entry("where Rancher is in the management cluster", false, []string{"management", "Rancher"}, nil),
		Entry("where Rancher is in another cluster", true,
			[]string{"management", "management, if Rancher is elsewhere"}, []string{"`identity/translation`"}),
	)
})

// fullValues are those of the chart with all features. They name one namespace for each purpose: each has a watch.
func fullValues(elsewhere bool) map[string]any {
	GinkgoHelper()
	gates, err := feature.NewGates()
	Expect(err).NotTo(HaveOccurred())
	off := []featuregate.Feature{feature.RemoteRancher}
	if elsewhere { // The chart refuses these with it.
		off = []featuregate.Feature{feature.RancherClusterMembers, feature.OCICredentialTranslation}
	}
	features := map[string]any{}
	for gate := range gates.GetAll() {
		if !strings.HasPrefix(string(gate), "All") {
			features[string(gate)] = map[string]any{"enabled": !slices.Contains(off, gate)}
		}
	}
	all := values()
	all["features"], all["turtles"] = features, map[string]any{"namespaces": []string{"turtles"}}
	all["import"] = map[string]any{"clusterClassLabels": true}
	all["members"] = map[string]any{"roles": []string{"cluster-member"}, "principals": []string{"local://"}}
	all["identity"] = map[string]any{
		"secretNamespaces": []string{"keys", "identities"},
		"credentials":      map[string]any{"namespace": "identities", "allowedNamespaces": []string{"team-a"}},
	}
	if elsewhere {
		delete(all, "members")
		delete(all["identity"].(map[string]any), "credentials") //nolint:forcetypeassert // It is one.
	} else {
		delete(all, "rancher")
	}
	return all
}

// placeholders are what the page calls namespaces, and a Secret, that administrators name.
var placeholders = strings.NewReplacer(
	"`archelon.io/instance`, namespace `archelon-system`", "`archelon.io/instance`, namespace `<leaderElection.namespace>`",
	"namespace `archelon-system`", "namespace `<release>`", "namespace `turtles`", "namespace `<turtles.namespaces>`",
	"namespace `keys`", "namespace `<identity.secretNamespaces>`", "namespace `identities`", "namespace `<identity.credentials.namespace>`",
	"metadata.name="+kubeconfig, "metadata.name=<rancher.kubeconfigSecret>",
)

// installAll installs the kinds that controllers of any feature watch in a management cluster, and creates namespaces
// that the values name.
func (m *management) installAll(ctx context.Context) {
	GinkgoHelper()
	crds, err := env.CAPOCICRDs()
	Expect(err).NotTo(HaveOccurred())
	hosts, err := env.HostClaimCRDs(ctx)
	Expect(err).NotTo(HaveOccurred())
	raw, err := os.ReadFile(filepath.Join("..", "hostclaim", "testdata", "metal3machines.yaml"))
	Expect(err).NotTo(HaveOccurred())
	machines := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.Unmarshal(raw, machines)).To(Succeed())
	_, err = envtest.InstallCRDs(m.Config, envtest.CRDInstallOptions{CRDs: append(slices.Concat(crds, hosts), machines)})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"cattle-global-data", "turtles", "keys", "identities"} {
		Expect(client.IgnoreAlreadyExists(m.Client.Create(ctx, apart.Namespace(name)))).To(Succeed())
	}
}

// watches has for each watch whether the manager asked for metadata alone. An audit log has no headers, but the ID that
// a request brings along.
type watches struct {
	mu       sync.Mutex
	metadata map[types.UID]bool
}

func (w *watches) wrap(next http.RoundTripper) http.RoundTripper {
	return rewriter(func(request *http.Request) (*http.Response, error) {
		if request.URL.Query().Has("watch") {
			id := uuid.NewUUID()
			request = request.Clone(request.Context())
			request.Header.Set(audit.HeaderAuditID, string(id))
			w.mu.Lock()
			w.metadata[id] = strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// of returns the watches that are open, and all that were, as the page has them. What waits for a CRD ends when that
// is there, and is left out then.
func (w *watches) of(events []auditv1.Event) (open, all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := map[types.UID]bool{}
	for _, event := range events {
		ended[event.AuditID] = ended[event.AuditID] || event.Stage != auditv1.StageResponseStarted
	}
	for _, event := range events {
		if event.Verb != "watch" || event.Stage != auditv1.StageResponseStarted {
			continue
		}
		row := rowOf(event, w.metadata[event.AuditID])
		if !ended[event.AuditID] {
			open = append(open, row)
		}
		if !ended[event.AuditID] || event.ObjectRef.Resource != "customresourcedefinitions" {
			all = append(all, row)
		}
	}
	return open, all
}

// rowOf returns the columns of the page that an API server sees.
func rowOf(event auditv1.Event, metadata bool) string {
	GinkgoHelper()
	kind, received := strings.TrimSuffix(event.ObjectRef.Resource+"."+event.ObjectRef.APIGroup, "."), "whole"
	if metadata {
		received = "metadata"
	}
	at, err := url.ParseRequestURI(event.RequestURI)
	Expect(err).NotTo(HaveOccurred())
	selector := []string{}
	for name, value := range map[string]string{
		"field": at.Query().Get("fieldSelector"), "label": at.Query().Get("labelSelector"), "namespace": event.ObjectRef.Namespace,
	} {
		if value != "" {
			selector = append(selector, name+" `"+value+"`")
		}
	}
	slices.Sort(selector)
	return "`" + kind + "` | " + cmp.Or(placeholders.Replace(strings.Join(selector, ", ")), "all") + " | " + received
}

// documentedWatches returns these columns of the rows of clusters, without those that certain packages alone read.
func documentedWatches(clusters, off []string) []string {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(stage.Root(), "docs", "development", "caches.md"))
	Expect(err).NotTo(HaveOccurred())
	var rows []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) == 6 && slices.Contains(clusters, cells[0]) && !slices.Contains(off, cells[4]) {
			rows = append(rows, strings.Join(cells[1:4], " | "))
		}
	}
	return rows
}
