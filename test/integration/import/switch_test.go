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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
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
		absence = 3 * time.Minute
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
		second := f.StartLane(ctx, env.Options{Name: "switch-workload-2"})
		servers := importing.StartLights(ctx)

		namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		for i, l := range []importing.Lane{f.Lane, second} {
			name := fmt.Sprintf("real-%d", i)
			switched = append(switched, &switching{trial: &trial{cluster: f.ClusterIn(ctx, l, namespace, name)}, workload: l.Name})
		}
		for i := range lightClusters {
			name := fmt.Sprintf("light-%02d", i)
			kubeconfig, err := servers.Kubeconfig(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(f.Rancher.AddWorkload(name, servers.Config(name))).To(Succeed())
			DeferCleanup(f.Rancher.RemoveWorkload, name)
			switched = append(switched, &switching{trial: &trial{cluster: f.ClusterWith(ctx, namespace, name, kubeconfig)}, workload: name})
		}
		f.run(ctx, importing.Gate("v1"))
		f.expectSwitched(ctx, "v1", switched)
	})

	for _, strategy := range []string{"v3", "v1"} {
		It("to "+strategy+" replaces every record and connects every cluster again", func(ctx context.Context) {
			Expect(f.Manager.Stop()).To(Succeed())
			for _, s := range switched {
				s.lost, s.back = time.Time{}, time.Time{}
			}
			f.run(ctx, importing.Gate(strategy))
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
		f.run(ctx, importing.Gate("v1"))
		for _, s := range switched {
			Expect(f.Client.Delete(ctx, s.cluster)).To(Succeed())
		}
		Eventually(f.NothingOfRancher(ctx)).WithTimeout(2 * patience).Should(BeEmpty())
	})
})

// What is imported stays imported through a change of the kind, whatever keeps new imports out.
var _ = Describe("Switching the strategy where new imports are kept out", Label("nightly"), Ordered, func() {
	var (
		f         *fixture
		namespace string
	)
	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "switch-kept", Rancher: func(o *rancher.Options) {
			o.Logger = GinkgoLogr
			o.Timings.Cleanup = 100 * time.Millisecond
		}})
		namespace = f.Namespace(ctx, nil)
	})
	imported := func(ctx context.Context, name string) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := f.Cluster(ctx, namespace, name, importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		return cluster
	}
	expectImportedAs := func(ctx context.Context, strategy string, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		s := &switching{trial: &trial{cluster: cluster, strategy: strategy}, workload: "switch-kept-workload"}
		Eventually(func() string { return s.lacksSwitch(f, f.Look(ctx)) }).WithTimeout(2 * patience).Should(BeEmpty())
	}
	end := func(ctx context.Context, cluster *clusterv1.Cluster) {
		GinkgoHelper()
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	}

	It(`replaces the record of a cluster that has the annotation "imported" all the same`, func(ctx context.Context) {
		f.run(ctx, importing.Gate("v1"), "--sync-period=1h")
		cluster := imported(ctx, "marked")
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, importing.ImportedKey, "true") })
		Consistently(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Manager.Stop()).To(Succeed())
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h")
		expectImportedAs(ctx, "v3", cluster)
		end(ctx, cluster)
	})

	It("keeps the record while Turtles is at work, and replaces it when the cluster is Archelon's", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v1"), "--sync-period=1h")
		cluster := imported(ctx, "divided")
		f.TurtlesAtWork(ctx)
		Consistently(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Manager.Stop()).To(Succeed())
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h")
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/TurtlesActive"))
		Consistently(func() *metav1.Time {
			records := f.Look(ctx).Records("v1", cluster)
			Expect(records).To(HaveLen(1))
			return records[0].GetDeletionTimestamp()
		}).Should(BeNil())
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, managedBy, "archelon") })
		expectImportedAs(ctx, "v3", cluster)
		end(ctx, cluster)
	})

	It("replaces a record that has lost its labels before, and creates none beside it", func(ctx context.Context) {
		for from, to := range map[string]string{"v1": "v3", "v3": "v1"} {
			f.run(ctx, importing.Gate(from), "--sync-period=1h")
			cluster := imported(ctx, "stripped-"+from)
			record := f.Look(ctx).Records(from, cluster)[0]
			Expect(f.Manager.Stop()).To(Succeed())
			f.Patch(ctx, importing.Current(ctx, f.Client, record), func(o client.Object) {
				labels := o.GetLabels()
				delete(labels, importing.OwnedLabel) // The cache selects by it.
				delete(labels, importing.UIDLabel)
				o.SetLabels(labels)
			})
			f.run(ctx, importing.Gate(to), "--sync-period=1h")
			Eventually(func(g Gomega) {
				Expect(standing(f.Look(ctx), namespace)).To(BeNumerically("<=", 1), "records of "+cluster.Name)
				g.Expect(f.K(ctx).Get(record)()).To(Satisfy(apierrors.IsNotFound))
			}).Should(Succeed())
			expectImportedAs(ctx, to, cluster)
			end(ctx, cluster)
			Expect(f.Manager.Stop()).To(Succeed())
		}
	})

	It("follows the record that is left when one of two is deleted in Rancher", func(ctx context.Context) {
		f.run(ctx, importing.Gate("v3"), "--sync-period=1h")
		cluster := imported(ctx, "twice")
		first, ok := f.Look(ctx).Records("v3", cluster)[0].(*managementv3.Cluster)
		Expect(ok).To(BeTrue())
		second := &managementv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "c-", Labels: first.Labels, Annotations: first.Annotations, Finalizers: []string{importing.Finalizer}},
			Spec:       first.Spec,
		}
		Expect(f.Client.Create(ctx, second)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/DuplicateRecords"))
		Expect(f.Client.Delete(ctx, first)).To(Succeed())
		Eventually(f.K(ctx).Get(first)).Should(Satisfy(apierrors.IsNotFound))
		expectImportedAs(ctx, "v3", cluster)
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).To(HaveKeyWithValue(importing.RecordKey, "v3/"+second.Name))

		By("and knows of that when it is deleted as well")
		Expect(f.Client.Delete(ctx, second)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/RemovedInRancher"))
		end(ctx, cluster)
	})
})

