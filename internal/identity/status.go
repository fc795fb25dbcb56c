package identity

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/reconcile"
)

// publish writes the conditions if they are others than before, says so in Events, and tells whom it concerns.
func (r *Reconciler) publish(
	ctx context.Context, key types.NamespacedName, o Observation, d Decision,
) (ctrl.Result, error) {
	if len(d.Conditions) > 0 {
		after := o.Identity.DeepCopy()
		after.Status.Conditions = Merge(o.Identity.Status.Conditions, d.Conditions...)
		if r.Checker == nil {
			after.Status.Conditions = slices.DeleteFunc(after.Status.Conditions, func(c identityv1.Condition) bool {
				return c.Type == infrav1.IdentityVerifiedCondition
			})
		}
		if !equality.Semantic.DeepEqual(o.Identity.Status, after.Status) {
			// The list is replaced as a whole, so it must not have changed meanwhile.
			err := r.Client.Status().Patch(ctx, after, reconcile.Locked(o.Identity), client.FieldOwner(FieldOwner))
			if err != nil {
				return ctrl.Result{}, fmt.Errorf("publishing the conditions: %w", err)
			}
			r.announce(o.Identity, d.Conditions)
		}
	}
	changed := r.memory.notePublished(key, stateOf(d), d.Verdicts)
	after := d.After
	if r.Checker != nil && d.Trouble == nil {
		after = sooner(after, r.Checker.want(key, d.Wants))
		changed = append(changed, r.memory.noteChecks(key, d.Checks)...)
	}
	for _, user := range changed {
		r.Notify(user.kind, types.NamespacedName{Namespace: user.namespace, Name: user.name})
	}
	return ctrl.Result{RequeueAfter: after}, d.Trouble
}

// stateOf returns what metrics say of an identity.
func stateOf(d Decision) state {
	for _, condition := range d.Conditions {
		if condition.Type == identityv1.ReadyCondition {
			return state{string(condition.Status), condition.Reason}
		}
	}
	return state{}
}

// maxNote is what the API server accepts as the note of an Event.
const maxNote = 1024

// announce says in Events what changed for people: that an identity works, does not, or is open. Who uses it is no
// news.
func (r *Reconciler) announce(identity *identityv1.OCIClusterIdentity, conditions []identityv1.Condition) {
	for _, condition := range conditions {
		before := identity.Condition(condition.Type)
		same := before != nil && before.Status == condition.Status && before.Reason == condition.Reason
		if same || condition.Type == identityv1.InUseCondition {
			continue
		}
		kind, note := corev1.EventTypeWarning, condition.Message
		if condition.Status == corev1.ConditionTrue && condition.Reason != identityv1.EvaluationFailedReason {
			if condition.Type == identityv1.NamespacesRestrictedCondition && before == nil {
				continue // It is what one expects.
			}
			kind, note = corev1.EventTypeNormal, "Condition "+condition.Type+" is True"
		}
		if len(note) > maxNote {
			note = note[:maxNote]
		}
		r.Recorder.Eventf(identity, nil, kind, condition.Reason, "Evaluate", "%s", note)
	}
}
