package baremetal

import (
	"context"
	"errors"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// retryMax is how long a claim waits at most of which something failed.
const retryMax = 2 * time.Minute

// Options of the controller.
type Options struct {
	// Concurrency is the number of claims that are worked on at the same time.
	Concurrency int
	// Own is the controller's own cache.
	Own cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Own == nil || options.Concurrency < 1 {
		return errors.New("the controller of claims needs a cache of its own, and a concurrency of at least 1")
	}
	shared := mgr.GetCache()
	r.Read = Readers{
		Claims: []client.Reader{shared, options.Own}, Objects: shared, Metadata: options.Own, Live: mgr.GetAPIReader(),
	}
	if err := r.complete(); err != nil {
		return err
	}
	if err := reconcile.AddIndexes(ctx, shared, append(hostIndexes(), claimIndexes()...)); err != nil {
		return err
	}
	if err := reconcile.AddIndexes(ctx, options.Own, claimIndexes()); err != nil {
		return err
	}
	work := reconcile.Work{
		Name: ControllerName, Concurrency: options.Concurrency, Own: options.Own, RetryMax: retryMax,
	}
	if err := r.Place.Add(mgr, work, hostclaim.ClaimsIn(r.Read.Claims...), r.watches(), r); err != nil {
		return err
	}
	return policyReader{policies: shared, recorder: r.Recorder, scope: r.Place.Scope}.add(mgr)
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil || len(r.Read.Claims) == 0 || r.Read.Objects == nil || r.Read.Metadata == nil ||
		r.Read.Live == nil {
		return errors.New("the controller of claims needs a client, readers, and a recorder of events")
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Metrics.Count(r.Read.Claims...)
	return nil
}

func (r *Reconciler) watches() []reconcile.Watch {
	changed := predicate.ResourceVersionChangedPredicate{}
	watches := []reconcile.Watch{
		{Object: &metal3v1.HostClaim{}, Requests: reconcile.Itself, Admits: changed},
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: reconcile.Itself, Admits: changed},
		{Object: &metal3v1.HostClaim{}, Requests: r.claimsOfReserved, Admits: gaveUp()},
		{Object: &metal3v1.HostClaim{}, Own: true, Requests: r.claimsOfReserved, Admits: gaveUp()},
		{Object: &bmov1.BareMetalHost{}, Requests: r.claimsOfHost, Admits: changed},
		{Object: &bmov1.BareMetalHost{}, Requests: r.claimsOfOffer, Admits: offers()},
		{Object: &metal3v1.HostDeployPolicy{}, Requests: r.claimsOfPolicy, Admits: predicate.GenerationChangedPredicate{}},
		{Object: namespaceMetadata(), Own: true, Requests: r.claimsOfNamespace, Admits: predicate.LabelChangedPredicate{}},
		{Object: namespaceMetadata(), Own: true, Requests: r.claimsThatGo, Admits: hostclaim.DeletionBegan()},
		{Object: secretMetadata(), Own: true, Requests: r.claimsOfSecret, Admits: changed},
		{Object: hardwareMetadata(), Own: true, Requests: r.claimsOfHardware, Admits: created()},
	}
	if r.NoClusters {
		return watches
	}
	return append(watches, reconcile.Watch{Object: &clusterv1.Cluster{}, Requests: r.claimsOfCluster, Admits: hostclaim.PausedChanged()})
}

// created admits what comes and goes.
func created() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}
