package baremetal

import (
	"context"
	"fmt"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
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
	// Claim is nil if there is none of this kind.
	Claim *metal3v1.HostClaim
	// Paused is whether the claim is to be left as it is.
	Paused bool
	// Consumed are the hosts whose consumerRef has the name of the claim, in the order of their names.
	Consumed []*bmov1.BareMetalHost
	// UID is that of the claim as the API server has it, empty if it has none. It is read if a host names another one.
	UID types.UID
	// Named is the host that the claim names, or was paused with, as the API server has it. It is read unless the claim
	// has one among Consumed.
	Named *bmov1.BareMetalHost
	// Requester is where the claim is. Candidates are the hosts that a claim without a host may be about to get, Policies
	// those of their namespaces. For a claim that has a host, they are those of the namespace of its host.
	Requester  hostclaim.Requester
	Candidates []*bmov1.BareMetalHost
	Policies   hostclaim.Policies
	// Reserved are hosts that other claims are about to take.
	Reserved map[types.NamespacedName]bool
	// Rivals are what claims of other namespaces wait for which go first. Offered is since when hosts are left to them,
	// and Taken since when other claims are about to take some.
	Rivals         []Rival
	Offered, Taken map[types.NamespacedName]time.Time
	// Secrets are those that the claim names, and the copies beside its host.
	Secrets Secrets
	// HardwareData is whether there is an object about the hardware of the host.
	HardwareData bool
}

// Readers are what a run reads from.
type Readers struct {
	// Claims are caches that have claims of the kind, each others.
	Claims []client.Reader
	// Objects is a cache of hosts and policies.
	Objects client.Reader
	// Metadata is a cache of the metadata of Namespaces, Secrets and HardwareData.
	Metadata client.Reader
	// Live reads from the API server.
	Live client.Reader
}

// observe reads. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	var o Observation
	var err error
	if o.Claim, err = r.Read.claim(ctx, key); err != nil {
		return o, err
	}
	if o.Consumed, err = r.Read.hosts(ctx, client.MatchingFields{consumerIndex: key.String()}); err != nil || o.leftToMetal3() {
		return o, err // Nothing else is needed to leave it alone.
	}
	if strangers(o) {
		if o.UID, err = r.Read.uid(ctx, key); err != nil {
			return o, err
		}
	}
	if o.Claim != nil && len(o.owned()) == 0 && namedBy(o.Claim) != nil {
		if o.Named, err = r.Read.host(ctx, *namedBy(o.Claim)); err != nil {
			return o, err
		}
	}
	if err := r.observeSecrets(ctx, &o); err != nil {
		return o, err
	}
	if o.Claim == nil {
		return o, nil
	}
	if o.Paused, err = r.paused(ctx, o); err != nil || o.Paused || o.Claim.DeletionTimestamp != nil {
		return o, err
	}
	o.Requester, o.Policies = hostclaim.Requester{Name: key.Namespace}, hostclaim.Policies{}
	if o.Requester.Labels, err = r.Read.labels(ctx, key.Namespace); err != nil {
		return o, err
	}
	if owned := o.owned(); len(owned) > 0 {
		// The permission may be withdrawn while the claim has the host.
		o.Policies[owned[0].Namespace], err = r.Read.policies(ctx, owned[0].Namespace)
		return o, err
	}
	return o, r.observeCandidates(ctx, &o)
}

// paused reports whether a claim is to be left as it is. What is parked may be on its way at this moment: the cache is
// not believed when it says otherwise.
func (r *Reconciler) paused(ctx context.Context, o Observation) (bool, error) {
	asks := hostclaim.IsPaused
	goes, err := hostclaim.GoesWithNamespace(ctx, r.Read.Metadata, o.Claim)
	if goes && !o.movable() {
		asks = hostclaim.IsPausedByOthers
	}
	if err != nil {
		return false, err
	}
	if r.NoClusters {
		return asks(ctx, nil, o.Claim)
	}
	paused, err := asks(ctx, r.Read.Objects, o.Claim)
	if err != nil || paused || !goes && !o.parked() {
		return paused, err
	}
	return asks(ctx, r.Read.Live, o.Claim)
}

// observeSecrets reads about the Secrets of a claim and the copies beside its hosts. Before a host is released, the API
// server is asked for copies: the cache may not have one that was created just now.
func (r *Reconciler) observeSecrets(ctx context.Context, o *Observation) error {
	o.Secrets = Secrets{}
	owned := o.owned()
	for i, host := range append(owned, o.strays()...) {
		from := r.Read.Metadata
		if kept := i == 0 && len(owned) > 0 && o.Claim.DeletionTimestamp == nil; !kept && leaves(host) {
			from = r.Read.Live
		}
		for _, role := range hostclaim.Roles() {
			if err := o.Secrets.read(ctx, from, copyOf(keyOf(host), role)); err != nil {
				return err
			}
		}
	}
	if len(owned) == 0 {
		return r.observeLeftOver(ctx, o)
	}
	for _, ref := range hostclaim.Sources(o.Claim) {
		if !hostclaim.MayRead(o.Claim, ref) {
			continue
		}
		name := types.NamespacedName{Namespace: o.Claim.Namespace, Name: ref.Name}
		if err := o.Secrets.read(ctx, r.Read.Metadata, name); err != nil {
			return err
		}
	}
	var err error
	o.HardwareData, err = r.Read.hardwareData(ctx, keyOf(owned[0]))
	return err
}

