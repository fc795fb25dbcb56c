package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	storyNamespaces = 40
	dedicated       = 3
	// eachOwns is how many namespaces a dedicated instance has; the last resort has the rest.
	eachOwns   = 10
	lastResort = dedicated
)

// Document 000's story 4, with what goes wrong in it: three dedicated instances with rights in their
// namespaces only, and a last resort.
var _ = Describe("Story 4", Label("long"), Ordered, func() {
	s := &shards{}
	BeforeAll(s.start)
	for _, strategy := range importing.Strategies() {
		It("has every cluster imported by exactly the right instance, with "+strategy+" records", func(ctx context.Context) {
			t := &story{shards: s, strategy: strategy, began: time.Now()}
			t.begin(ctx)
			t.expectWorkers(ctx)

			By("an instance that dies, and comes back")
			t.running[1].Kill()
			t.expectNobodySteps(ctx)
			t.launch(ctx, 1)

			By("a namespace that is handed over")
			moved := t.owned[1][eachOwns-1]
			t.owned[1], t.owned[2] = t.owned[1][:eachOwns-1], append(t.owned[2], moved)
			Expect(t.Grant(ctx, t.instances[2], moved)).To(Succeed())
			for _, i := range []int{2, 1} { // the new owner first
				Expect(t.running[i].Stop()).To(Succeed())
				t.launch(ctx, i)
			}
			t.expectWorkers(ctx)

			By("a namespace that the last resort forgets")
			Expect(t.running[lastResort].Stop()).To(Succeed())
			t.forgotten = t.owned[0][0]
			t.launch(ctx, lastResort)
			t.expectWorkers(ctx)

			t.expectSameRecords(ctx)
			t.expectNoFight()
			t.end(ctx)
		}, NodeTimeout(20*time.Minute))
	}
})

// story is story 4 with one strategy.
type story struct {
	*shards
	strategy  string
	began     time.Time
	instances [dedicated + 1]stage.Instance
	running   [dedicated + 1]*stage.Manager
	owned     [dedicated][]string // namespaces
	forgotten string
	clusters  map[string]*clusterv1.Cluster // by namespace
	records   map[string]types.UID
}

// begin starts all instances, creates a cluster in each namespace, and waits until all are imported.
func (t *story) begin(ctx context.Context) {
	GinkgoHelper()
	t.clusters, t.records = map[string]*clusterv1.Cluster{}, map[string]types.UID{}
	for i := range storyNamespaces {
		name := fmt.Sprintf("%s-ns-%02d", t.strategy, i)
		Expect(t.Client.Create(ctx, importing.NamespaceOf(name))).To(Succeed())
		if owner := i / eachOwns; owner < dedicated {
			t.owned[owner] = append(t.owned[owner], name)
		}
		t.clusters[name] = nil
	}
	for i := range t.instances {
		t.instances[i] = stage.Instance{Name: fmt.Sprintf("archelon%d", i+1), Isolated: i != lastResort}
		Expect(t.Install(ctx, t.instances[i])).To(Succeed())
		if i != lastResort {
			Expect(t.Grant(ctx, t.instances[i], t.owned[i]...)).To(Succeed())
		}
		t.launch(ctx, i)
	}
	for name := range t.clusters {
		t.clusters[name] = t.light(ctx, name, "prod", importing.Selected)
	}
	for name, cluster := range t.clusters {
		t.expectImported(ctx, cluster)
		t.records[name] = t.recordUID(ctx, t.strategy, cluster)
	}
}

// launch starts an instance with the namespaces that it owns now, and waits until it is ready.
func (t *story) launch(ctx context.Context, i int) {
	GinkgoHelper()
	args := append([]string{"-v=1", importing.Gate(t.strategy)}, quickLease...)
	if i == lastResort {
		for _, names := range t.owned {
			args = append(args, flags("excluded-namespace", slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == t.forgotten })...)...)
		}
	} else {
		args = append(args, flags("namespace", t.owned[i]...)...)
	}
	m, err := t.StartInstance(context.WithoutCancel(ctx), t.instances[i], manager, GinkgoWriter, args...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		m.Kill()
		Expect(m.Logs()).NotTo(ContainSubstring("DATA RACE"))
	})
	t.running[i] = m
	Eventually(m.Ready).WithContext(ctx).WithTimeout(2 * patience).Should(Succeed())
}

// owner returns which instance a namespace belongs to.
func (t *story) owner(namespace string) stage.Instance {
	for i, names := range t.owned {
		if slices.Contains(names, namespace) {
			return t.instances[i]
		}
	}
	return t.instances[lastResort]
}

// expectWorkers waits until every cluster is with the right instance, and asserts that each has one record.
func (t *story) expectWorkers(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() map[string]string {
		wrong := map[string]string{}
		w := t.Look(ctx)
		for namespace, cluster := range t.clusters {
			owner := t.owner(namespace)
			if got, want := w.Cluster(cluster).Annotations[instanceKey], owner.ID(); got != want {
				wrong[namespace] = fmt.Sprintf("%q instead of %q", got, want)
			}
			if records := w.Records(t.strategy, cluster); len(records) != 1 {
				wrong[namespace] = fmt.Sprintf("%d records", len(records))
			}
		}
		return wrong
	}).WithTimeout(2 * patience).Should(BeEmpty())
}

// expectNobodySteps asserts that a dead instance is not replaced by one that was told to keep off, also
// when its Lease has run out.
func (t *story) expectNobodySteps(ctx context.Context) {
	GinkgoHelper()
	Consistently(func() int {
		count := 0
		w := t.Look(ctx)
		for _, namespace := range t.owned[1] {
			if w.Cluster(t.clusters[namespace]).Annotations[instanceKey] == t.instances[1].ID() {
				count++
			}
		}
		return count
	}).WithTimeout(leaseDuration + 2*time.Second).WithPolling(time.Second).Should(Equal(len(t.owned[1])))
}

// expectSameRecords asserts that no record was replaced by all this.
func (t *story) expectSameRecords(ctx context.Context) {
	GinkgoHelper()
	for namespace, cluster := range t.clusters {
		Expect(t.recordUID(ctx, t.strategy, cluster)).To(Equal(t.records[namespace]), namespace)
	}
}

// expectNoFight asserts that no cluster was written by an instance again that another one had taken over.
func (t *story) expectNoFight() {
	GinkgoHelper()
	var users []string
	for _, i := range t.instances {
		users = append(users, i.User())
	}
	expectNoFight(t.Management, t.began, users...)
}

func (t *story) end(ctx context.Context) {
	GinkgoHelper()
	for _, cluster := range t.clusters {
		Expect(t.Client.Delete(ctx, cluster)).To(Succeed())
	}
	Eventually(t.NothingOfRancher(ctx)).WithTimeout(3 * patience).Should(BeEmpty())
	Eventually(func() []clusterv1.Cluster { return t.Look(ctx).Clusters }).WithTimeout(2 * patience).Should(BeEmpty())
	for i, m := range t.running {
		Expect(m.Stop()).To(Succeed(), t.instances[i].Name)
	}
	expectLawfulUsers(t.Management, t.began, t.instances[:])
}
