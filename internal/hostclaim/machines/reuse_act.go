package machines

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// own gives a claim or a proxy one more owner, if the API server has the version that was seen. A cache does not keep
// all of the owners, so they are read from the API server.
type own struct {
	object client.Object
	by     metav1.OwnerReference
}

// String implements fmt.Stringer.
func (o own) String() string {
	return "having " + o.by.Kind + " " + o.by.Name + " own " + describe(o.object)
}

// Do implements reconcile.Action.
func (o own) Do(ctx context.Context, r *Reconciler) error {
	live, err := r.state(ctx, o.object)
	if err != nil {
		return err
	}
	after, _ := live.DeepCopyObject().(client.Object)
	after.SetOwnerReferences(append(after.GetOwnerReferences(), o.by))
	return r.Client.Patch(ctx, after, reconcile.Locked(live), client.FieldOwner(FieldOwner))
}

// state reads a claim or a proxy that is as it was seen.
func (r *Reconciler) state(ctx context.Context, seen client.Object) (client.Object, error) {
	live, resource := client.Object(&metal3v1.HostClaim{}), "hostclaims"
	if _, host := seen.(*bmov1.BareMetalHost); host {
		live, resource = &bmov1.BareMetalHost{}, "baremetalhosts"
	}
	if err := r.Read.Live.Get(ctx, client.ObjectKeyFromObject(seen), live); err != nil {
		return nil, err
	}
	if live.GetUID() != seen.GetUID() || live.GetResourceVersion() != seen.GetResourceVersion() {
		return nil, reconcile.Outdated(resource, seen.GetName())
	}
	return live, nil
}

// take gives a kept proxy to a Machine. The claim follows: if that fails, the next run finds the claim by the proxy.
type take struct {
	pair    Pair
	machine *Machine
}

// String implements fmt.Stringer.
func (t take) String() string {
	return "giving " + describe(t.pair.Proxy) + " to Metal3Machine " + t.machine.Name
}

// Do implements reconcile.Action.
func (t take) Do(ctx context.Context, r *Reconciler) error {
	m, proxy := t.machine, t.pair.Proxy
	if err := r.waits(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.UID); err != nil {
		return err
	}
	if err := r.hasNone(ctx, m, t.pair.Claim.Name); err != nil {
		return err
	}
	after := proxy.DeepCopy()
	after.OwnerReferences = owners(proxy, m)
	after.Spec.ConsumerRef = consumerRef(m)
	after.Labels = hostclaim.Set(after.Labels, clusterv1.ClusterNameLabel, m.Labels[clusterv1.ClusterNameLabel])
	delete(after.Labels, metal3v1.NodeReuseLabel)
	if err := r.Client.Patch(ctx, after, reconcile.Locked(proxy), client.FieldOwner(FieldOwner)); err != nil {
		return err
	}
	return adopt{Pair{t.pair.Claim, after}, m}.Do(ctx, r)
}

// hasNone asks the API server whether there is a claim of the name of a Machine, which a cache does not have yet.
func (r *Reconciler) hasNone(ctx context.Context, m *Machine, but string) error {
	if m.Name == but {
		return nil
	}
	err := r.Read.Live.Get(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, &metal3v1.HostClaim{})
	if err == nil {
		return reconcile.Outdated("hostclaims", m.Name)
	}
	return client.IgnoreNotFound(err)
}

// adopt gives a claim to the Machine that has its proxy.
type adopt struct {
	pair    Pair
	machine *Machine
}

// String implements fmt.Stringer.
func (a adopt) String() string {
	return "giving " + describe(a.pair.Claim) + " to Metal3Machine " + a.machine.Name
}

// Do implements reconcile.Action.
func (a adopt) Do(ctx context.Context, r *Reconciler) error {
	live, err := r.state(ctx, a.pair.Claim)
	if apierrors.IsNotFound(err) {
		return reconcile.Outdated("hostclaims", a.pair.Claim.Name)
	}
	before, ok := live.(*metal3v1.HostClaim)
	if err != nil || !ok {
		return err
	}
	after := before.DeepCopy()
	after.OwnerReferences = owners(before, a.machine)
	after.Spec = wanted(Observation{Machine: a.machine, Claim: before, Proxy: a.pair.Proxy})
	return r.Client.Patch(ctx, after, reconcile.Locked(before), client.FieldOwner(FieldOwner))
}
