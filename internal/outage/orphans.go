package outage

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge"
)

// Metrics count what stays behind in Rancher.
type Metrics struct {
	count atomic.Pointer[func() int]
}

// NewMetrics registers the metric
//
//	archelon_orphaned_rancher_clusters     Rancher clusters of this management cluster without a CAPI Cluster
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{}
	return m, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "archelon_orphaned_rancher_clusters",
		Help: "How many Rancher clusters of this management cluster have no CAPI Cluster, if Rancher is in another " +
			"cluster. Only the leader counts.",
	}, func() float64 {
		if count := m.count.Load(); count != nil {
			return float64((*count)())
		}
		return 0
	}))
}

// Orphans counts Rancher clusters without a CAPI Cluster whenever metrics are read, for as long as this replica leads.
// It is a manager.Runnable of the leader.
type Orphans struct {
	// Synced is closed when both caches have what there is.
	Synced <-chan struct{}
	// Clusters is the cache of the management cluster, and Rancher that of Rancher's cluster. The latter has the Rancher
	// clusters of the instance's namespaces.
	Clusters, Rancher client.Reader
	// Metrics show the number.
	Metrics *Metrics
}

// Start implements manager.Runnable.
func (o Orphans) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-o.Synced:
	}
	count := func() int { return o.count(ctx) }
	o.Metrics.count.Store(&count)
	defer o.Metrics.count.Store(nil)
	<-ctx.Done()
	return nil
}

// count reads from caches. It is zero when these end.
func (o Orphans) count(ctx context.Context) int {
	rancherClusters, clusters := &managementv3.ClusterList{}, &clusterv1.ClusterList{}
	if o.Rancher.List(ctx, rancherClusters, client.UnsafeDisableDeepCopy) != nil ||
		o.Clusters.List(ctx, clusters, client.UnsafeDisableDeepCopy) != nil {
		return 0
	}
	living := sets.Set[types.UID]{}
	for i := range clusters.Items {
		living.Insert(clusters.Items[i].UID)
	}
	orphans := 0
	for i := range rancherClusters.Items {
		if edge.Orphan(&rancherClusters.Items[i], living) {
			orphans++
		}
	}
	return orphans
}
