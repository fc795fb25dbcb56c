// Package kinds says of HostClaims that nobody handles their kind. Kinds are open: the controller of one may be
// somebody else's. So a claim is given time to be worked on, and then its condition says that nobody has.
package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/internal/shard"
)

// ControllerName is the name of the controller in logs and metrics.
const ControllerName = "hostclaim-kinds"

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-host-claim-kinds"

// Grace is how long the controller of a kind may take to begin with a claim.
const Grace = time.Minute

// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims,verbs=get;list;watch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hostclaims.metal3.io,verbs=list;watch

// Controller describes the controller. The kinds are those that others handle; the API server does not send their
// claims.
func Controller(
	gate featuregate.Feature, crd controller.CRD, known []string, setup func(context.Context, controller.Env) error,
) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "hostclaim/kinds", Gate: gate, CRDs: []controller.CRD{crd}, Setup: setup,
		Watches: func(shard.Scope) []controller.Watch {
			others := make([]fields.Selector, len(known))
			for i, kind := range known {
				others[i] = fields.OneTermNotEqualSelector("spec.kind", kind)
			}
			return []controller.Watch{{Own: true, Object: &metal3v1.HostClaim{}, By: cache.ByObject{
				Field: fields.AndSelectors(others...), Transform: keepKind,
			}}}
		},
	}
}

// keepKind leaves of a claim its kind, and whether somebody works on it.
func keepKind(object any) (any, error) {
	if claim, ok := object.(*metal3v1.HostClaim); ok {
		claim.ObjectMeta = metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Generation: claim.Generation, CreationTimestamp: claim.CreationTimestamp, DeletionTimestamp: claim.DeletionTimestamp,
			Finalizers: hostclaim.KeepFinalizers(claim.Finalizers),
		}
		claim.Spec = metal3v1.HostClaimSpec{Kind: claim.Spec.Kind}
		claim.Status = metal3v1.HostClaimStatus{Ready: claim.Status.Ready, Conditions: claim.Status.Conditions}
	}
	return object, nil
}

// Reconciler says of claims that nobody handles their kind.
type Reconciler struct {
	// Client writes the status.
	Client client.Client
	// Claims has claims of all kinds that are not known.
	Claims client.Reader
	// Kinds are those that are known.
	Kinds []string
	// Grace and Clock are optional.
	Grace time.Duration
	Clock clock.PassiveClock
}

// SetupWithManager adds the controller to the manager. It fails if a required field is missing.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, own cache.Cache) error {
	if r.Client == nil || own == nil || len(r.Kinds) == 0 {
		return errors.New("the controller of unknown kinds needs a client, a cache, and the kinds that are known")
	}
	r.Claims = own
	if r.Grace == 0 {
		r.Grace = Grace
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(ControllerName).
		WithOptions(ctrlcontroller.Options{UsePriorityQueue: new(false)}). // See internal/hostclaim.
		WatchesRawSource(source.Kind(own, client.Object(&metal3v1.HostClaim{}), &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", ControllerName, err)
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	claim := &metal3v1.HostClaim{}
	if err := r.Claims.Get(ctx, request.NamespacedName, claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if len(claim.Status.Conditions) > 0 || len(claim.Finalizers) > 0 || claim.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // Somebody works on it, or it was said already.
	}
	if wait := r.Grace - r.Clock.Since(claim.CreationTimestamp.Time); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	after := claim.DeepCopy()
	hostclaim.SetCondition(claim, &after.Status, metav1.Condition{
		Type: metal3v1.ReadyCondition, Status: metav1.ConditionFalse, Reason: metal3v1.KindNotHandledReason,
		Message: fmt.Sprintf(
			"No controller has processed this HostClaim of kind %q. Archelon processes %s. Use one of these kinds, or start the controller of that kind",
			claim.Spec.Kind, strings.Join(r.Kinds, ", "),
		),
	}, r.Clock.Now())
	err := r.Client.Status().Patch(ctx, after, reconcile.Locked(claim), client.FieldOwner(FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reporting that no controller processes kind %s: %w", claim.Spec.Kind, err)
	}
	return ctrl.Result{}, nil
}
