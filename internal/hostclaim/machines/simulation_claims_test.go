package machines

import (
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

const claimFinalizer = "metal3.io/hostclaim"

// step has a server do the next of what it was told. It reports false if that is nothing.
func (s *server) step() bool {
	switch {
	case s.cleaning:
		s.cleaning, s.runs = false, ""
	case s.runs != "" && s.runs != s.wants:
		s.cleaning = true
	case s.runs == "" && s.wants != "":
		s.runs = s.wants
	default:
		return false
	}
	return true
}

// claim has the controller of claims take a next step with one of them. It reports false if there is none.
func (w *world) claim() bool {
	var open []func()
	for _, object := range w.server.Objects(claimGK) {
		if claim, ok := object.(*metal3v1.HostClaim); ok {
			if next := w.next(claim); next != nil {
				open = append(open, next)
			}
		}
	}
	if len(open) == 0 {
		return false
	}
	open[w.Index("claim", len(open))]()
	return true
}

// next returns what the controller of kind baremetal does next with a claim, nil if that is nothing: it asks a server
// for what the claim says before it publishes that it has seen it.
func (w *world) next(claim *metal3v1.HostClaim) func() {
	mine := w.serverOf(claim)
	wants := ""
	if claim.Spec.Image != nil && *claim.Spec.Online && claim.DeletionTimestamp == nil {
		wants = claim.Spec.Image.URL
	}
	switch {
	case claim.Spec.Online == nil: // Somebody else's, with nothing to ask for.
		return nil
	case claim.DeletionTimestamp != nil && mine == nil:
		return func() { claim.Finalizers = nil; w.server.Put(claim) }
	case claim.DeletionTimestamp == nil && !slices.Contains(claim.Finalizers, claimFinalizer):
		return func() { claim.Finalizers = append(claim.Finalizers, claimFinalizer); w.server.Put(claim) }
	case mine == nil && claim.Status.BareMetalHost == nil && !hostclaim.LostForGood(claim) && w.free() != nil:
		return func() { w.free().claim = claim.UID }
	case mine != nil && mine.wants != wants:
		return func() { mine.wants = wants }
	case mine != nil && claim.DeletionTimestamp != nil && mine.runs == "":
		return func() { mine.claim = "" }
	}
	after := w.status(claim, mine)
	if equality.Semantic.DeepEqual(after, claim.Status) {
		return nil
	}
	return func() { claim.Status = after; w.server.Put(claim) }
}

func (w *world) serverOf(claim *metal3v1.HostClaim) *server {
	for _, s := range w.servers {
		if s.claim == claim.UID {
			return s
		}
	}
	return nil
}

func (w *world) free() *server {
	for _, s := range w.servers {
		if s.claim == "" && s.wants == "" && s.runs == "" {
			return s
		}
	}
	return nil
}

// status is what the controller of kind baremetal says.
func (w *world) status(claim *metal3v1.HostClaim, mine *server) metal3v1.HostClaimStatus {
	after := metal3v1.HostClaimStatus{ObservedGeneration: claim.Generation}
	after.Conditions = slices.Clone(claim.Status.Conditions)
	set := func(name string, is bool, reason string) {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&after.Conditions, metav1.Condition{
			Type: name, Status: status, Reason: reason, LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	provisioned := hostclaim.ConditionOf(claim, metal3v1.ProvisionedCondition)
	inUse := provisioned.Status == "True" || provisioned.Reason == metal3v1.ProvisioningReason
	switch {
	case mine == nil && (hostclaim.LostForGood(claim) || claim.Status.BareMetalHost != nil && inUse):
		claim.Annotations = hostclaim.Set(claim.Annotations, metal3v1.LostHostAnnotation, "infra/lost")
		set(metal3v1.AssociatedCondition, false, metal3v1.HostLostReason)
		set(metal3v1.ProvisionedCondition, false, metal3v1.NotProvisionedReason)
		return after
	case mine == nil:
		set(metal3v1.AssociatedCondition, false, metal3v1.NoBareMetalHostReason)
		set(metal3v1.ProvisionedCondition, false, metal3v1.NotProvisionedReason)
		return after
	case claim.DeletionTimestamp != nil:
		set(metal3v1.AssociatedCondition, true, metal3v1.HostClaimDeletingReason)
	default:
		set(metal3v1.AssociatedCondition, true, metal3v1.BareMetalHostAssociatedReason)
	}
	asked := claim.Spec.Image != nil
	switch {
	case asked && mine.runs == claim.Spec.Image.URL && !mine.cleaning:
		set(metal3v1.ProvisionedCondition, true, metal3v1.ProvisionedReason)
	case mine.runs != "":
		set(metal3v1.ProvisionedCondition, false, metal3v1.ProvisioningReason)
	default:
		set(metal3v1.ProvisionedCondition, false, metal3v1.NotProvisionedReason)
	}
	after.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: mine.name}
	after.BootMACAddress, after.PoweredOn = "mac of "+mine.name, new(mine.wants != "")
	after.NICs = []metal3v1.NIC{{MAC: after.BootMACAddress}}
	return after
}

// settled reports whether a proxy says what there is.
func settled(proxy *bmov1.BareMetalHost, mine *server) bool {
	return proxy.Status.Provisioning.State == bmov1.StateProvisioned && mine != nil && mine.runs == simImage &&
		proxy.Status.PoweredOn && proxy.Status.HardwareDetails != nil && proxy.Status.HardwareDetails.NIC[0].MAC == "mac of "+mine.name
}
