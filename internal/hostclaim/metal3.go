package hostclaim

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// The baremetal-operator has its own controller of HostClaims, which --hostclaims switches on. That controller knows no
// kinds, so it takes every HostClaim. Two controllers must not serve one claim: they would take two hosts for it, and
// Metal3's controller releases a host without cleaning it. The finalizers of a claim decide which one serves it.
// Metal3's controller looks at no other finalizer, so a claim may get both.

// ServedByMetal3 reports whether a claim is left to Metal3's own controller: that one has put its finalizer on the
// claim, and no controller of a kind has.
func ServedByMetal3(claim *metal3v1.HostClaim) bool {
	return hasMetal3(claim) && !slices.ContainsFunc(claim.Finalizers, ofKind)
}

// sharedWithMetal3 reports whether Metal3's own controller has put its finalizer on a claim that is served here.
func sharedWithMetal3(claim *metal3v1.HostClaim) bool {
	return hasMetal3(claim) && slices.ContainsFunc(claim.Finalizers, ofKind)
}

func hasMetal3(claim *metal3v1.HostClaim) bool {
	return slices.Contains(claim.Finalizers, metal3v1.Metal3Finalizer)
}

func ofKind(finalizer string) bool { return strings.HasPrefix(finalizer, kindFinalizers) }

// toSwitchOff says how Metal3's own controller stops serving a claim.
const toSwitchOff = "remove --hostclaims from the baremetal-operator, and then finalizer " + metal3v1.Metal3Finalizer + " from this HostClaim"

// LeftToMetal3 returns the status of a claim that Metal3's own controller serves, nil to leave the status alone. One
// condition says so. Everything else in the status belongs to that controller.
func LeftToMetal3(claim *metal3v1.HostClaim, now time.Time) *metal3v1.HostClaimStatus {
	if claim.DeletionTimestamp != nil {
		return nil
	}
	after := claim.Status.DeepCopy()
	after.PendingHost = nil // Otherwise the host would stay reserved.
	SetCondition(claim, after, metav1.Condition{
		Type: metal3v1.ServedByArchelonCondition, Status: metav1.ConditionFalse, Reason: metal3v1.ServedByMetal3Reason,
		Message: "Metal3's own controller has taken this HostClaim. To have Archelon serve it, " + toSwitchOff,
	}, now)
	return after
}

// KeepsMetal3s reports whether a condition of a claim that both serve stays as Metal3's controller has written it. Each
// controller is woken by what the other one writes, so they would overwrite Associated and Ready for ever.
func KeepsMetal3s(claim *metal3v1.HostClaim, name string, want metav1.ConditionStatus) bool {
	is := ConditionOf(claim, name)
	switch {
	case !sharedWithMetal3(claim):
		return false
	case name == metal3v1.AssociatedCondition:
		return is.Status == metav1.ConditionTrue && want == metav1.ConditionTrue
	default:
		return name == metal3v1.ReadyCondition && slices.Contains(metal3Summaries(), is.Reason)
	}
}

// metal3Summaries are the reasons of Ready that Metal3's controller writes. They are those of a summary by Cluster API.
func metal3Summaries() []string { return []string{"IssuesReported", "UnknownReported", "InfoReported"} }

// ReportSharing sets, in what is to be the status of a claim that is served here, the condition that Metal3's own
// controller serves the claim, too, or removes the condition.
func ReportSharing(claim *metal3v1.HostClaim, status *metal3v1.HostClaimStatus, now time.Time) {
	if !sharedWithMetal3(claim) {
		meta.RemoveStatusCondition(&status.Conditions, metal3v1.ServedByArchelonCondition)
		return
	}
	SetCondition(claim, status, metav1.Condition{
		Type: metal3v1.ServedByArchelonCondition, Status: metav1.ConditionTrue, Reason: metal3v1.SharedWithMetal3Reason,
		Message: "Metal3's own controller also has a finalizer on this HostClaim. When this HostClaim is deleted, that controller releases " +
			"the host without cleaning it. Before you delete this HostClaim, " + toSwitchOff,
	}, now)
}
