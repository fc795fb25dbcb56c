package outage

import (
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/shard"
)

// rules decide what is released.
type rules struct {
	// after is how long Rancher has not answered when it counts as away.
	after time.Duration
	// self is the instance, as Clusters name it, and scope are the namespaces that it works in.
	self  string
	scope shard.Scope
}

// observation is what is known at one time.
type observation struct {
	now time.Time
	// answered is when Rancher's API answered for the last time, or when it was asked first.
	answered time.Time
	// clusters are the CAPI Clusters. They are read while Rancher is away.
	clusters []clusterv1.Cluster
}

// away reports whether Rancher counts as away.
func (r rules) away(now, answered time.Time) bool { return now.Sub(answered) >= r.after }

// release takes the finalizer of the import off one CAPI Cluster, if it is still as it was read.
type release struct {
	cluster *clusterv1.Cluster
	// rancherCluster stays in Rancher. It is empty if the Cluster names none.
	rancherCluster string
	// note tells the owner of the Cluster.
	note string
}

// decide returns the Clusters to release: those of this instance that are being deleted. A Cluster that is paused may
// be on its way to another management cluster, and keeps its finalizer.
func (r rules) decide(o observation) []release {
	if !r.away(o.now, o.answered) {
		return nil
	}
	var releases []release
	for i := range o.clusters {
		cluster := &o.clusters[i]
		if cluster.DeletionTimestamp.IsZero() || !hold.Import.On(cluster) || !r.scope.Owns(cluster.Namespace) ||
			cluster.Annotations[archelonv1.InstanceAnnotation] != r.self || annotations.IsPaused(cluster, cluster) {
			continue
		}
		named := cluster.Annotations[archelonv1.RecordAnnotation]
		releases = append(releases, release{cluster: cluster, rancherCluster: named, note: r.note(named)})
	}
	return releases
}

// note says what was done, and what is left to do. Tenants can write the name of the Rancher cluster.
func (r rules) note(rancherCluster string) string {
	stays := "If it has a Rancher cluster, that stays in Rancher"
	if rancherCluster != "" {
		stays = fmt.Sprintf("Rancher cluster %.120q stays in Rancher", rancherCluster)
	}
	return fmt.Sprintf("Rancher has not answered for %v, so this Cluster is deleted without it. %s: "+
		"ask the administrator of Rancher to delete it there", r.after, stays)
}
