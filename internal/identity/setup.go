package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// retryMax is how long an identity waits at most that could not be evaluated.
const retryMax = 2 * time.Minute

// Options of the controller.
type Options struct {
	// Concurrency is the number of identities that are evaluated at the same time.
	Concurrency int
	// Metadata is a cache of what Scope.Watches has in the controller's own.
	Metadata cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Metadata == nil || options.Concurrency < 1 {
		return errors.New("the identity controller needs a cache of metadata, and a concurrency of at least 1")
	}
	if err := r.complete(); err != nil {
		return err
	}
	if err := reconcile.AddIndexes(ctx, mgr.GetFieldIndexer(), indexes()); err != nil {
		return err
	}
	work := reconcile.Work{Name: ControllerName, Concurrency: options.Concurrency, Own: options.Metadata, RetryMax: retryMax}
	if r.Checker == nil {
		return reconcile.Add(mgr, work, r.watches(), r)
	}
	if err := mgr.Add(r.Checker); err != nil {
		return fmt.Errorf("adding the checks of clusters: %w", err)
	}
	return reconcile.Add(mgr, work, r.watches(), r, source.Channel(r.Checker.events, &handler.EnqueueRequestForObject{}))
}

// complete rejects missing dependencies and fills in defaults.
func (r *Reconciler) complete() error {
	if r.Client == nil || r.Recorder == nil {
		return errors.New("the identity controller needs a client and a recorder of events")
	}
	if err := r.Resolver.complete(); err != nil {
		return err
	}
	if r.Checker != nil {
		if err := r.Checker.complete(); err != nil {
			return err
		}
	}
	if r.Notify == nil {
		r.Notify = func(string, types.NamespacedName) {}
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.memory = newMemory()
	if r.Metrics != nil {
		r.Metrics.memory.Store(r.memory)
	}
	return nil
}

// Indexes of the manager's cache.
const (
	identityIndex = "archelon.io/identity"
	secretIndex   = "archelon.io/principal-secret"
)

func indexes() []reconcile.Index {
	return []reconcile.Index{
		{Object: &infrav1.OCICluster{}, Name: identityIndex, Keys: identityKeys},
		{Object: &infrav1.OCIManagedCluster{}, Name: identityIndex, Keys: identityKeys},
		{Object: &identityv1.OCIClusterIdentity{}, Name: secretIndex, Keys: secretKeys},
	}
}

// identityKeys returns the identity that a cluster names.
func identityKeys(object client.Object) []string {
	user, ok := object.(User)
	if !ok || user.IdentityRef() == nil {
		return nil
	}
	return []string{oci.KeyOf(user.IdentityRef(), user.GetNamespace()).String()}
}

// secretKeys returns the Secret that an identity names.
func secretKeys(object client.Object) []string {
	identity, ok := object.(*identityv1.OCIClusterIdentity)
	if !ok {
		return nil
	}
	ref, _ := identity.Spec.Secret()
	return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}
}

func (r *Reconciler) watches() []reconcile.Watch {
	watches := []reconcile.Watch{
		{Object: &identityv1.OCIClusterIdentity{}, Requests: reconcile.Itself},
		{Object: &infrav1.OCICluster{}, Requests: r.identityOfCluster, Admits: refChanged()},
		{Object: &infrav1.OCIManagedCluster{}, Requests: r.identityOfCluster, Admits: refChanged()},
		{Object: metadataOf("Namespace"), Own: true, Requests: r.identitiesOfNamespace, Admits: predicate.LabelChangedPredicate{}},
	}
	if len(r.Resolver.Scope.Policy.SecretNamespaces) > 0 {
		watches = append(watches, reconcile.Watch{
			Object: SecretMetadata(), Own: true, Requests: r.identitiesOfSecret, Admits: predicate.ResourceVersionChangedPredicate{},
		})
	}
	return watches
}
