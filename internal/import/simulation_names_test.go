package importer_test

import (
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
}

func newNameCache(server *simulation.Server) *nameCache {
	return &nameCache{Cache: server.NewCache(v3GK)}
}

func namedOf(object client.Object) *rancher.NamedCluster {
	cluster, ok := object.(*managementv3.Cluster)
	if !ok {
		return nil
	}
	named := &rancher.NamedCluster{ObjectMeta: *cluster.ObjectMeta.DeepCopy()}
	named.Spec.DisplayName = cluster.Spec.DisplayName
	kept, _ := rancher.TrimNamedCluster(named)
	named, _ = kept.(*rancher.NamedCluster)
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
	for _, object := range c.Snapshot() {
		if found := namedOf(object); found != nil {
			named.Items = append(named.Items, *found)
		}
	}
	return nil
}

func (c *nameCache) behind() bool { return len(c.Behind()) > 0 }

func (c *nameCache) next() (before, after *rancher.NamedCluster, ok bool) {
	event, ok := c.Next(v3GK)
	return namedOf(event.Before), namedOf(event.After), ok
}