// observeCandidates reads what a claim without a host could get: the host that it is about to take, or all that it may
// choose from.
func (r *Reconciler) observeCandidates(ctx context.Context, o *Observation) error {
	var err error
	if o.Claim.Status.PendingHost != nil {
		if o.Named != nil {
			o.Policies[o.Named.Namespace], err = r.Read.policies(ctx, o.Named.Namespace)
		}
		return err
	}
	selector := o.Claim.Spec.HostSelector
	o.Candidates, err = r.Read.hosts(
		ctx, client.MatchingFields{poolIndex: hostclaim.PoolOf(selector)}, client.InNamespace(selector.InNamespace),
	)
	if err != nil {
		return err
	}
	o.Reserved = r.reserved(ctx)
	for _, host := range o.Candidates {
		if _, ok := o.Policies[host.Namespace]; !ok {
			if o.Policies[host.Namespace], err = r.Read.policies(ctx, host.Namespace); err != nil {
				return err
			}
		}
	}
	return r.observeRivals(ctx, o)
}

// observeLeftOver reads about copies beside a host that the claim had, and has lost.
func (r *Reconciler) observeLeftOver(ctx context.Context, o *Observation) error {
	if o.Claim == nil || hostOf(o.Claim) == nil {
		return nil
	}
	from := r.Read.Live
	if o.Claim.Status.PendingHost != nil {
		from = r.Read.Metadata // It is mostly one that the claim never had.
	}
	for _, role := range hostclaim.Roles() {
		if err := o.Secrets.read(ctx, from, copyOf(*hostOf(o.Claim), role)); err != nil {
			return err
		}
	}
	return nil
}

// read reads the metadata of a Secret, if there is one.
func (s Secrets) read(ctx context.Context, from client.Reader, name types.NamespacedName) error {
	found := secretMetadata()
	err := from.Get(ctx, name, found)
	if err == nil {
		s[name] = found
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the metadata of Secret %s: %w", name, err)
	}
	return nil
}

// hostOf returns the host that the status of a claim names.
func hostOf(claim *metal3v1.HostClaim) *types.NamespacedName {
	ref := claim.Status.PendingHost
	if ref == nil {
		ref = claim.Status.BareMetalHost
	}
	if ref == nil {
		return nil
	}
	return &types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

func (r Readers) claim(ctx context.Context, key types.NamespacedName) (*metal3v1.HostClaim, error) {
	for _, claims := range r.Claims {
		claim, err := claimFrom(ctx, claims, key)
		if claim != nil && (claim.Status.PendingHost != nil || !hostclaim.IsKept(claim)) {
			// A host must not be taken for a claim that has gone meanwhile.
			return claimFrom(ctx, r.Live, key)
		}
		if claim != nil || err != nil {
			return claim, err
		}
	}
	return nil, nil
}

// claimFrom returns nil if there is no claim of this kind.
func claimFrom(ctx context.Context, from client.Reader, key types.NamespacedName) (*metal3v1.HostClaim, error) {
	claim := &metal3v1.HostClaim{}
	switch err := from.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading HostClaim %s: %w", key, err)
	}
	hostclaim.Spell(claim)
	if claim.Spec.Kind != metal3v1.KindBareMetal {
		return nil, nil
	}
	return claim, nil
}

// uid asks the API server for the UID of a claim.
func (r Readers) uid(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	claim := controller.MetadataOf(metal3v1.GroupVersion, metal3v1.HostClaimKind)
	switch err := r.Live.Get(ctx, key, claim); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading HostClaim %s: %w", key, err)
	default:
		return claim.UID, nil
	}
}

// hosts are only to be read: they are those of the cache.
func (r Readers) hosts(ctx context.Context, options ...client.ListOption) ([]*bmov1.BareMetalHost, error) {
	list := &bmov1.BareMetalHostList{}
	if err := r.Objects.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	hosts := make([]*bmov1.BareMetalHost, len(list.Items))
	for i := range list.Items {
		hosts[i] = &list.Items[i]
	}
	return hosts, nil
}

// host asks the API server for a host.
func (r Readers) host(ctx context.Context, name types.NamespacedName) (*bmov1.BareMetalHost, error) {
	host := &bmov1.BareMetalHost{}
	switch err := r.Live.Get(ctx, name, host); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading BareMetalHost %s: %w", name, err)
	default:
		return host, nil
	}
}

func (r Readers) policies(ctx context.Context, namespace string) ([]metal3v1.HostDeployPolicy, error) {
	list := &metal3v1.HostDeployPolicyList{}
	err := r.Objects.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing HostDeployPolicies of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// labels of a Namespace that is not in the cache are none.
func (r Readers) labels(ctx context.Context, namespace string) (map[string]string, error) {
	object := namespaceMetadata()
	if err := r.Metadata.Get(ctx, types.NamespacedName{Name: namespace}, object); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the labels of Namespace %s: %w", namespace, err)
	}
	return object.Labels, nil
}

// hardwareData reports whether there is an object about the hardware of a host.
func (r Readers) hardwareData(ctx context.Context, host types.NamespacedName) (bool, error) {
	err := r.Metadata.Get(ctx, host, hardwareMetadata())
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading HardwareData %s: %w", host, err)
	}
	return err == nil, nil
}

func secretMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(corev1.SchemeGroupVersion, "Secret")
}

func hardwareMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(bmov1.GroupVersion, "HardwareData")
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(corev1.SchemeGroupVersion, "Namespace")
}
