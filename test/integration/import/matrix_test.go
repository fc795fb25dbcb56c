package import_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
)

// Ways in which the cells of the deletion matrix differ.
const (
	capiSide    = "deleted in CAPI"
	rancherSide = "deleted in Rancher"

	planeUp   = "control plane up"
	planeDown = "control plane down"

	labelKept    = "label kept"
	labelRemoved = "label removed"
	labelFalse   = "label false"

	reachable      = "workload reachable"
	blackHoled     = "workload a black hole"
	kubeconfigGone = "kubeconfig gone"
)

// nightlyUnless is importing.LongUnless for what the night has in every variant.
func nightlyUnless(everyday bool) Labels {
	if everyday {
		return nil
	}
	return Label("nightly")
}

// cell is one way in which an import ends.
type cell struct{ side, plane, label, workload string }

func (c cell) String() string {
	return strings.Join([]string{c.side, c.plane, c.label, c.workload}, ", ")
}

// cells returns the deletion matrix for one strategy and one fate of the manager, in two halves, and a quarter of it.
// Any two values of different columns meet in each half, and in the quarter.
func cells() (few, some, others []cell) {
	for s, side := range []string{capiSide, rancherSide} {
		for p, plane := range []string{planeUp, planeDown} {
			for l, label := range []string{labelKept, labelRemoved, labelFalse} {
				for w, workload := range []string{reachable, blackHoled, kubeconfigGone} {
					c := cell{side, plane, label, workload}
					half := []*[]cell{&some, &others}[(s+p+l+w)%2]
					*half = append(*half, c)
					if inQuarter(s, p, l, w) {
						few = append(few, c)
					}
				}
			}
		}
	}
	return few, some, others
}

// inQuarter has one cell for each label and workload, in which the other two columns take turns.
func inQuarter(side, plane, label, workload int) bool {
	return side == (label+workload)%2 && (plane == 1) == (workload == (label+2)%3)
}

