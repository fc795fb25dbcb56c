package baremetal

import (
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// While a claim has a host, the claim can ask that what is on the disks is kept between two images. Metal3 cleans a
// host only when it deprovisions it. So the administrator's own mode comes back before the last time: a host is given
// back uncleaned only if nothing ran on it when its claim was deleted.

// keepsDisk reports whether Metal3 is to keep what is on the disks of the host of a claim. The administrator of the
// host has to allow it.
func keepsDisk(o Observation, host *bmov1.BareMetalHost) bool {
	return o.Claim.Spec.AutomatedCleaningMode == metal3v1.CleaningDisabled &&
		hostclaim.MayKeepDisks(o.Policies, host.Namespace, o.Requester)
}

// losesDisk reports whether a claim asks for that in vain.
func losesDisk(o Observation, host *bmov1.BareMetalHost) bool {
	asks := o.Claim.Spec.AutomatedCleaningMode == metal3v1.CleaningDisabled && o.Claim.DeletionTimestamp == nil
	return asks && !keepsDisk(o, host) && !hostclaim.NotCleaned(host)
}

// diskNotKept says what the user of such a claim does.
func diskNotKept(host *bmov1.BareMetalHost) string {
	return "spec.automatedCleaningMode is disabled, but no HostDeployPolicy of namespace " + host.Namespace + " that allows this namespace " +
		"sets allowKeptDisks: Metal3 cleans the host each time it deprovisions it. Ask your administrator to allow it, or remove the field"
}

// setCleaning sets the mode that keeps what is on the disks of a host, or restores the mode of the administrator. If
// the administrator sets another mode meanwhile, that one is restored later.
func setCleaning(host *bmov1.BareMetalHost, keep bool) {
	was, known := savedOf(host)
	off := hostclaim.NotCleaned(host)
	switch {
	case !known:
		return // There would be nothing to restore it from.
	case keep && !off:
		was.CleaningMode = new(host.Spec.AutomatedCleaningMode)
		host.Spec.AutomatedCleaningMode = bmov1.CleaningModeDisabled
	case !keep && was.CleaningMode != nil:
		if off {
			host.Spec.AutomatedCleaningMode = *was.CleaningMode
		}
		was.CleaningMode = nil
	default:
		return
	}
	setOn(host, metal3v1.SavedAnnotation, was.String())
}

// recordKept records on a host whether Metal3 may have deprovisioned it without cleaning it, before that happens. The
// host counts as clean again once it is about to be deprovisioned with cleaning. While Metal3 is deprovisioning it
// already, it is not known with which mode that began.
func recordKept(before, after *bmov1.BareMetalHost) {
	was, known := savedOf(after)
	if !known {
		return
	}
	state := before.Status.Provisioning.State
	runs := state == bmov1.StateProvisioning || state == bmov1.StateProvisioned
	kept := was.Kept
	switch {
	case hostclaim.NotCleaned(after):
		kept = kept || runs || state == bmov1.StateDeprovisioning || before.WasProvisioned() || deploys(before) || deploys(after)
	case runs && !deploys(after):
		kept = false
	}
	if kept != was.Kept {
		was.Kept = kept
		setOn(after, metal3v1.SavedAnnotation, was.String())
	}
}

// deploys reports whether a host is told to run something.
func deploys(host *bmov1.BareMetalHost) bool {
	return host.Spec.Image != nil || host.Spec.CustomDeploy != nil
}
