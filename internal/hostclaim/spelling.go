package hostclaim

import (
	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Spell rewrites what can be written in two ways: afterwards spec.online says whether the host is to be on, and the
// kind of hosts of this cluster is baremetal. Controllers call it on the claims that they read, and know nothing of the
// other spellings. A patch of such a claim changes nothing of that, because both of its versions are spelled alike.
//
// Annotations are not rewritten: what asks for a reboot is taken off by its own name. See RebootsOf and Unhealthy.
func Spell(claim *metal3v1.HostClaim) {
	if claim.Spec.Online == nil {
		claim.Spec.Online = claim.Spec.PoweredOn
	}
	claim.Spec.PoweredOn = nil
	claim.Spec.Kind = spelled(claim.Spec.Kind)
}

// spelled returns a kind in the one spelling.
func spelled(kind string) string {
	if kind == metal3v1.KindBareMetalHost {
		return metal3v1.KindBareMetal
	}
	return kind
}

// LabelKind has a label of a claim that was spelled say its kind. A label with the other spelling stays: it may be in
// the manifest of the claim.
func LabelKind(claim *metal3v1.HostClaim) {
	if spelled(claim.Labels[metal3v1.KindLabel]) != claim.Spec.Kind {
		claim.Labels = Set(claim.Labels, metal3v1.KindLabel, claim.Spec.Kind)
	}
}

// IsOn returns whether a claim that was spelled asks for a host that is on.
func IsOn(claim *metal3v1.HostClaim) bool { return claim.Spec.Online != nil && *claim.Spec.Online }
