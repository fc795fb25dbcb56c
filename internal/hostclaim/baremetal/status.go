package baremetal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// publish writes the status if it is another than before, and says in Events what changed for people.
func (r *Reconciler) publish(ctx context.Context, claim *metal3v1.HostClaim, d Decision) error {
	after, err := hostclaim.Publish(ctx, r.Client, FieldOwner, claim, d.Status)
	if after == nil || err != nil {
		return err
	}
	for _, warning := range d.Warnings {
		r.warn(claim, warning)
	}
	r.announce(claim, after)
	return nil
}

// announce tells that a claim has got a host, why it has none, or what is about to become of it.
func (r *Reconciler) announce(before, after *metal3v1.HostClaim) {
	was, is := hostclaim.ConditionOf(before, metal3v1.AssociatedCondition), hostclaim.ConditionOf(after, metal3v1.AssociatedCondition)
	if was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	if was.Status != metav1.ConditionTrue && is.Status == metav1.ConditionTrue && is.Reason != metal3v1.HostClaimDeletingReason {
		r.Metrics.Bound(after.Spec.Kind, r.Clock.Since(after.CreationTimestamp.Time))
		host := after.Status.BareMetalHost
		r.Recorder.Eventf(
			after, nil, corev1.EventTypeNormal, metal3v1.BareMetalHostAssociatedReason, "Bind", "Got BareMetalHost %s/%s", host.Namespace, host.Name,
		)
	}
	switch is.Reason {
	case metal3v1.NotCleanedReason, metal3v1.AdoptionRequiredReason, metal3v1.SelectorInvalidReason, metal3v1.PermissionWithdrawnReason,
		metal3v1.HostDeletingReason:
		r.warn(after, hostclaim.Warning{Reason: is.Reason, Note: is.Message})
	}
}

func (r *Reconciler) warn(about runtime.Object, warning hostclaim.Warning) {
	r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, warning.Reason, "Bind", "%s", hostclaim.Bounded(warning.Note))
}

// publishFailure has the claim say that an action has failed, and its host why. What an API server or a webhook of the
// infrastructure answers is not for tenants: it may have the address of a BMC.
func (r *Reconciler) publishFailure(ctx context.Context, o Observation, d Decision, action Action, cause error) error {
	if d.Status == nil {
		return nil
	}
	d = failed(d, o.Claim, action)
	news := !equality.Semantic.DeepEqual(d.Status.Conditions, o.Claim.Status.Conditions)
	if mine := o.owned(); news && len(mine) > 0 {
		r.warn(mine[0], hostclaim.Warning{Reason: metal3v1.BareMetalHostNotSynchronizedReason, Note: cause.Error()})
	}
	return r.publish(ctx, o.Claim, d)
}

// failed returns the decision once an action has failed: the claim says so.
func failed(d Decision, claim *metal3v1.HostClaim, action Action) Decision {
	d.Status = d.Status.DeepCopy()
	for _, name := range []string{metal3v1.SynchronizedCondition, metal3v1.ReadyCondition} {
		if condition := meta.FindStatusCondition(d.Status.Conditions, name); condition != nil {
			meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
				Type: name, Status: metav1.ConditionFalse, Reason: metal3v1.BareMetalHostNotSynchronizedReason,
				Message:            fmt.Sprintf("%s failed, and is tried again. An Event of the BareMetalHost tells its administrator why", action),
				ObservedGeneration: claim.Generation,
			})
		}
	}
	return d
}
