// Package instance tells the instances apart that share a management cluster, and makes sure that each CAPI cluster is worked on by one
// of them. An instance announces its scope on the Lease that its replicas take turns with, so a Lease that is renewed says who is alive and what it
// claims; which instance works on a cluster stands on the cluster.
package instance

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// leaseSuffix and the name of the instance make the name of its Lease.
const leaseSuffix = "-leader-election"

// ID names an instance in a management cluster.
type ID struct {
	// Namespace is that of its Lease; empty for an instance without leader election, which nobody can see.
	Namespace string
	// Name is shared by its replicas.
	Name string
}

// String returns "<namespace>/<name>", which is also how a cluster names the instance that works on it.
func (i ID) String() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// LeaseName is the name of the Lease that its replicas take turns with.
func (i ID) LeaseName() string { return i.Name + leaseSuffix }

// Claim is what an instance works on.
type Claim struct {
	// Scope limits it to namespaces.
	Scope shard.Scope
	// WatchFilter, if set, limits it to clusters whose label cluster.x-k8s.io/watch-filter has the value.
	WatchFilter string
}

// Covers reports whether the claim includes a CAPI cluster.
func (c Claim) Covers(cluster client.Object) bool {
	return c.Scope.Owns(cluster.GetNamespace()) && (c.WatchFilter == "" || cluster.GetLabels()[clusterv1.WatchLabel] == c.WatchFilter)
}

// annotations are how a claim stands on a Lease.
func (c Claim) annotations() map[string]string {
	annotations := map[string]string{archelonv1.ScopeAnnotation: c.Scope.Encode()}
	if c.WatchFilter != "" {
		annotations[archelonv1.WatchFilterAnnotation] = c.WatchFilter
	}
	return annotations
}

// Announced returns the instance that a Lease with label archelon.io/instance stands for, and what that claims. It fails for a Lease that no
// instance has written.
func Announced(lease *coordinationv1.Lease) (ID, Claim, error) {
	id := ID{Namespace: lease.Namespace, Name: lease.Labels[archelonv1.InstanceLabel]}
	if lease.Name != id.LeaseName() {
		return ID{}, Claim{}, fmt.Errorf("lease %s/%s does not have the name of one of instance %s", lease.Namespace, lease.Name, id)
	}
	claim := claimOf(textOf(lease))
	if claim == nil {
		return ID{}, Claim{}, fmt.Errorf("lease %s/%s has no scope of an instance in annotation %s", lease.Namespace, lease.Name, archelonv1.ScopeAnnotation)
	}
	return id, *claim, nil
}
