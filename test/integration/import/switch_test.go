package import_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Clusters that are connected keep their place in Rancher through a change of the kind of record, but for a short time.
var _ = Describe("Switching the strategy", Label("long"), Ordered, func() {
	const (
		lightClusters = 18
		// absence bounds how long a cluster is not connected, on a loaded machine. What it is made of: Rancher deletes the
		// old record and its Job cleans up, here for 100 ms and in Rancher for a minute; then it is imported again, at
		// most one look at the clean-up later, every 5 s.
		absence = time.Minute
	)
	var (
		f        *fixture
		switched []*switching
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "switch", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		second := f.lane(ctx, "switch-workload-2", false)
		servers := startLights(ctx)

		namespace := f.namespace(ctx, map[string]string{importLabel: "true"})
		for i, l := range []lane{{name: "switch-workload", plane: f.workload}, second} {
			name := fmt.Sprintf("real-%d", i)
			switched = append(switched, &switching{trial: &trial{cluster: f.clusterIn(ctx, l, namespace, name)}, workload: l.name})
		}
		for i := range lightClusters {
			name := fmt.Sprintf("light-%02d", i)
			kubeconfig, err := servers.Kubeconfig(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
			DeferCleanup(f.Rancher.RemoveWorkload, name)
			switched = append(switched, &switching{trial: &trial{cluster: f.clusterWith(ctx, namespace, name, kubeconfig)}, workload: name})
		}
		f.run(ctx, gate("v1"))
		f.expectSwitched(ctx, "v1", switched)
	})

	for _, strategy := range []string{"v3", "v1"} {
		It("to "+strategy+" replaces every record and connects every cluster again", func(ctx context.Context) {
			Expect(f.manager.Stop()).To(Succeed())
			for _, s := range switched {
				s.lost, s.back = time.Time{}, time.Time{}
			}
			f.run(ctx, gate(strategy))
			f.expectSwitched(ctx, strategy, switched)
			var absences []time.Duration
			for _, s := range switched {
				Expect(s.lost).NotTo(BeZero(), "%s was never seen without a connection", s.cluster.Name)
				absences = append(absences, s.back.Sub(s.lost))
			}
			slices.Sort(absences)
			AddReportEntry("not connected", fmt.Sprintf("%d clusters: shortest %s, median %s, longest %s", len(absences),
				absences[0], absences[len(absences)/2], absences[len(absences)-1]), ReportEntryVisibilityAlways)
			Expect(absences[len(absences)-1]).To(BeNumerically("<", absence))
		})
	}

	It("leaves nothing behind", func(ctx context.Context) {
		f.run(ctx, gate("v1"))
		for _, s := range switched {
			Expect(f.Client.Delete(ctx, s.cluster)).To(Succeed())
		}
		Eventually(f.nothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
	})
})

// What is imported stays imported through a change of the kind, whatever keeps new imports out.
var _ = Describe("Switching the strategy where new imports are kept out", Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "switch-kept", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		namespace = f.namespace(ctx, nil)
	})
	imported := func(ctx context.Context, name string) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := f.cluster(ctx, namespace, name, selected)
		Eventually(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		return cluster
	}
	expectImportedAs := func(ctx context.Context, strategy string, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		s := &switching{trial: &trial{cluster: cluster, strategy: strategy}, workload: "switch-kept-workload"}
		Eventually(func() string { return s.lacksSwitch(f, f.look(ctx)) }).WithTimeout(2 * patience).Should(BeEmpty())
	}
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.gone(ctx, cluster)).Should(BeTrue())
		f.expectNothingLeft(ctx, cluster)
	}

	It(`replaces the record of a cluster that has the annotation "imported" all the same`, func(ctx context.Context) {
		f.run(ctx, gate("v1"), "--sync-period=1h")
		cluster := imported(ctx, "marked")
		f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, importedKey, "true") })
		Consistently(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.manager.Stop()).To(Succeed())
		f.run(ctx, gate("v3"), "--sync-period=1h")
		expectImportedAs(ctx, "v3", cluster)
		end(ctx, cluster)
	})

	It("keeps the record while Turtles is at work, and replaces it when the cluster is Archelon's", func(ctx context.Context) {
		f.run(ctx, gate("v1"), "--sync-period=1h")
		cluster := imported(ctx, "divided")
		f.turtlesAtWork(ctx)
		Consistently(f.reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.manager.Stop()).To(Succeed())
		f.run(ctx, gate("v3"), "--sync-period=1h")
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/TurtlesActive"))
		Consistently(func() *metav1.Time {
			records := f.look(ctx).records("v1", cluster)
			Expect(records).To(HaveLen(1))
			return records[0].GetDeletionTimestamp()
		}).Should(BeNil())
		f.patch(ctx, current(ctx, f, cluster), func(o client.Object) { setAnnotation(o, managedBy, "archelon") })
		expectImportedAs(ctx, "v3", cluster)
		end(ctx, cluster)
	})

	It("replaces a record that has lost its labels before, and creates none beside it", func(ctx context.Context) {
		for from, to := range map[string]string{"v1": "v3", "v3": "v1"} {
			f.run(ctx, gate(from), "--sync-period=1h")
			cluster := imported(ctx, "stripped-"+from)
			record := f.look(ctx).records(from, cluster)[0]
			Expect(f.manager.Stop()).To(Succeed())
			f.patch(ctx, current(ctx, f, record), func(o client.Object) {
				labels := o.GetLabels()
				delete(labels, ownedLabel) // The cache selects by it.
				delete(labels, uidLabel)
				o.SetLabels(labels)
			})
			f.run(ctx, gate(to), "--sync-period=1h")
			Eventually(func(g Gomega) {
				Expect(f.look(ctx).standing(namespace)).To(BeNumerically("<=", 1), "records of "+cluster.Name)
				g.Expect(f.gone(ctx, record)()).To(BeTrue())
			}).Should(Succeed())
			expectImportedAs(ctx, to, cluster)
			end(ctx, cluster)
			Expect(f.manager.Stop()).To(Succeed())
		}
	})

	It("follows the record that is left when one of two is deleted in Rancher", func(ctx context.Context) {
		f.run(ctx, gate("v3"), "--sync-period=1h")
		cluster := imported(ctx, "twice")
		first, ok := f.look(ctx).records("v3", cluster)[0].(*managementv3.Cluster)
		Expect(ok).To(BeTrue())
		second := &managementv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Labels: first.Labels, Annotations: first.Annotations, Finalizers: []string{finalizer}},
			Spec:       first.Spec,
		}
		Expect(f.Client.Create(ctx, second)).To(Succeed())
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/DuplicateRecords"))
		Expect(f.Client.Delete(ctx, first)).To(Succeed())
		Eventually(f.gone(ctx, first)).Should(BeTrue())
		expectImportedAs(ctx, "v3", cluster)
		Expect(current(ctx, f, cluster).Annotations).To(HaveKeyWithValue(recordKey, "v3/"+second.Name))

		By("and knows of that when it is deleted as well")
		Expect(f.Client.Delete(ctx, second)).To(Succeed())
		Eventually(f.reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		end(ctx, cluster)
	})
})

