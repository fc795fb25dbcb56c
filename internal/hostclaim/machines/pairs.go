package machines

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// The pair of a Machine can have the name of an earlier one. It is found by its owner and by its consumer.

// maxMachines is how many Machines of a pair are looked at, and how many pairs of a Machine in one run. There is one of
// each, or two for a moment. More have been written by somebody else, to cause requests.
const maxMachines = 8

// Indexes of the controller's own cache.
const (
	// ownerIndex of claims are the UIDs of the Machines that own one.
	ownerIndex = "hostclaims.metal3.io/owner"
	// consumerIndex of proxies is the Machine that is the consumer of one.
	consumerIndex = "hostclaims.metal3.io/machine"
	// groupIndex is the control plane or the deployment of a Machine, and for which one a proxy was left.
	groupIndex = "hostclaims.metal3.io/group"
)

func indexes() []reconcile.Index {
	return []reconcile.Index{
		{Object: &metal3v1.HostClaim{}, Name: ownerIndex, Keys: func(object client.Object) []string {
			var keys []string
			for _, uid := range machinesOf(object) {
				keys = append(keys, string(uid))
			}
			return keys
		}},
		{Object: &bmov1.BareMetalHost{}, Name: consumerIndex, Keys: func(object client.Object) []string {
			if host, ok := object.(*bmov1.BareMetalHost); ok && isProxy(host) && consumer(host) != "" {
				return []string{consumer(host)}
			}
			return nil
		}},
		{Object: &bmov1.BareMetalHost{}, Name: groupIndex, Keys: func(object client.Object) []string {
			if host, ok := object.(*bmov1.BareMetalHost); ok && isProxy(host) && tagged(host) != "" {
				return []string{tagged(host)}
			}
			return nil
		}},
		{Object: newMachine(), Name: groupIndex, Keys: func(object client.Object) []string {
			if of := group(object.GetLabels()); of != "" {
				return []string{of}
			}
			return nil
		}},
	}
}

