package agentmanifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/fair"
	"github.com/archelon-io/archelon/internal/rancher"
)

// Backoff of what could not be read or written.
const (
	retryBase = 200 * time.Millisecond
	retryMax  = 2 * time.Minute
)

// Options of the controller.
type Options struct {
	// Concurrency is the number of Clusters that are worked on at the same time.
	Concurrency int
	// Rancher is the cache of Rancher's cluster, TokenSecrets that of the Secrets of its registration tokens.
	Rancher, TokenSecrets cache.Cache
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	if options.Rancher == nil || options.TokenSecrets == nil || options.Concurrency < 1 {
		return errors.New("manifests of agents need two caches of Rancher's cluster, and a concurrency of at least 1")
	}
	r.TokenSecrets = options.TokenSecrets
	if err := r.complete(); err != nil {
		return err
	}
	if err := options.Rancher.IndexField(ctx, &managementv3.Cluster{}, ownerIndex, ownerUID); err != nil {
		return fmt.Errorf("indexing v3 Rancher clusters: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		For(&clusterv1.Cluster{}, builder.WithPredicates(clusterChanged())).
		WatchesMetadata(secretMetadata(), handler.EnqueueRequestsFromMapFunc(requestOfSecret)).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, &managementv3.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestOfOwner), managementChanged())).
		WatchesRawSource(source.Kind(
			options.Rancher, client.Object(rancher.NewRegistrationToken()), handler.EnqueueRequestsFromMapFunc(r.requestOfNamespace), tokenChanged())).
		WatchesRawSource(source.Kind[client.Object](
			options.Rancher, &managementv3.Setting{}, handler.EnqueueRequestsFromMapFunc(r.requestsOfAll), settingMatters())).
		WatchesRawSource(source.Kind(options.TokenSecrets, secretMetadata(), handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, secret *metav1.PartialObjectMetadata) []reconcile.Request {
				return r.requestOfNamespace(ctx, secret)
			}))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			NewQueue:                fair.NewQueue(max(1, options.Concurrency-options.Concurrency/10)),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryBase, retryMax),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// ownerIndex finds the v3 Rancher clusters of an incarnation of a CAPI Cluster.
const ownerIndex = "archelon-manifest-owner"

func ownerUID(object client.Object) []string {
	if uid := object.GetLabels()[archelonv1.OwnerUIDLabel]; uid != "" {
		return []string{uid}
	}
	return nil
}

// requestOfOwner names the CAPI Cluster that a Rancher cluster was created for.
func requestOfOwner(_ context.Context, object client.Object) []reconcile.Request {
	key := ownerOf(object)
	if key.Namespace == "" || key.Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// requestOfNamespace names the CAPI Cluster whose v3 Rancher cluster has the namespace of the object, which has its
// name.
func (r *Reconciler) requestOfNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	management := &managementv3.Cluster{}
	if err := r.Rancher.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, management); err != nil {
		return nil // It is another's, or its own arrival wakes the Cluster.
	}
	return requestOfOwner(ctx, management)
}

// requestOfSecret names the CAPI Cluster that a Secret has the manifest for.
func requestOfSecret(_ context.Context, secret client.Object) []reconcile.Request {
	name, ok := strings.CutSuffix(secret.GetName(), agent.ManifestSecretSuffix)
	if !ok || name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: name}}}
}

// requestsOfAll names all CAPI Clusters that ask for the manifest.
func (r *Reconciler) requestsOfAll(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CAPI Clusters failed") // A cache fails only when it stops.
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Annotations[archelonv1.AgentDeliveryAnnotation] != "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// clusterChanged admits Clusters that ask for the manifest, or had it, when something that is read of them has changed.
func clusterChanged() predicate.Predicate {
	asks := func(object client.Object) [3]string {
		found := object.GetAnnotations()
		return [3]string{found[archelonv1.AgentDeliveryAnnotation], found[archelonv1.InstanceAnnotation], object.GetLabels()[clusterv1.WatchLabel]}
	}
	conditions := func(cluster *clusterv1.Cluster) [2]*metav1.Condition {
		found := cluster.GetConditions()
		return [2]*metav1.Condition{
			meta.FindStatusCondition(found, archelonv1.RancherImportedCondition), meta.FindStatusCondition(found, archelonv1.AgentManifestCondition),
		}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*clusterv1.Cluster)
		after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
		return !ok || !ok2 || before.UID != after.UID || before.ResourceVersion == after.ResourceVersion || asks(before) != asks(after) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			annotations.IsPaused(before, before) != annotations.IsPaused(after, after) ||
			!equality.Semantic.DeepEqual(conditions(before), conditions(after))
	}, DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// managementChanged admits what says which Rancher cluster is whose, and settings of the agent. Rancher writes the rest
// often.
func managementChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*managementv3.Cluster)
		after, ok2 := e.ObjectNew.(*managementv3.Cluster)
		if !ok || !ok2 || before.UID != after.UID || ownerOf(before) != ownerOf(after) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!slices.Equal(ownerUID(before), ownerUID(after)) {
			return true
		}
		was, err := rancher.AgentSpecOf(before, nil)
		is, err2 := rancher.AgentSpecOf(after, nil)
		return err != nil || err2 != nil || was.Digest != is.Digest || !slices.Equal(was.Dropped, is.Dropped)
	}}
}

// tokenChanged admits changes of what is read of a registration token.
func tokenChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return !rancher.SameRegistrationToken(e.ObjectOld, e.ObjectNew) }}
}

// settingMatters admits the settings of Rancher that the manifest is made from.
func settingMatters() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool { return slices.Contains(rancher.SettingNames(), object.GetName()) })
}
