package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
)

// shardLabel is the label of namespaces that the instances here select by.
const shardLabel = "example.com/shard"

// handedOver is how long a namespace may be without an instance after its label has changed.
const handedOver = time.Minute

// Instances that divide namespaces by their labels, which change while they run.
var _ = Describe("Shards by label", Ordered, func() {
	s := newSelectedShards()
	BeforeAll(func(ctx context.Context) { s.begin(ctx, 12) })

	It("import nothing in namespaces that none selects, and tell how many there are", func(ctx context.Context) {
		Eventually(func() (string, error) {
			_, body, err := scrape(ctx, s.instances[0].Metrics, s.token)
			return body, err
		}).Should(MatchRegexp(`(?m)^archelon_namespaces_unowned 12$`))
		s.expectUntouched(ctx, s.clusters[0])
		Expect(s.Reason(ctx, s.clusters[0])()).To(Equal("none"))
	})

	It("hand a cluster over when the label of its namespace changes, one after the other, and register nothing again", func(ctx context.Context) {
		s.dye(ctx, "blue", s.clusters[:6]...)
		s.dye(ctx, "red", s.clusters[6:]...)
		s.expectFirst(ctx)
		for range 3 {
			for _, cluster := range s.clusters {
				s.dye(ctx, []string{"blue", "red"}[rand.IntN(2)], cluster)
			}
			s.expectHandedOver(ctx, s.clusters...)
		}
		// Nobody waits for what was begun before.
		for range 20 {
			s.dye(ctx, []string{"blue", "red"}[rand.IntN(2)], s.clusters[rand.IntN(len(s.clusters))])
		}
		s.expectHandedOver(ctx, s.clusters...)
		Expect(s.expectInTurn()).To(BeNumerically(">", len(s.clusters)/2))
		s.expectOnce(ctx)
	})

	It("leave what nobody selects as it is, and it can be deleted", func(ctx context.Context) {
		none := s.clusters[0]
		s.dye(ctx, "green", none)
		Eventually(s.worker(ctx, none)).WithTimeout(handedOver).Should(BeEmpty())
		Expect(s.V3Records(ctx, none)).To(HaveLen(1))
		Expect(importing.Current(ctx, s.Client, none).Finalizers).NotTo(BeEmpty())
		Eventually(func() (string, error) {
			_, body, err := scrape(ctx, s.instances[1].Metrics, s.token)
			return body, err
		}).Should(MatchRegexp(`(?m)^archelon_namespaces_unowned 1$`))
		s.remove1(ctx, none)
		s.clusters = s.clusters[1:]
	})

	It("begin when the instance before does not run any more", func(ctx context.Context) {
		s.dye(ctx, "blue", s.clusters...)
		s.expectHandedOver(ctx, s.clusters...)
		s.instances[0].kill()
		s.dye(ctx, "red", s.clusters[0])
		Expect(s.worker(ctx, s.clusters[0])()).To(Equal(s.instances[0].ID()), "it may run, for all that anybody knows")
		Eventually(s.worker(ctx, s.clusters[0])).WithTimeout(2 * patience).Should(Equal(s.instances[1].ID()))
		Expect(s.worker(ctx, s.clusters[1])()).To(Equal(s.instances[0].ID()), "nobody takes over what is not its own")
	})

	It("refuse nothing, and are refused nothing", func(ctx context.Context) {
		s.dye(ctx, "red", s.clusters...)
		s.expectHandedOver(ctx, s.clusters...)
		s.remove(ctx, s.clusters...)
		for _, instance := range s.instances {
			instance.expectLawful()
		}
	})
})

// selectedShards are instances that divide namespaces by their labels, and namespaces with a cluster each.
type selectedShards struct {
	*shards
	instances []*instance
	clusters  []*clusterv1.Cluster
	// colours are the labels of namespaces, and records the names of v3 Clusters, by namespace.
	colours, records map[string]string
	token            string
	// dyed are the changes of labels, in their order.
	dyed []dyeing
}

// dyeing is a change of the label of a namespace.
type dyeing struct {
	namespace, colour string
	at                time.Time
}

func newSelectedShards() *selectedShards {
	return &selectedShards{shards: &shards{}, colours: map[string]string{}, records: map[string]string{}}
}

// begin starts an instance for each colour, and creates namespaces without one, with a cluster each.
func (s *selectedShards) begin(ctx context.Context, namespaces int) {
	GinkgoHelper()
	s.start(ctx)
	s.token = s.metricsReader(ctx)
	for _, colour := range []string{"blue", "red"} {
		args := append([]string{importing.Gate("v3"), "--namespace-selector=" + shardLabel + "=" + colour}, quickLease...)
		s.instances = append(s.instances, s.central(ctx, colour, args...))
	}
	for i := range namespaces {
		namespace := fmt.Sprintf("selected-%d", i)
		Expect(s.Client.Create(ctx, importing.NamespaceOf(namespace))).To(Succeed())
		s.clusters = append(s.clusters, s.light(ctx, namespace, "prod", importing.Selected))
	}
}

