package hostclaim

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// kindFinalizers is the prefix of the finalizers of all controllers of kinds.
const kindFinalizers = "hostclaims.metal3.io/"

// Dropped says what the spec of a claim has lost, empty if that is nothing. The finalizer is that of the controller of
// the kind that the spec names. While another CRD of HostClaims is installed, any write of a claim drops the fields
// that this CRD does not have. Afterwards the kind has its default, and no field says that the host is to be on.
// Finalizers, labels and annotations are not dropped. Tenants can write them, so they never say what to do.
func Dropped(claim *metal3v1.HostClaim, finalizer string) string {
	kind := claim.Spec.Kind
	for _, other := range claim.Finalizers {
		if strings.HasPrefix(other, kindFinalizers) && other != finalizer {
			return kindDropped(kind, "finalizer "+other+" belongs to another kind")
		}
	}
	held := controllerutil.ContainsFinalizer(claim, finalizer)
	was, begun := claim.Labels[metal3v1.KindLabel], len(claim.Status.Conditions) > 0
	switch {
	case !held && begun && was != "" && spelled(was) != kind:
		return kindDropped(kind, fmt.Sprintf("its label %s is %.63q", metal3v1.KindLabel, was))
	case !held && kind == metal3v1.KindBareMetal && ConditionOf(claim, metal3v1.ReadyCondition).Reason == metal3v1.KindNotHandledReason:
		return kindDropped(kind, "no controller here processed its former kind")
	case claim.Annotations[metal3v1.PoweredOnAnnotation] == "true" && claim.Spec.Online == nil:
		return "spec.online is missing, and was true before. The host stays as it is. Set spec.online to true, or to false to " +
			"switch the host off"
	default:
		return ""
	}
}

// kindDropped is said of a claim whose kind is another one than before.
func kindDropped(kind, why string) string {
	return fmt.Sprintf("spec.kind is %q, and was another one before: %s. This HostClaim gets no host of this kind, and what it has stays "+
		"as it is. Ask your administrator to create this HostClaim again with its former spec, without deleting what it has", kind, why)
}

// Refused returns the status of a claim that is not obeyed, and a warning. What is known of its host stays as it was.
func Refused(claim *metal3v1.HostClaim, why string, now time.Time) (*metal3v1.HostClaimStatus, Warning) {
	after := claim.Status.DeepCopy()
	after.PendingHost = nil // It takes none.
	conditions := []string{metal3v1.SynchronizedCondition, metal3v1.ReadyCondition}
	if claim.Spec.Kind == metal3v1.KindRemote || meta.FindStatusCondition(after.Conditions, metal3v1.RemoteSyncedCondition) != nil {
		conditions = append(conditions, metal3v1.RemoteSyncedCondition)
	}
	for _, name := range conditions {
		SetCondition(claim, after, metav1.Condition{
			Type: name, Status: metav1.ConditionFalse, Reason: metal3v1.FieldsDroppedReason, Message: why,
		}, now)
	}
	return after, Warning{Reason: metal3v1.FieldsDroppedReason, Note: why}
}

// KeepPower has the metadata of a claim keep whether its host is to be powered on.
func KeepPower(claim *metal3v1.HostClaim) {
	on := ""
	if IsOn(claim) {
		on = "true"
	}
	claim.Annotations = Set(claim.Annotations, metal3v1.PoweredOnAnnotation, on)
}
