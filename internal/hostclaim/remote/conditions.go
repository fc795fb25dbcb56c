package remote

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// told are the conditions that a source has from its target.
func told() []string {
	return []string{
		metal3v1.AssociatedCondition, metal3v1.AssociateBMHCondition, metal3v1.SynchronizedCondition, metal3v1.ProvisionedCondition,
		metal3v1.AvailableForProvisioningCondition, metal3v1.ReadyCondition,
	}
}

// apart is the status of a source that is not in step with its target. What is known of the target stays as it was,
// with its time: it may be old.
func apart(claim *metal3v1.HostClaim, why Problem, now time.Time) *metal3v1.HostClaimStatus {
	after := claim.Status.DeepCopy()
	hostclaim.SetCondition(claim, after, metav1.Condition{
		Type: metal3v1.RemoteSyncedCondition, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message,
	}, now)
	for _, name := range []string{metal3v1.AssociatedCondition, metal3v1.AssociateBMHCondition, metal3v1.ReadyCondition} {
		is := meta.FindStatusCondition(after.Conditions, name)
		if is == nil || is.Status != metav1.ConditionTrue && fromHere(is.Reason) {
			hostclaim.SetCondition(claim, after, metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message}, now)
		}
	}
	return after
}

// fromHere reports whether a reason is one that was never told by a target.
func fromHere(reason string) bool {
	switch reason {
	case metal3v1.RemoteConnectingReason, metal3v1.ConfigurationInvalidReason, metal3v1.CredentialsMissingReason,
		metal3v1.CredentialsInvalidReason, metal3v1.RemoteUnreachableReason, metal3v1.RemoteRejectedReason,
		metal3v1.RemoteDropsFieldsReason, metal3v1.RemoteIdentityChangedReason, metal3v1.RemoteConflictReason,
		metal3v1.RemoteDeletingReason:
		return true
	default:
		return false
	}
}

// mirrored is the status of a source whose target was read, with what is wrong between them, if something is.
func mirrored(o Observation, wrong *Problem, now time.Time) *metal3v1.HostClaimStatus {
	after := o.Claim.Status.DeepCopy()
	after.Remote = at(o)
	after.ObservedGeneration = o.Claim.Generation
	if o.Target != nil {
		describe(o, after, now)
	}
	synced := metav1.Condition{
		Type: metal3v1.RemoteSyncedCondition, Status: metav1.ConditionTrue, Reason: metal3v1.RemoteSyncedReason,
	}
	if o.Place.Misplaced {
		synced.Message = "The kubeconfig has the namespace beside the context, where only Archelon reads it. Move it into the context"
	}
	if wrong != nil {
		synced.Status, synced.Reason, synced.Message = metav1.ConditionFalse, wrong.Reason, wrong.Message
	}
	hostclaim.SetCondition(o.Claim, after, synced, now)
	return after
}

// Bounds of what a target can have its source grow by.
const (
	maxEntries = 64
	maxText    = 256
)

// describe tells of a target what the user of its source needs to know. It is a stranger's:
// what does not fit is left out.
func describe(o Observation, after *metal3v1.HostClaimStatus, now time.Time) {
	is := o.Target.Status
	after.Ready, after.PoweredOn, after.LastUpdated = is.Ready, is.PoweredOn, is.LastUpdated
	after.BootMACAddress, after.Addresses, after.NICs = short(is.BootMACAddress), nil, nil
	for _, address := range is.Addresses[:min(len(is.Addresses), maxEntries)] {
		after.Addresses = append(after.Addresses, metal3v1.HostAddress{Type: short(address.Type), Address: short(address.Address)})
	}
	for _, nic := range is.NICs[:min(len(is.NICs), maxEntries)] {
		after.NICs = append(after.NICs, metal3v1.NIC{MAC: short(nic.MAC), IP: short(nic.IP), Name: short(nic.Name)})
	}
	for _, name := range told() {
		found := meta.FindStatusCondition(is.Conditions, name)
		if found == nil {
			found = &metav1.Condition{
				Status: metav1.ConditionFalse, Reason: metal3v1.NotAssociatedReason, Message: "No controller in the remote cluster has processed the HostClaim",
			}
		}
		hostclaim.SetCondition(o.Claim, after, metav1.Condition{
			Type: name, Status: statusOf(found.Status), Reason: reasonOf(found.Reason), Message: found.Message,
		}, now)
	}
	if equality.Semantic.DeepEqual(is, metal3v1.HostClaimStatus{}) {
		after.LastUpdated = nil
	}
}

// short cuts a text between two characters: half of one would be another text once it is stored.
func short(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }

func statusOf(status metav1.ConditionStatus) metav1.ConditionStatus {
	if status == metav1.ConditionTrue || status == metav1.ConditionFalse {
		return status
	}
	return metav1.ConditionUnknown
}

// reasons are what the API server accepts as one.
var reasons = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func reasonOf(reason string) string {
	if len(reason) > maxText || !reasons.MatchString(reason) {
		return "Unknown"
	}
	return reason
}

// leaving is the status of a source that is being deleted.
func leaving(status *metal3v1.HostClaimStatus, claim *metal3v1.HostClaim) *metal3v1.HostClaimStatus {
	status.Ready = false
	if ready := meta.FindStatusCondition(status.Conditions, metal3v1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, metal3v1.HostClaimDeletingReason, ""
		if was := hostclaim.ConditionOf(claim, metal3v1.ReadyCondition); was.Status == metav1.ConditionFalse {
			ready.LastTransitionTime = was.LastTransitionTime
		}
	}
	return status
}

// lostStatus is the status of a source whose target is gone, with its host.
func lostStatus(claim *metal3v1.HostClaim, note string, now time.Time) *metal3v1.HostClaimStatus {
	after := &metal3v1.HostClaimStatus{
		Conditions: claim.Status.DeepCopy().Conditions, Remote: claim.Status.Remote, LastUpdated: claim.Status.LastUpdated,
		ObservedGeneration: claim.Generation,
	}
	for _, name := range []string{
		metal3v1.AssociatedCondition, metal3v1.AssociateBMHCondition, metal3v1.SynchronizedCondition, metal3v1.ProvisionedCondition,
		metal3v1.ReadyCondition, metal3v1.RemoteSyncedCondition,
	} {
		hostclaim.SetCondition(claim, after, metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: metal3v1.HostLostReason, Message: note}, now)
	}
	return after
}