// switching is a cluster whose record is replaced.
type switching struct {
	*trial
	workload   string
	lost, back time.Time // its connection
}

// expectSwitched waits until every cluster has one record of the kind and is connected through it, and notes when it was not.
func (f *fixture) expectSwitched(ctx context.Context, strategy string, all []*switching) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		w := f.look(ctx)
		now := time.Now()
		lack := map[string]string{}
		for _, s := range all {
			Expect(w.alive(s)).To(BeNumerically("<=", 1), "records of "+s.cluster.Name)
			s.strategy = strategy
			if what := s.lacksSwitch(f, w); what != "" {
				lack[s.cluster.Name] = what
			}
			switch connected := w.connected(s); {
			case !connected && s.lost.IsZero():
				s.lost = now
			case connected && !s.lost.IsZero() && s.back.IsZero():
				s.back = now
			}
		}
		g.Expect(lack).To(BeEmpty())
		g.Expect(w.v3).To(HaveLen(len(all)))
		g.Expect(w.namespaces).To(HaveLen(3*len(all)), "one of the cluster and two of its projects, each")
	}).WithTimeout(3 * patience).Should(Succeed())
}

// alive counts the records of a cluster, of both kinds, that nobody has deleted.
func (w world) alive(s *switching) int {
	count := 0
	for _, strategy := range strategies() {
		for _, record := range w.records(strategy, s.cluster) {
			if record.GetDeletionTimestamp().IsZero() {
				count++
			}
		}
	}
	return count
}

// standing counts the records of a namespace, and those without one, that nobody has deleted, whatever labels they have.
// Rancher has a v1 Cluster of its own for each v3 record, elsewhere.
func (w world) standing(namespace string) int {
	count := 0
	for i := range w.v1 {
		if w.v1[i].DeletionTimestamp.IsZero() && w.v1[i].Namespace == namespace {
			count++
		}
	}
	for i := range w.v3 {
		if w.v3[i].DeletionTimestamp.IsZero() && !strings.HasPrefix(w.v3[i].Name, "c-m-") {
			count++
		}
	}
	return count
}

// connected reports whether Rancher shows a cluster as connected and not as going.
func (w world) connected(s *switching) bool {
	for i := range w.v3 {
		cluster := &w.v3[i]
		if cluster.Labels[uidLabel] != string(s.cluster.UID) || !cluster.DeletionTimestamp.IsZero() {
			continue
		}
		for _, condition := range cluster.Status.Conditions {
			if condition.Type == "Connected" && condition.Status == corev1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// lacksSwitch says what is missing until a cluster has changed over.
func (s *switching) lacksSwitch(f *fixture, w world) string {
	cluster := w.cluster(s.cluster)
	if cluster == nil {
		return "the CAPI cluster"
	}
	records := w.records(s.strategy, s.cluster)
	if others := w.records(otherThan(s.strategy), s.cluster); len(others) != 0 || len(records) != 1 {
		return fmt.Sprintf("%d records and %d of the other kind", len(records), len(others))
	}
	s.internal = internalName(records[0])
	if reason := reasonOf(cluster); reason != "True/Imported" {
		return reason
	}
	if id := cluster.Annotations[recordKey]; !strings.HasPrefix(id, s.strategy+"/") {
		return "annotation " + id
	}
	if _, stamped := cluster.Annotations[importedKey]; stamped {
		return "it counts as removed in Rancher"
	}
	if !slices.Contains(cluster.Finalizers, finalizer) || !slices.Contains(records[0].GetFinalizers(), finalizer) {
		return "a finalizer"
	}
	if workload, _ := f.Rancher.Connected(s.internal); workload != s.workload {
		return fmt.Sprintf("connected with %q", workload)
	}
	return ""
}
