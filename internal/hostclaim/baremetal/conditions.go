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

// condition is what one condition of a claim says.
type condition struct {
	is              bool
	reason, message string
}

// associated is what Associated says of a claim that has a host. Otherwise it keeps what was said when the host was
// chosen.
func associated(o Observation, host *bmov1.BareMetalHost) condition {
	if host.DeletionTimestamp != nil {
		return condition{true, metal3v1.HostDeletingReason, deletionOf(host)}
	}
	if why := hostclaim.Withdrawn(host, o.Policies, o.Requester); why != "" {
		return condition{true, metal3v1.PermissionWithdrawnReason, withdrawalOf(host, o.Claim.Namespace, why)}
	}
	a := condition{is: true, reason: metal3v1.BareMetalHostAssociatedReason}
	if before := hostclaim.ConditionOf(o.Claim, metal3v1.AssociatedCondition); o.Claim.Status.PendingHost != nil ||
		before.Reason == metal3v1.BareMetalHostAssociatedReason {
		a.message = before.Message
	}
	return a
}

// statusOf returns the status that a claim is to have. The host may be nil.
func statusOf(
	o Observation, host *bmov1.BareMetalHost, a condition, problems []problem, now time.Time,
) *metal3v1.HostClaimStatus {
	claim := o.Claim
	after := claim.Status.DeepCopy()
	*after = metal3v1.HostClaimStatus{
		Conditions: after.Conditions, LastUpdated: after.LastUpdated, ObservedGeneration: claim.Generation,
	}
	set := func(name string, c condition) {
		status := metav1.ConditionFalse
		if c.is {
			status = metav1.ConditionTrue
		}
		if hostclaim.KeepsMetal3s(claim, name, status) {
			return
		}
		hostclaim.SetCondition(
			claim, after, metav1.Condition{Type: name, Status: status, Reason: c.reason, Message: c.message}, now,
		)
	}
	set(metal3v1.AssociatedCondition, a)
	set(metal3v1.AssociateBMHCondition, a)
	if host == nil {
		set(metal3v1.SynchronizedCondition, condition{reason: metal3v1.NotAssociatedReason})
		set(metal3v1.ProvisionedCondition, condition{reason: metal3v1.NotProvisionedReason})
		set(metal3v1.AvailableForProvisioningCondition, condition{reason: metal3v1.NotAvailableReason})
		set(metal3v1.ReadyCondition, condition{false, a.reason, a.message})
	} else {
		synced, provisioned := synchronization(o, host, problems), provisioning(host, claim)
		if provisioned.is && synced.is && claim.DeletionTimestamp == nil {
			provisioned = upToDate(o, host)
		}
		set(metal3v1.SynchronizedCondition, synced)
		set(metal3v1.ProvisionedCondition, provisioned)
		set(metal3v1.AvailableForProvisioningCondition, availability(host))
		set(metal3v1.ReadyCondition, ready(host, claim, a, synced, provisioned))
		after.Ready = provisioned.is && claim.DeletionTimestamp == nil
		describe(after, host)
		if o.HardwareData {
			after.HardwareData = after.BareMetalHost
		}
	}
	hostclaim.ReportSharing(claim, after, now)
	if !equality.Semantic.DeepEqual(after, &claim.Status) {
		stamp := metav1.NewTime(now).Rfc3339Copy()
		after.LastUpdated = &stamp
	}
	return after
}

// synchronization says whether the host was told all that the claim asks for.
func synchronization(o Observation, host *bmov1.BareMetalHost, problems []problem) condition {
	if len(problems) == 0 && losesDisk(o, host) {
		return condition{true, metal3v1.DiskNotKeptReason, diskNotKept(host)}
	}
	if len(problems) == 0 {
		return condition{is: true, reason: metal3v1.ConfigurationSyncedReason}
	}
	texts := make([]string, len(problems))
	for i := range problems {
		texts[i] = problems[i].message
	}
	return condition{false, problems[0].reason, strings.Join(texts, "; ")}
}

// ready says whether all that a claim asks for is there.
func ready(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim, a, synced, provisioned condition) condition {
	switch {
	case claim.DeletionTimestamp != nil:
		return condition{false, a.reason, a.message}
	case !synced.is:
		return synced
	case a.reason == metal3v1.HostDeletingReason:
		return condition{false, a.reason, a.message}
	case host.Status.ErrorMessage != "":
		return condition{false, metal3v1.HostErrorReason, errorOf(host)}
	case !asks(claim) || provisioned.is:
		return condition{is: true, reason: metal3v1.ReadyReason}
	default:
		return provisioned
	}
}

// asks reports whether something is to be written to the host.
func asks(claim *metal3v1.HostClaim) bool {
	return claim.Spec.Image != nil || claim.Spec.CustomDeploy != nil
}

// provisioning says whether the host has what the claim asks for, by what is on the host and
// not by what is asked of it.
func provisioning(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) condition {
	switch is := host.Status.Provisioning; {
	case isProvisioned(host, claim):
		return condition{is: true, reason: metal3v1.ProvisionedReason}
	case host.WasProvisioned(), is.State == bmov1.StateProvisioning, is.State == bmov1.StateProvisioned,
		is.State == bmov1.StateDeprovisioning:
		return condition{reason: metal3v1.ProvisioningReason}
	default:
		return condition{reason: metal3v1.NotProvisionedReason}
	}
}

// isProvisioned reports whether the host runs what the claim asks for, as far as Metal3 provisions anew for that.
func isProvisioned(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) bool {
	is, want := host.Status.Provisioning, claim.Spec
	switch {
	case is.State != bmov1.StateProvisioned:
		return false
	case want.Image != nil:
		return is.Image.URL == want.Image.URL
	default:
		return want.CustomDeploy != nil && is.CustomDeploy != nil && is.CustomDeploy.Method == want.CustomDeploy.Method
	}
}

func availability(host *bmov1.BareMetalHost) condition {
	switch host.Status.Provisioning.State {
	case bmov1.StateAvailable, bmov1.StateReady:
		return condition{is: true, reason: metal3v1.AvailableReason}
	default:
		return condition{reason: metal3v1.NotAvailableReason}
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
