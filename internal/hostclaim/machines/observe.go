package machines

import (
	"context"
	"fmt"
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Observation is all that a run has read.
type Observation struct {
	// Machine is nil if there is none. Gone is whether the API server says so as well.
	Machine *Machine
	Gone    bool
	// Paused is whether all of it is to be left as it is.
	Paused bool
	// Claim and Proxy are those of the name of the Machine that carry our label, nil if there are none.
	Claim *metal3v1.HostClaim
	Proxy *bmov1.BareMetalHost
	// Ownerless is whether there is a claim of the Machine that has no owner: it was restored.
	Ownerless bool
}

// Readers are what a run reads from.
type Readers struct {
	// Own is a cache of Metal3Machines, and of the claims and hosts with our label.
	Own client.Reader
	// Clusters is a cache of Clusters.
	Clusters client.Reader
	// Live reads from the API server.
	Live client.Reader
}

// observe reads. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	var o Observation
	object, claim, proxy := newMachine(), &metal3v1.HostClaim{}, &bmov1.BareMetalHost{}
	isThere := map[client.Object]bool{}
	for _, each := range []client.Object{object, claim, proxy} {
		err := r.Read.Own.Get(ctx, key, each)
		if client.IgnoreNotFound(err) != nil {
			return o, fmt.Errorf("reading %T %s: %w", each, key, err)
		}
		isThere[each] = err == nil
	}
	if isThere[claim] && !hostclaim.IsKept(claim) {
		*claim = metal3v1.HostClaim{}
		err := r.Read.Live.Get(ctx, key, claim)
		if client.IgnoreNotFound(err) != nil {
			return o, fmt.Errorf("reading HostClaim %s: %w", key, err)
		}
		isThere[claim] = err == nil
	}
	if isThere[claim] && isClaim(claim) {
		o.Claim = claim
	}
	o.Ownerless = isThere[claim] && isRestored(claim)
	if isThere[proxy] && isProxy(proxy) {
		o.Proxy = proxy
	}
	var err error
	if isThere[object] {
		o.Machine = read(object)
	} else if o.Claim != nil || o.Proxy != nil {
		// An old cache is no reason to give a host back.
		live := controller.MetadataOf(machineKind().GroupVersion(), machineKind().Kind)
		if err = r.Read.Live.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
			return o, fmt.Errorf("reading Metal3Machine %s: %w", key, err)
		}
		o.Gone = apierrors.IsNotFound(err)
	}
	o.Paused, err = r.paused(ctx, o)
	return o, err
}

// paused reports whether the Machine is paused, or its Cluster. Without a Machine it is the claim that counts.
func (r *Reconciler) paused(ctx context.Context, o Observation) (bool, error) {
	switch {
	case o.Machine != nil:
		return hostclaim.IsPaused(ctx, r.Read.Clusters, &metal3v1.HostClaim{ObjectMeta: o.Machine.ObjectMeta})
	case o.Claim != nil:
		return hostclaim.IsPaused(ctx, r.Read.Clusters, o.Claim)
	default:
		return false, nil
	}
}

// ours reports whether a claim or a host says that it was created by this controller.
func ours(object client.Object) bool {
	return object.GetLabels()[metal3v1.MachineLabel] == metal3v1.MachineLabelValue
}

// isClaim and isProxy tell what was created by this controller from what somebody has given our label. A host that has
// a BMC is a real one, and nothing is ever written to it.
func isClaim(claim *metal3v1.HostClaim) bool {
	return ours(claim) && slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == machineKind().Kind
	})
}

// isRestored reports whether a claim was created by this controller, and restored by a tool that drops owners.
func isRestored(claim *metal3v1.HostClaim) bool {
	of := claim.Spec.ConsumerRef
	return ours(claim) && len(claim.OwnerReferences) == 0 && of != nil && of.Kind == machineKind().Kind && of.Name == claim.Name
}

func isProxy(host *bmov1.BareMetalHost) bool {
	return ours(host) && host.Spec.BMC.Address == "" && host.Annotations[bmov1.PausedAnnotation] == metal3v1.ProxyPause
}