// switching is a cluster whose record is replaced.
type switching struct {
	*trial
	workload   string
	lost, back time.Time // its connection
}

// expectSwitched waits until every cluster has one record of the kind and is connected through
// it, and notes when it was not.
func (f *fixture) expectSwitched(ctx context.Context, strategy string, all []*switching) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		w := f.Look(ctx)
		now := time.Now()
		lack := map[string]string{}
		for _, s := range all {
			Expect(s.alive(w)).To(BeNumerically("<=", 1), "records of "+s.cluster.Name)
			s.strategy = strategy
			if what := s.lacksSwitch(f, w); what != "" {
				lack[s.cluster.Name] = what
			}
			switch connected := s.connected(w); {
			case !connected && s.lost.IsZero():
				s.lost = now
			case connected && !s.lost.IsZero() && s.back.IsZero():
				s.back = now
			}
		}
		g.Expect(lack).To(BeEmpty())
		g.Expect(w.V3).To(HaveLen(len(all)))
		g.Expect(w.Namespaces).To(HaveLen(3*len(all)), "one of the cluster and two of its projects, each")
	}).WithTimeout(3 * patience).Should(Succeed())
}

// alive counts the records of a cluster, of both kinds, that nobody has deleted.
func (s *switching) alive(w importing.World) int {
	count := 0
	for _, strategy := range importing.Strategies() {
		for _, record := range w.Records(strategy, s.cluster) {
			if record.GetDeletionTimestamp().IsZero() {
				count++
			}
		}
	}
	return count
}

// standing counts the records of a namespace, and those without one, that nobody has deleted, whatever labels they
// have. Rancher has a v1 Cluster of its own for each v3 record, elsewhere.
func standing(w importing.World, namespace string) int {
	count := 0
	for i := range w.V1 {
		if w.V1[i].DeletionTimestamp.IsZero() && w.V1[i].Namespace == namespace {
			count++
		}
	}
	for i := range w.V3 {
		if w.V3[i].DeletionTimestamp.IsZero() && !strings.HasPrefix(w.V3[i].Name, "c-m-") {
			count++
		}
	}
	return count
}

// connected reports whether Rancher shows a cluster as connected and not as going.
func (s *switching) connected(w importing.World) bool {
	for i := range w.V3 {
		cluster := &w.V3[i]
		if cluster.Labels[importing.UIDLabel] != string(s.cluster.UID) || !cluster.DeletionTimestamp.IsZero() {
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
func (s *switching) lacksSwitch(f *fixture, w importing.World) string {
	cluster := w.Cluster(s.cluster)
	if cluster == nil {
		return "the CAPI cluster"
	}
	records := w.Records(s.strategy, s.cluster)
	if others := w.Records(importing.OtherThan(s.strategy), s.cluster); len(others) != 0 || len(records) != 1 {
		return fmt.Sprintf("%d records and %d of the other kind", len(records), len(others))
	}
	s.internal = importing.InternalName(records[0])
	if reason := importing.ReasonOf(cluster); reason != "True/Imported" {
		return reason
	}
	if id := cluster.Annotations[importing.RecordKey]; !strings.HasPrefix(id, s.strategy+"/") {
		return "annotation " + id
	}
	if _, stamped := cluster.Annotations[importing.ImportedKey]; stamped {
		return "it counts as removed in Rancher"
	}
	if !slices.Contains(cluster.Finalizers, importing.Finalizer) || !slices.Contains(records[0].GetFinalizers(), importing.Finalizer) {
		return "a finalizer"
	}
	if workload, _ := f.Rancher.Connected(s.internal); workload != s.workload {
		return fmt.Sprintf("connected with %q", workload)
	}
	return ""
}
