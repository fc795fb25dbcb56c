package machines

import (
	"context"
	"fmt"
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Observation is all that a run has read.
type Observation struct {
	// Machine is nil if there is none.
	Machine *Machine
	// Gone is whether no other Metal3Machine has claim and proxy either, according to the API server.
	Gone bool
	// Paused is whether all of it is to be left as it is.
	Paused bool
	// Claim and Proxy are those that the Machine owns or consumes, or else those of its name. Both carry our label, and
	// are nil if there are none.
	Claim *metal3v1.HostClaim
	Proxy *bmov1.BareMetalHost
	// Ownerless is whether there is a claim of the Machine that has no owner: it was restored.
	Ownerless bool
	// Cluster is that of the Machine, without one that of the claim. It is nil if it is gone, or being deleted.
	Cluster *clusterv1.Cluster
	// Kept are pairs that were left for the control plane or the deployment of the Machine. They are read while the
	// Machine waits for a host.
	Kept []Pair
	// Rest are further pairs of this Machine, or of its name. Each is observed as if there was no Machine.
	Rest []Observation
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
	object := newMachine()
	err := r.Read.Own.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return r.observePair(ctx, key, nil)
	case err != nil:
		return Observation{}, fmt.Errorf("reading Metal3Machine %s: %w", key, err)
	default:
		return r.observeMachine(ctx, key, object)
	}
}

// observeMachine reads about a Machine that is there.
func (r *Reconciler) observeMachine(ctx context.Context, key types.NamespacedName, object *unstructured.Unstructured) (Observation, error) {
	o := Observation{Machine: read(object)}
	m := o.Machine
	names, err := r.names(ctx, object)
	if err != nil {
		return o, err
	}
	var mine []Pair
	for _, name := range names {
		p, _, err := r.pair(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			return o, err
		}
		if isMine(m, p) {
			mine = append(mine, p)
		}
	}
	slices.SortStableFunc(mine, best(m))
	at, further := key.Name, []string{}
	for i, p := range mine {
		if name := p.objects()[0].GetName(); i == 0 {
			at = name
		} else {
			further = append(further, name)
		}
	}
	if (at != key.Name || len(mine) == 0) && !slices.Contains(further, key.Name) {
		further = append(further, key.Name)
	}
	err = r.complete(ctx, &o, types.NamespacedName{Namespace: key.Namespace, Name: at}, further)
	return o, err
}

// complete reads the pair of a Machine, and what else matters to it.
func (r *Reconciler) complete(ctx context.Context, o *Observation, at types.NamespacedName, further []string) error {
	m := o.Machine
	p, restored, err := r.pair(ctx, at)
	if err != nil {
		return err
	}
	o.Claim, o.Proxy, o.Ownerless = p.Claim, p.Proxy, restored != nil && restored.Spec.ConsumerRef.Name == m.Name
	if o.Claim != nil && !isOwner(m.UID, o.Claim) {
		if o.Gone, err = r.isLeft(ctx, at, p, m); err != nil {
			return err
		}
	}
	if o.Cluster, err = r.cluster(ctx, p, m.Namespace, m.Labels[clusterv1.ClusterNameLabel]); err != nil {
		return err
	}
	if err = r.observeKept(ctx, o); err != nil {
		return err
	}
	for _, name := range further[max(0, len(further)-maxMachines):] {
		rest, err := r.observePair(ctx, types.NamespacedName{Namespace: at.Namespace, Name: name}, m)
		if err != nil {
			return err
		}
		if rest.Claim != nil || rest.Proxy != nil {
			o.Rest = append(o.Rest, rest)
		}
	}
	o.Paused, err = r.paused(ctx, *o)
	return err
}

// observePair reads about a pair as if it had no Machine. One that may have it is known.
func (r *Reconciler) observePair(ctx context.Context, key types.NamespacedName, known *Machine) (Observation, error) {
	var o Observation
	p, restored, err := r.pair(ctx, key)
	if err != nil || p.Claim == nil && p.Proxy == nil {
		return o, err
	}
	o.Claim, o.Proxy, o.Ownerless = p.Claim, p.Proxy, restored != nil
	if o.Gone, err = r.isLeft(ctx, key, p, known); err != nil {
		return o, err
	}
	if o.Claim != nil {
		if o.Cluster, err = r.cluster(ctx, p, key.Namespace, o.Claim.Labels[clusterv1.ClusterNameLabel]); err != nil {
			return o, err
		}
	}
	if err = r.observeTag(ctx, key, &o); err != nil {
		return o, err
	}
	o.Paused, err = r.paused(ctx, o)
	return o, err
}

// observeTag asks the API server whether the provider has left a pair for the next Machine before it let the last one
// go. The cache can know that the Machine is gone, and not why the pair stays.
func (r *Reconciler) observeTag(ctx context.Context, key types.NamespacedName, o *Observation) error {
	if !o.Gone || o.Cluster == nil || o.Claim == nil || !isOwner(o.Cluster.UID, o.Claim) || tagged(o.Proxy) != "" {
		return nil
	}
	proxy := &bmov1.BareMetalHost{}
	err := r.Read.Live.Get(ctx, key, proxy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading BareMetalHost %s: %w", key, err)
	}
	if o.Proxy = nil; err == nil && isProxy(proxy) {
		o.Proxy = proxy
	}
	return nil
}

// paused reports whether the Machine is paused, or its Cluster. Without a Machine it is the claim that counts, and
// without a claim the Cluster that owns the proxy. A pair without a Machine may be about to end, and can come here from
// another cluster before its other half: the API server is asked, because a cache can be older than both.
func (r *Reconciler) paused(ctx context.Context, o Observation) (bool, error) {
	switch {
	case o.Machine != nil:
		return hostclaim.IsPaused(ctx, r.Read.Clusters, &metal3v1.HostClaim{ObjectMeta: o.Machine.ObjectMeta})
	case o.Claim != nil:
		return hostclaim.IsPaused(ctx, r.Read.Live, o.Claim)
	case o.Proxy != nil:
		return hostclaim.IsPaused(ctx, r.Read.Live, &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Proxy.Namespace, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterOf(o.Proxy)},
		}})
	default:
		return false, nil
	}
}

// clusterOf returns the name of the Cluster that owns a proxy, empty if none does.
func clusterOf(proxy *bmov1.BareMetalHost) string {
	for _, ref := range proxy.OwnerReferences {
		if ref.Kind == clusterKind {
			return ref.Name
		}
	}
	return ""
}

// ours reports whether a claim or a host says that it was created by this controller.
func ours(object client.Object) bool {
	return object.GetLabels()[metal3v1.MachineLabel] == metal3v1.MachineLabelValue
}

// isClaim and isProxy tell what was created by this controller from what somebody has given our label. A host that has
// a BMC is a real one, and nothing is ever written to it.
func isClaim(claim *metal3v1.HostClaim) bool {
	return ours(claim) && slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == machineKind().Kind || ref.Kind == clusterKind
	})
}

// isRestored reports whether a claim was created by this controller, and restored by a tool that drops owners.
func isRestored(claim *metal3v1.HostClaim) bool {
	of := claim.Spec.ConsumerRef
	return ours(claim) && len(claim.OwnerReferences) == 0 && of != nil && of.Kind == machineKind().Kind
}

func isProxy(host *bmov1.BareMetalHost) bool {
	return ours(host) && host.Spec.BMC.Address == "" && host.Annotations[bmov1.PausedAnnotation] == metal3v1.ProxyPause
}