// eachAtOnce calls a function for each of n numbers, a few at a time.
func eachAtOnce(n int, do func(i int)) {
	GinkgoHelper()
	const parallel = 6
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			defer GinkgoRecover()
			for i := range numbers {
				do(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
}

// trial is a cell with its CAPI cluster.
type trial struct {
	cell
	strategy string
	// id is the name of the CAPI cluster, and of its workload cluster.
	id      string
	cluster *clusterv1.Cluster
	// inside reads its workload cluster; nil if there is none.
	inside kubernetes.Interface
	// record is the Rancher cluster of the import; internal is the name of the v3 Cluster that stands for it, and
	// of the namespace with its tokens.
	record   client.Object
	internal string
}

// setUp makes a CAPI cluster in the namespace for each cell and waits until they are imported as far as their cells let
// them. Every reachable one has a light workload cluster of its own.
func (f *fixture) setUp(ctx context.Context, namespace, strategy string, servers *workloadserver.Server, cells []cell) []*trial {
	GinkgoHelper()
	trials := make([]*trial, len(cells))
	for i, c := range cells {
		trials[i] = &trial{cell: c, strategy: strategy, id: fmt.Sprintf("%s-%02d", namespace, i)}
	}
	DeferCleanup(func() {
		for _, t := range trials {
			f.Rancher.RemoveWorkload(t.id)
		}
	})
	eachAtOnce(len(trials), func(i int) { f.begin(ctx, servers, namespace, trials[i]) })
	Eventually(f.incomplete(ctx, trials)).WithTimeout(2 * patience).Should(BeEmpty())
	return trials
}

// begin makes the CAPI cluster of a trial.
func (f *fixture) begin(ctx context.Context, servers *workloadserver.Server, namespace string, t *trial) {
	GinkgoHelper()
	kubeconfig, err := servers.BlackHole(t.id)
	Expect(err).NotTo(HaveOccurred())
	if t.workload == reachable {
		kubeconfig, err = servers.Kubeconfig(t.id)
		Expect(err).NotTo(HaveOccurred())
		Expect(f.Rancher.AddWorkload(t.id, servers.Config(t.id))).To(Succeed())
		t.inside, err = kubernetes.NewForConfig(servers.Config(t.id))
		Expect(err).NotTo(HaveOccurred())
	}
	t.cluster = f.ClusterWith(ctx, namespace, t.id, kubeconfig, importing.Selected)
}

// incomplete returns what the imports still lack, by cell, and notes what it finds in the trials.
func (f *fixture) incomplete(ctx context.Context, trials []*trial) func() map[string]string {
	return func() map[string]string {
		lack := map[string]string{}
		w := f.Look(ctx)
		for _, t := range trials {
			if what := t.lacks(w); what != "" {
				lack[t.String()] = what
			}
		}
		return lack
	}
}

func (t *trial) lacks(w importing.World) string {
	cluster := w.Cluster(t.cluster)
	records := w.Records(t.strategy, t.cluster)
	if cluster == nil || len(records) != 1 {
		return fmt.Sprintf("%d records", len(records))
	}
	t.record, t.internal = records[0], importing.InternalName(records[0])
	reason := importing.ReasonOf(cluster)
	switch {
	case !slices.Contains(w.Namespaces, t.internal):
		return "the namespace of its tokens"
	case t.inside != nil && reason != "True/Imported", t.inside == nil && reason != "False/WorkloadTimeout":
		return "an attempt to connect: " + reason
	default:
		return ""
	}
}

// prepare brings about the circumstances of a cell.
func (f *fixture) prepare(ctx context.Context, t *trial) {
	GinkgoHelper()
	if t.workload == kubeconfigGone {
		Expect(f.Client.Delete(ctx, builder.KubeconfigSecret(t.cluster.Namespace, t.cluster.Name, nil))).To(Succeed())
	}
	if t.plane == planeDown {
		f.Status(ctx, t.cluster, builder.ControlPlaneDown)
	}
	switch t.label {
	case labelRemoved:
		f.Patch(ctx, t.cluster, func(o client.Object) { o.SetLabels(nil) })
	case labelFalse:
		f.Choose(ctx, t.cluster, "false")
	}
}

// end deletes what the cell says. With label false the manager may have been faster with the record.
func (f *fixture) end(ctx context.Context, t *trial) {
	GinkgoHelper()
	object := t.record
	if t.side == capiSide {
		object = t.cluster
	}
	Expect(client.IgnoreNotFound(f.Client.Delete(ctx, object))).To(Succeed())
}

// unfinished returns what is left of the trials, by cell.
func (f *fixture) unfinished(ctx context.Context, trials []*trial) func() map[string][]string {
	return func() map[string][]string {
		left := map[string][]string{}
		w := f.Look(ctx)
		for _, t := range trials {
			what := t.left(w)
			if t.inside != nil {
				if _, err := t.inside.CoreV1().Namespaces().Get(ctx, importing.AgentNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					what = append(what, fmt.Sprintf("the agent in the workload cluster (%v)", err))
				}
			}
			if len(what) > 0 {
				left[t.String()] = what
			}
		}
		return left
	}
}

// left says what there is of a trial that must not be, and what is not there that must be.
func (t *trial) left(w importing.World) []string {
	var left []string
	for _, strategy := range importing.Strategies() {
		for _, record := range w.Records(strategy, t.cluster) {
			left = append(left, importing.DescribeRecord(strategy, record))
		}
	}
	if slices.ContainsFunc(w.V3, func(c managementv3.Cluster) bool { return c.Name == t.internal }) {
		left = append(left, "v3 "+t.internal)
	}
	if slices.Contains(w.Namespaces, t.internal) {
		left = append(left, "namespace "+t.internal)
	}
	cluster := w.Cluster(t.cluster)
	switch {
	case t.side == capiSide && cluster != nil:
		left = append(left, fmt.Sprintf("the CAPI cluster with finalizers %v", cluster.Finalizers))
	case t.side == rancherSide && cluster == nil:
		left = append(left, "no CAPI cluster")
	case t.side == rancherSide:
		left = append(left, t.leftOnCluster(cluster)...)
	}
	return left
}

// leftOnCluster is about a CAPI cluster that outlives its record.
func (t *trial) leftOnCluster(cluster *clusterv1.Cluster) []string {
	var left []string
	if controllerutil.ContainsFinalizer(cluster, importing.Finalizer) {
		left = append(left, "our finalizer on the CAPI cluster")
	}
	if id, ok := cluster.Annotations[importing.RecordKey]; ok {
		left = append(left, "annotation "+id)
	}
	wanted := map[string]string{labelKept: "False/RemovedInRancher", labelRemoved: "False/NotSelected", labelFalse: "False/NotSelected"}[t.label]
	if reason := importing.ReasonOf(cluster); reason != wanted {
		left = append(left, fmt.Sprintf("reason %s instead of %s", reason, wanted))
	}
	if stamp := cluster.Annotations[importing.ImportedKey]; stamp != "true" && t.label != labelFalse {
		left = append(left, fmt.Sprintf("annotation imported=%q", stamp))
	}
	return left
}

// sweep deletes the CAPI clusters that outlive their records. Nothing holds them.
func (f *fixture) sweep(ctx context.Context, trials []*trial) {
	GinkgoHelper()
	for _, t := range trials {
		if t.side == rancherSide {
			Expect(f.Client.Delete(ctx, t.cluster)).To(Succeed())
		}
	}
	Eventually(func() []clusterv1.Cluster { return f.Look(ctx).Clusters }).Should(BeEmpty())
}
