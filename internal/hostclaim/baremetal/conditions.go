package baremetal

import (
	"strings"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// association is what the condition Associated says.
type association struct {
	is              bool
	reason, message string
}

// associated keeps what was said when the host was chosen.
func associated(claim *metal3v1.HostClaim) association {
	a := association{is: true, reason: metal3v1.BareMetalHostAssociatedReason}
	if before := hostclaim.ConditionOf(claim, metal3v1.AssociatedCondition); claim.Status.PendingHost != nil ||
		before.Reason == metal3v1.BareMetalHostAssociatedReason {
		a.message = before.Message
	}
	return a
}

// statusOf returns the status that a claim is to have. The host may be nil.
func statusOf(
	o Observation, host *bmov1.BareMetalHost, a association, problems []problem, now time.Time,
) *metal3v1.HostClaimStatus {
	claim := o.Claim
	after := claim.Status.DeepCopy()
	*after = metal3v1.HostClaimStatus{
		Conditions: after.Conditions, LastUpdated: after.LastUpdated, ObservedGeneration: claim.Generation,
	}
	set := func(name string, is bool, reason, message string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		hostclaim.SetCondition(claim, after, metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}, now)
	}
	set(metal3v1.AssociatedCondition, a.is, a.reason, a.message)
	set(metal3v1.AssociateBMHCondition, a.is, a.reason, a.message)
	if host == nil {
		set(metal3v1.SynchronizedCondition, false, metal3v1.NotAssociatedReason, "")
		set(metal3v1.ProvisionedCondition, false, metal3v1.NotProvisionedReason, "")
		set(metal3v1.AvailableForProvisioningCondition, false, metal3v1.NotAvailableReason, "")
		set(metal3v1.ReadyCondition, false, a.reason, a.message)
	} else {
		synced, message := metal3v1.ConfigurationSyncedReason, ""
		if len(problems) > 0 {
			texts := make([]string, len(problems))
			for i := range problems {
				texts[i] = problems[i].message
			}
			synced, message = problems[0].reason, strings.Join(texts, "; ")
		}
		set(metal3v1.SynchronizedCondition, len(problems) == 0, synced, message)
		provisioned, reason := provisioning(host, claim)
		set(metal3v1.ProvisionedCondition, provisioned, reason, "")
		available, why := availability(host)
		set(metal3v1.AvailableForProvisioningCondition, available, why, "")
		is, reason := ready(host, claim, a, provisioned, reason)
		if len(problems) > 0 {
			is, reason = false, synced
		}
		set(metal3v1.ReadyCondition, is, reason, "")
		after.Ready = provisioned && claim.DeletionTimestamp == nil
		describe(after, host)
		if o.HardwareData {
			after.HardwareData = after.BareMetalHost
		}
	}
	if !equality.Semantic.DeepEqual(after, &claim.Status) {
		stamp := metav1.NewTime(now).Rfc3339Copy()
		after.LastUpdated = &stamp
	}
	return after
}

// ready says whether all that a claim asks for is there.
func ready(
	host *bmov1.BareMetalHost, claim *metal3v1.HostClaim, a association, provisioned bool, why string,
) (bool, string) {
	switch {
	case claim.DeletionTimestamp != nil:
		return false, a.reason
	case host.Status.ErrorMessage != "":
		return false, metal3v1.HostErrorReason
	case !asks(claim) || provisioned:
		return true, metal3v1.ReadyReason
	default:
		return false, why
	}
}

// asks reports whether something is to be written to the host.
func asks(claim *metal3v1.HostClaim) bool {
	return claim.Spec.Image != nil || claim.Spec.CustomDeploy != nil
}

// provisioning says whether the host has what the claim asks for, by what is on the host and
// not by what is asked of it.
func provisioning(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) (bool, string) {
	is := host.Status.Provisioning
	switch {
	case is.State == bmov1.StateProvisioned && asks(claim) && hasAll(is, claim.Spec):
		return true, metal3v1.ProvisionedReason
	case host.WasProvisioned(), is.State == bmov1.StateProvisioning, is.State == bmov1.StateProvisioned,
		is.State == bmov1.StateDeprovisioning:
		return false, metal3v1.ProvisioningReason
	default:
		return false, metal3v1.NotProvisionedReason
	}
}

func hasAll(is bmov1.ProvisionStatus, want metal3v1.HostClaimSpec) bool {
	if want.Image != nil {
		return is.Image.URL == want.Image.URL
	}
	return is.CustomDeploy != nil && is.CustomDeploy.Method == want.CustomDeploy.Method
}

func availability(host *bmov1.BareMetalHost) (bool, string) {
	switch host.Status.Provisioning.State {
	case bmov1.StateAvailable, bmov1.StateReady:
		return true, metal3v1.AvailableReason
	default:
		return false, metal3v1.NotAvailableReason
	}
}

// maxNICs bounds what a host can have its claim grow by.
const maxNICs = 64

// describe tells of a host what its user needs to know.
func describe(status *metal3v1.HostClaimStatus, host *bmov1.BareMetalHost) {
	status.BareMetalHost = &metal3v1.ObjectReference{Namespace: host.Namespace, Name: host.Name}
	status.BootMACAddress = host.Spec.BootMACAddress
	status.PoweredOn = new(host.Status.PoweredOn)
	details := host.Status.HardwareDetails
	if details == nil {
		return
	}
	for _, nic := range details.NIC[:min(len(details.NIC), maxNICs)] {
		status.NICs = append(status.NICs, metal3v1.NIC{MAC: nic.MAC, IP: nic.IP, Name: nic.Name})
		if nic.IP != "" {
			status.Addresses = append(status.Addresses, metal3v1.HostAddress{Type: "InternalIP", Address: nic.IP})
		}
	}
	if details.Hostname != "" {
		status.Addresses = append(
			status.Addresses, metal3v1.HostAddress{Type: "Hostname", Address: details.Hostname},
			metal3v1.HostAddress{Type: "InternalDNS", Address: details.Hostname},
		)
	}
}
