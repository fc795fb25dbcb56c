package importer

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
)

// maxNamespaces is how many namespaces are named for a reason. More of them have a cause that is no tenant's, and with
// each of them as a series the metrics of a failing Rancher would be as many as the clusters.
const maxNamespaces = 100

// group is what the inventory counts together. The namespace is empty for imported clusters, and for a reason that
// clusters of more than maxNamespaces have.
type group struct{ status, reason, namespace string }

// inventory counts clusters by their condition whenever metrics are read. Counts that are kept on the side would drift;
// a list from the cache costs no request.
type inventory struct {
	desc *prometheus.Desc

	mu sync.Mutex
	// views has one for each manager of this process that leads; tests run several.
	views map[*view]struct{}
}

// add has a view counted until what it returns is called.
func (i *inventory) add(v *view) (remove func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.views[v] = struct{}{}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.views, v)
	}
}

func (i *inventory) all() []*view {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.views))
}

// view is what the leader sees. Other replicas count nothing, so that a sum over all of them is right.
type view struct {
	reader client.Reader
	claim  instance.Claim
	// claimed reports whether an instance that runs imports what is in a namespace with these labels. Optional.
	claimed func(namespace string, labels map[string]string) bool
}

func newInventory() *inventory {
	return &inventory{views: map[*view]struct{}{}, desc: prometheus.NewDesc("archelon_import_clusters",
		"CAPI clusters that are imported or to be imported, by status and reason of their condition RancherImported, "+
			"and by namespace unless they are imported or many namespaces have the reason. Only the leader counts.",
		[]string{"status", "reason", "cluster_namespace"}, nil)}
}

// Describe implements prometheus.Collector.
func (i *inventory) Describe(descs chan<- *prometheus.Desc) {
	descs <- i.desc
}

// Collect implements prometheus.Collector.
func (i *inventory) Collect(metrics chan<- prometheus.Metric) {
	views := i.all()
	if len(views) == 0 {
		return
	}
	counts := map[group]int{}
	for _, seen := range views {
		if err := seen.count(counts); err != nil {
			metrics <- prometheus.NewInvalidMetric(i.desc, err)
			return
		}
	}
	for of, count := range withFewNamespaces(counts) {
		metrics <- prometheus.MustNewConstMetric(
			i.desc, prometheus.GaugeValue, float64(count), of.status, of.reason, of.namespace)
	}
}

// withFewNamespaces adds up what clusters of too many namespaces have.
func withFewNamespaces(counts map[group]int) map[group]int {
	namespaces := map[group]int{}
	for of := range counts {
		namespaces[group{of.status, of.reason, ""}]++
	}
	for of, count := range counts {
		if all := (group{of.status, of.reason, ""}); of != all && namespaces[all] > maxNamespaces {
			delete(counts, of)
			counts[all] += count
		}
	}
	return counts
}

// count adds the clusters by status, reason and namespace.
func (v *view) count(counts map[group]int) error {
	list := &clusterv1.ClusterList{}
	// Nothing of it is changed. The context never ends: a list from a cache does not wait.
	if err := v.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	ours := v.namespaces(list)
	for n := range list.Items {
		cluster := &list.Items[n]
		condition := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition)
		if condition == nil || !v.claim.Covers(cluster) || !ours[cluster.Namespace] {
			continue
		}
		of := group{status: string(condition.Status), reason: condition.Reason}
		if condition.Status != metav1.ConditionTrue {
			of.namespace = cluster.Namespace
		}
		counts[of]++
	}
	return nil
}

// namespaces returns those of the clusters that the instance selects.
func (v *view) namespaces(list *clusterv1.ClusterList) map[string]bool {
	selected := map[string]bool{}
	for name, labels := range v.labels(list) {
		selected[name] = v.claim.Selects(labels)
	}
	return selected
}

// labels returns the labels of the namespaces of clusters, none of one that is not there. They
// are looked up if they count.
func (v *view) labels(list *clusterv1.ClusterList) map[string]map[string]string {
	found := map[string]map[string]string{}
	for n := range list.Items {
		name := list.Items[n].Namespace
		if _, seen := found[name]; seen {
			continue
		}
		found[name] = nil
		if namespace := metadataOf("Namespace"); v.claim.Selector != nil &&
			v.reader.Get(context.Background(), client.ObjectKey{Name: name}, namespace) == nil {
			found[name] = namespace.Labels
		}
	}
	return found
}

// unselected returns how many namespaces with CAPI clusters no instance selects that runs.
func (v *view) unselected() int {
	list := &clusterv1.ClusterList{}
	if v.claimed == nil || v.claim.Selector == nil || v.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy) != nil {
		return 0
	}
	unselected := 0
	for name, labels := range v.labels(list) {
		if v.claim.Scope.Owns(name) && !v.claimed(name, labels) {
			unselected++
		}
	}
	return unselected
}

// counting has the inventory count for as long as this replica leads. It is a manager.Runnable.
type counting struct {
	inventory *inventory
	view      view
	// unselected, if set, is given what counts namespaces that no instance selects, and nothing at the end.
	unselected func(count func() int)
}

// Start implements manager.Runnable.
func (c counting) Start(ctx context.Context) error {
	defer c.inventory.add(&c.view)()
	if c.unselected != nil {
		c.unselected(c.view.unselected)
		defer c.unselected(nil)
	}
	<-ctx.Done()
	return nil
}
