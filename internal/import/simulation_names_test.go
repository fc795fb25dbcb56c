package importer_test

import (
	"cmp"
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
