// Package instance divides the namespaces of a management cluster among the instances that run in it. Each instance
// registers what it claims on a Lease in one namespace for all, the one that its replicas take turns with, and
// publishes there in which namespaces it works now. What an instance gets of its claim follows from the Leases alone
// (see Divide), before any cache is built. When it changes, the process ends and starts again with what it gets then.
package instance

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// leaseSuffix and the name of the instance make the name of its Lease.
const leaseSuffix = "-leader-election"

// ID names an instance in a management cluster.
type ID struct {
	// Namespace is that of its Lease.
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

// Claim is what an instance is told to work on by its flags.
type Claim struct {
	// Scope limits it to namespaces.
	Scope shard.Scope
	// WatchFilter, if set, limits it to clusters whose label cluster.x-k8s.io/watch-filter has the value.
	WatchFilter string
	// Selector, if set, limits it to namespaces whose labels match, whatever they are at the moment.
	Selector labels.Selector
}

// Selects reports whether the claim includes namespaces with these labels. None at all are those of a
// namespace that is not known yet.
func (c Claim) Selects(namespace map[string]string) bool {
	return c.Selector == nil || namespace != nil && c.Selector.Matches(labels.Set(namespace))
}

// Covers reports whether the claim includes a CAPI cluster, if it Selects the cluster's namespace.
func (c Claim) Covers(cluster client.Object) bool {
	return c.Scope.Owns(cluster.GetNamespace()) && (c.WatchFilter == "" || cluster.GetLabels()[clusterv1.WatchLabel] == c.WatchFilter)
}

// meets reports whether there may be a cluster in a namespace of both that both claim. Different watch filters tell
// clusters apart, and different selectors namespaces: which cluster is whose is seen when it is worked on.
func (c Claim) meets(other Claim) bool {
	if c.Selector != nil && other.Selector != nil && c.Selector.String() != other.Selector.String() {
		return false
	}
	return c.WatchFilter == "" || other.WatchFilter == "" || c.WatchFilter == other.WatchFilter
}

// Registered is an instance by its Lease.
type Registered struct {
	ID
	Claim
	// Since is when its Lease was created, by the API server's clock.
	Since time.Time
	// Works is where its replica that holds the Lease works; nowhere if none does.
	Works shard.Scope
	// Leaving are namespaces that it has given up and in which it may still hold something.
	Leaving []string
	// Alive is whether a replica of it runs.
	Alive bool
}

// Read returns the instance of a Lease with label archelon.io/instance, as if it were alive. It fails for a Lease that
// no instance wrote. If the Lease does not say where its holder works, the holder may work in its whole scope.
func Read(lease *coordinationv1.Lease) (Registered, error) {
	r := Registered{ID: ID{Namespace: lease.Namespace, Name: lease.Labels[archelonv1.InstanceLabel]}, Since: lease.CreationTimestamp.Time, Alive: true}
	if lease.Name != r.LeaseName() {
		return Registered{}, fmt.Errorf("lease %s/%s does not have the name of one of instance %s", lease.Namespace, lease.Name, r.ID)
	}
	var err error
	if r.Scope, err = shard.Decode(lease.Annotations[archelonv1.ScopeAnnotation]); err != nil {
		return Registered{}, fmt.Errorf("lease %s/%s has no scope of an instance in annotation %s", lease.Namespace, lease.Name, archelonv1.ScopeAnnotation)
	}
	r.WatchFilter, r.Works = lease.Annotations[archelonv1.WatchFilterAnnotation], r.Scope
	if works, ok := lease.Annotations[archelonv1.WorksInAnnotation]; ok {
		if r.Works, err = shard.Decode(works); err != nil {
			return Registered{}, fmt.Errorf("lease %s/%s has no scope in annotation %s", lease.Namespace, lease.Name, archelonv1.WorksInAnnotation)
		}
	}
	if text := lease.Annotations[archelonv1.NamespaceSelectorAnnotation]; text != "" {
		if r.Selector, err = labels.Parse(text); err != nil {
			return Registered{}, fmt.Errorf("lease %s/%s has no selector in annotation %s", lease.Namespace, lease.Name, archelonv1.NamespaceSelectorAnnotation)
		}
	}
	if names := lease.Annotations[archelonv1.LeavingAnnotation]; names != "" {
		r.Leaving = strings.Split(names, ",")
	}
	return r, nil
}

// Held reports whether somebody holds a Lease, by clocks: of one who looks once there is nothing else to tell by.
func Held(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if ptr.Deref(spec.HolderIdentity, "") == "" || spec.RenewTime == nil {
		return false
	}
	return now.Before(spec.RenewTime.Add(time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 0)) * time.Second))
}
