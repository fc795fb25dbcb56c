package baremetal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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

// announce tells that a claim has got a host, or why it has none.
func (r *Reconciler) announce(before, after *metal3v1.HostClaim) {
	was, is := hostclaim.ConditionOf(before, metal3v1.AssociatedCondition), hostclaim.ConditionOf(after, metal3v1.AssociatedCondition)
	if was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	switch is.Reason {
	case metal3v1.BareMetalHostAssociatedReason:
		r.Metrics.Bound(after.Spec.Kind, r.Clock.Since(after.CreationTimestamp.Time))
		host := after.Status.BareMetalHost
		r.Recorder.Eventf(
			after, nil, corev1.EventTypeNormal, is.Reason, "Bind", "Got BareMetalHost %s/%s", host.Namespace, host.Name,
		)
	case metal3v1.NotAuthorizedReason, metal3v1.NotCleanedReason, metal3v1.AdoptionRequiredReason, metal3v1.SelectorInvalidReason:
		r.warn(after, hostclaim.Warning{Reason: is.Reason, Note: is.Message})
	}
}

func (r *Reconciler) warn(about runtime.Object, warning hostclaim.Warning) {
	r.Recorder.Eventf(about, nil, corev1.EventTypeWarning, warning.Reason, "Bind", "%s", hostclaim.Bounded(warning.Note))
}

// failed returns the decision once an action has failed: the claim says so.
func failed(d Decision, claim *metal3v1.HostClaim, action Action, err error) Decision {
	if d.Status == nil {
		return d
	}
	d.Status = d.Status.DeepCopy()
	for _, name := range []string{metal3v1.SynchronizedCondition, metal3v1.ReadyCondition} {
		if condition := meta.FindStatusCondition(d.Status.Conditions, name); condition != nil {
			meta.SetStatusCondition(&d.Status.Conditions, metav1.Condition{
				Type: name, Status: metav1.ConditionFalse, Reason: metal3v1.BareMetalHostNotSynchronizedReason,
				Message: hostclaim.Bounded(fmt.Sprintf("%s failed: %v", action, err)), ObservedGeneration: claim.Generation,
			})
		}
	}
	return d
}
