package importer_test

import (
	"cmp"
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/test/simulation"
)

// nameCache is the cache of display names. It lags behind on its own.
type nameCache struct {
	client.Reader // nil
	*simulation.Cache

	w *world
}

func newNameCache(w *world) *nameCache {
	return &nameCache{Cache: w.server.NewCache(v3GK), w: w}
}

// namedOf returns what is kept of a v3 Cluster for its display name. It must not be changed.
func (w *world) namedOf(object client.Object) *rancher.NamedCluster {
	cluster, ok := object.(*managementv3.Cluster)
	if !ok {
		return nil
	}
	if known := cmp.Or(w.names[cluster], w.from.names[cluster]); known != nil {
		return known
	}
	named := &rancher.NamedCluster{ObjectMeta: *cluster.ObjectMeta.DeepCopy()}
	named.Spec.DisplayName = cluster.Spec.DisplayName
	kept, _ := rancher.TrimNamedCluster(named)
	named, _ = kept.(*rancher.NamedCluster)
	w.names[cluster] = named
	return named
}

// IndexField implements client.FieldIndexer. There are so few names that all are looked at.
func (*nameCache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// Get implements client.Reader.
func (*nameCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	panic("nobody gets a display name")
}

// List implements client.Reader.
func (c *nameCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	named, _ := list.(*rancher.NamedClusterList)
	for _, object := range c.Snapshot(v3GK) {
		if found := c.w.namedOf(object); found != nil {
			copied, _ := found.DeepCopyObject().(*rancher.NamedCluster)
			named.Items = append(named.Items, *copied)
		}
	}
	return nil
}

func (c *nameCache) behind() bool { return len(c.Behind()) > 0 }

func (c *nameCache) next() (before, after *rancher.NamedCluster, ok bool) {
	event, ok := c.Next(v3GK)
	return c.w.namedOf(event.Before), c.w.namedOf(event.After), ok
}

// chooseForm draws how the next process calls new v3 Rancher clusters. What is imported stays as it is.
func (m *manager) chooseForm() {
	if m.w.unsettled {
		m.form = importer.DisplayNameForm(m.w.Pick("display names", "Name", "NamespaceName"))
	}
}

// formsOf are the display names that the Rancher cluster of a CAPI cluster may have.
func (w *world) formsOf(cluster *clusterv1.Cluster) []string {
	if asked := cluster.Annotations[archelonv1.DisplayNameAnnotation]; asked != "" {
		return []string{asked}
	}
	return []string{cluster.Name, cluster.Namespace + "-" + cluster.Name}
}

// checkForm is what must hold for the display name of a v3 Rancher cluster that is created, which has no before, or
// changed: it is of the form that was chosen when the Rancher cluster was created, whatever was chosen since.
func (w *world) checkForm(before, after client.Object) {
	created, ok := after.(*managementv3.Cluster)
	if !ok {
		return
	}
	form := string(w.working.form)
	if was, ok := before.(*managementv3.Cluster); ok {
		form = was.Annotations["archelon.io/display-name-form"]
		if created.Annotations["archelon.io/display-name-form"] != form {
			w.fail("it changes the form of %s", created.Name)
		}
		if created.Spec.DisplayName == was.Spec.DisplayName {
			return
		}
	}
	for _, cluster := range w.clusters() {
		if string(cluster.UID) != created.Labels[uidLabel] || cluster.Annotations[archelonv1.DisplayNameAnnotation] != "" {
			continue
		}
		want := cluster.Name
		if form == "NamespaceName" {
			want = cluster.Namespace + "-" + cluster.Name
		}
		if got := created.Spec.DisplayName; got != want && got != want+"-"+w.working.place {
			w.fail("it calls %s %q, want %q", created.Name, got, want)
		}
	}
}