// names returns the names of the pairs that a Machine owns or consumes, or that the provider says it has.
func (r *Reconciler) names(ctx context.Context, machine client.Object) ([]string, error) {
	claims, proxies := &metal3v1.HostClaimList{}, &bmov1.BareMetalHostList{}
	in := client.InNamespace(machine.GetNamespace())
	by := client.MatchingFields{ownerIndex: string(machine.GetUID())}
	if err := r.Read.Own.List(ctx, claims, in, by, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing HostClaims: %w", err)
	}
	by = client.MatchingFields{consumerIndex: machine.GetName()}
	if err := r.Read.Own.List(ctx, proxies, in, by, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	names := map[string]bool{}
	if name, ok := strings.CutPrefix(machine.GetAnnotations()[metal3v1.HostAnnotation], machine.GetNamespace()+"/"); ok {
		names[name] = true
	}
	for i := range claims.Items {
		names[claims.Items[i].Name] = true
	}
	for i := range proxies.Items {
		names[proxies.Items[i].Name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// pair reads a claim and the proxy of its name, and whether there is a claim that was restored without its owner.
func (r *Reconciler) pair(ctx context.Context, key types.NamespacedName) (p Pair, restored *metal3v1.HostClaim, err error) {
	claim, proxy := &metal3v1.HostClaim{}, &bmov1.BareMetalHost{}
	err = r.Read.Own.Get(ctx, key, claim)
	if err == nil && !hostclaim.IsKept(claim) {
		*claim = metal3v1.HostClaim{}
		err = r.Read.Live.Get(ctx, key, claim)
	}
	if client.IgnoreNotFound(err) != nil {
		return p, nil, fmt.Errorf("reading HostClaim %s: %w", key, err)
	}
	if err == nil && isClaim(claim) {
		p.Claim = claim
	}
	if err == nil && isRestored(claim) {
		restored = claim
	}
	err = r.Read.Own.Get(ctx, key, proxy)
	if client.IgnoreNotFound(err) != nil {
		return p, nil, fmt.Errorf("reading BareMetalHost %s: %w", key, err)
	}
	if err == nil && isProxy(proxy) {
		p.Proxy = proxy
	}
	return p, restored, nil
}

// best compares two pairs of a Machine. It keeps the one that the provider uses, or is about to use.
func best(m *Machine) func(a, b Pair) int {
	rank := func(p Pair) int {
		name, owned := p.objects()[0].GetName(), p.Claim != nil && isOwner(m.UID, p.Claim)
		switch {
		case m.Annotations[metal3v1.HostAnnotation] == m.Namespace+"/"+name:
			return 0
		case p.Proxy != nil && consumes(m.Name, p.Proxy) && p.Proxy.Spec.Online:
			return 1
		case p.Proxy != nil && consumes(m.Name, p.Proxy):
			return 2
		case owned && !waits(p.Claim):
			return 3
		default:
			return 4
		}
	}
	return func(a, b Pair) int { return cmp.Compare(rank(a), rank(b)) }
}

// isMine reports whether a Machine owns or consumes a pair.
func isMine(m *Machine, p Pair) bool {
	return p.Claim != nil && isOwner(m.UID, p.Claim) || p.Proxy != nil && consumes(m.Name, p.Proxy)
}

// isLeft reports whether no Machine has a pair, but for one that is known. A cache can be older than a Machine, and
// that is no reason to give a host back, so the API server is asked.
func (r *Reconciler) isLeft(ctx context.Context, key types.NamespacedName, p Pair, known *Machine) (bool, error) {
	users := map[string]types.UID{}
	if p.Claim != nil {
		users = machinesOf(p.Claim)
	}
	if p.Proxy != nil && consumer(p.Proxy) != "" {
		users[consumer(p.Proxy)] = ""
	}
	if len(users) > maxMachines {
		return false, nil
	}
	if known == nil {
		users[key.Name] = ""
	}
	for name, uid := range users {
		if known != nil && (uid == known.UID || uid == "" && name == known.Name) {
			continue
		}
		live := controller.MetadataOf(machineKind().GroupVersion(), machineKind().Kind)
		err := r.Read.Live.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name}, live)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading Metal3Machine %s/%s: %w", key.Namespace, name, err)
		}
		if err == nil && (uid == "" || uid == live.UID) {
			return false, nil
		}
	}
	return true, nil
}

// observeKept reads the pairs that were left for the group of a Machine, if it waits for a host.
func (r *Reconciler) observeKept(ctx context.Context, o *Observation) error {
	m, of := o.Machine, ""
	if m != nil {
		of = group(m.Labels)
	}
	if of == "" || o.Cluster == nil || m.Kind == "" || m.DeletionTimestamp != nil || m.Annotations[metal3v1.HostAnnotation] != "" ||
		o.Proxy != nil && isMine(m, Pair{o.Claim, o.Proxy}) {
		return nil
	}
	proxies := &bmov1.BareMetalHostList{}
	if err := r.Read.Own.List(ctx, proxies, client.InNamespace(m.Namespace), client.MatchingFields{groupIndex: of}); err != nil {
		return fmt.Errorf("listing BareMetalHosts: %w", err)
	}
	slices.SortFunc(proxies.Items, func(a, b bmov1.BareMetalHost) int { return cmp.Compare(a.Name, b.Name) })
	for i := range proxies.Items {
		key := client.ObjectKeyFromObject(&proxies.Items[i])
		p, _, err := r.pair(ctx, key)
		if err != nil {
			return err
		}
		if left, err := r.isLeft(ctx, key, p, m); err != nil {
			return err
		} else if left && p.Claim != nil && p.Proxy != nil && !isMine(m, p) {
			o.Kept = append(o.Kept, p)
		}
	}
	return nil
}

// cluster reads the Cluster of a Machine, or of a claim. It is nil if there is none, or if it is being deleted. If a
// pair depends on it, an old cache is no reason to give a host back.
func (r *Reconciler) cluster(ctx context.Context, p Pair, namespace, name string) (*clusterv1.Cluster, error) {
	if name == "" {
		return nil, nil
	}
	cluster, key := &clusterv1.Cluster{}, types.NamespacedName{Namespace: namespace, Name: name}
	err := r.Read.Clusters.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) && tagged(p.Proxy) != "" {
		err = r.Read.Live.Get(ctx, key, cluster)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
	case cluster.DeletionTimestamp != nil:
		return nil, nil
	default:
		return cluster, nil
	}
}