// expectFirst asserts that all clusters are imported, and remembers their records.
func (s *selectedShards) expectFirst(ctx context.Context) {
	GinkgoHelper()
	s.expectImported(ctx, s.clusters...)
	for _, cluster := range s.clusters {
		records := s.V3Records(ctx, cluster)
		Expect(records).To(HaveLen(1))
		s.records[cluster.Namespace] = records[0].Name
	}
}

// expectOnce asserts that all clusters are imported, have the records that they had first, and were registered once.
func (s *selectedShards) expectOnce(ctx context.Context) {
	GinkgoHelper()
	for _, cluster := range s.clusters {
		records := s.V3Records(ctx, cluster)
		Expect(records).To(HaveLen(1))
		Expect(records[0].Name).To(Equal(s.records[cluster.Namespace]))
		Expect(s.Reason(ctx, cluster)()).To(Equal("True/Imported"))
	}
	created := 0
	for _, write := range writesTo(s.Management, s.instances[0].since, s.instances[0].User(), s.instances[1].User()) {
		if write.Verb == "create" && write.ObjectRef.APIGroup == "management.cattle.io" {
			created++
		}
	}
	Expect(created).To(Equal(len(s.clusters)), "records that were created")
	Expect(s.Rancher.ImportRequests()).To(HaveLen(len(s.clusters)), "manifests that were downloaded")
}

// dye changes the label of the namespaces of clusters.
func (s *selectedShards) dye(ctx context.Context, colour string, clusters ...*clusterv1.Cluster) {
	GinkgoHelper()
	for _, cluster := range clusters {
		namespace := importing.NamespaceOf(cluster.Namespace)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, shardLabel, colour)
		if s.colours[cluster.Namespace] != colour {
			s.dyed = append(s.dyed, dyeing{cluster.Namespace, colour, time.Now()})
		}
		Expect(s.Client.Patch(ctx, namespace, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
		s.colours[cluster.Namespace] = colour
	}
}

// worker returns the instance that a cluster names.
func (s *selectedShards) worker(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return func() string {
		return importing.Current(ctx, s.Client, cluster.DeepCopy()).GetAnnotations()[instanceKey]
	}
}

// expectHandedOver asserts that each cluster comes to the instance that selects its namespace.
func (s *selectedShards) expectHandedOver(ctx context.Context, clusters ...*clusterv1.Cluster) {
	GinkgoHelper()
	for _, cluster := range clusters {
		at := slices.IndexFunc(s.instances, func(i *instance) bool { return i.Name == s.colours[cluster.Namespace] })
		Eventually(s.worker(ctx, cluster)).WithTimeout(handedOver).Should(Equal(s.instances[at].ID()), cluster.Namespace)
	}
}

// expectInTurn asserts that nobody writes to a cluster, or its record, before the instance before has left it:
// each turn of an instance begins and ends with a write to the CAPI Cluster, by which it takes and leaves it. It
// returns how many there were.
func (s *selectedShards) expectInTurn() (handovers int) {
	GinkgoHelper()
	writes := writesTo(s.Management, s.instances[0].since, s.instances[0].User(), s.instances[1].User())
	for _, cluster := range s.clusters {
		var last *auditv1.Event
		for i := range writes {
			now := &writes[i]
			if now.ResponseStatus != nil && now.ResponseStatus.Code >= 400 ||
				now.ObjectRef.Namespace != cluster.Namespace && now.ObjectRef.Name != s.records[cluster.Namespace] {
				continue
			}
			if last != nil && last.User.Username != now.User.Username {
				handovers++
				Expect(last.RequestObject).NotTo(BeNil(), "%s %s by %s", last.Verb, last.RequestURI, last.User.Username)
				Expect(string(last.RequestObject.Raw)).To(ContainSubstring(fmt.Sprintf("%q:null", instanceKey)), "%s took over from %s before that had left",
					now.User.Username, last.User.Username)
				for _, write := range []*auditv1.Event{last, now} {
					Expect(write.ObjectRef.APIGroup).To(Equal("cluster.x-k8s.io"), "%s %s by %s", write.Verb, write.RequestURI, write.User.Username)
				}
			}
			last = now
		}
	}
	return handovers
}

// remove1 deletes a CAPI cluster, and waits until it is gone with its record.
func (s *selectedShards) remove1(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Expect(s.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(s.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	Eventually(func() int { return len(s.V3Records(ctx, cluster)) }).WithTimeout(2 * patience).Should(BeZero())
}
