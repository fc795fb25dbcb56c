package remote

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// announce tells that a claim has got a host, and whether it is in step with its target.
func (r *Reconciler) announce(before, after *metal3v1.HostClaim) {
	was, is := changed(before, after, metal3v1.AssociatedCondition)
	if was.Status != is.Status && is.Status == metav1.ConditionTrue {
		r.Metrics.Bound(after.Spec.Kind, r.Clock.Since(after.CreationTimestamp.Time))
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, is.Reason, "Bind", "Got a host of the remote cluster")
	}
	was, is = changed(before, after, metal3v1.RemoteSyncedCondition)
	switch {
	case was.Status == is.Status && was.Reason == is.Reason, is.Reason == metal3v1.RemoteConnectingReason:
	case is.Status == metav1.ConditionTrue:
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, is.Reason, "Synchronize", "The remote HostClaim matches this HostClaim")
	case after.DeletionTimestamp == nil || is.Reason != metal3v1.RemoteDeletingReason:
		r.warn(after, hostclaim.Warning{Reason: is.Reason, Note: is.Message})
	}
}

func changed(before, after *metal3v1.HostClaim, name string) (was, is metav1.Condition) {
	return hostclaim.ConditionOf(before, name), hostclaim.ConditionOf(after, name)
}

func (r *Reconciler) warn(claim *metal3v1.HostClaim, warning hostclaim.Warning) {
	r.Recorder.Eventf(claim, nil, corev1.EventTypeWarning, warning.Reason, "Synchronize", "%s", hostclaim.Bounded(warning.Note))
}

// failed returns the decision once an action has failed: the source says so.
func failed(claim *metal3v1.HostClaim, err error, now time.Time) Decision {
	problem := problemOf(err)
	if problem == nil {
		return Decision{} // It is of this cluster, and passes.
	}
	return Decision{Status: apart(claim, *problem, now)}
}
