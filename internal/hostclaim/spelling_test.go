package hostclaim

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Both names of a thing mean the same, and a patch of what was read changes neither.
func TestSpell(t *testing.T) {
	on, off := new(true), new(false)
	for name, tc := range map[string]struct {
		spec     metal3v1.HostClaimSpec
		on       bool
		kind     string
		nothing  bool // is said about power
		labelled string
		label    string
	}{
		"On":               {spec: metal3v1.HostClaimSpec{Kind: "baremetal", Online: on}, on: true, kind: "baremetal", label: "baremetal"},
		"OnByMetal3":       {spec: metal3v1.HostClaimSpec{Kind: "baremetal", PoweredOn: on}, on: true, kind: "baremetal", label: "baremetal"},
		"OffByMetal3":      {spec: metal3v1.HostClaimSpec{Kind: "baremetal", PoweredOn: off}, kind: "baremetal", label: "baremetal"},
		"Both":             {spec: metal3v1.HostClaimSpec{Kind: "baremetal", Online: on, PoweredOn: on}, on: true, kind: "baremetal", label: "baremetal"},
		"Neither":          {spec: metal3v1.HostClaimSpec{Kind: "baremetal"}, nothing: true, kind: "baremetal", label: "baremetal"},
		"OtherName":        {spec: metal3v1.HostClaimSpec{Kind: "baremetalhost", Online: off}, kind: "baremetal", label: "baremetal"},
		"LabelOfOtherName": {spec: metal3v1.HostClaimSpec{Kind: "baremetalhost", Online: off}, kind: "baremetal", labelled: "baremetalhost", label: "baremetalhost"},
		"ForgedLabel":      {spec: metal3v1.HostClaimSpec{Kind: "baremetal", Online: off}, kind: "baremetal", labelled: "remote", label: "baremetal"},
		"AnotherKind":      {spec: metal3v1.HostClaimSpec{Kind: "remote", Online: off}, kind: "remote", labelled: "baremetalhost", label: "remote"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &metal3v1.HostClaim{Spec: tc.spec}
			claim.Labels = Set(nil, metal3v1.KindLabel, tc.labelled)
			Spell(claim)
			if IsOn(claim) != tc.on || (claim.Spec.Online == nil) != tc.nothing || claim.Spec.PoweredOn != nil || claim.Spec.Kind != tc.kind {
				t.Errorf("got %+v", claim.Spec)
			}
			after := claim.DeepCopy()
			LabelKind(after)
			patch, err := client.MergeFrom(claim).Data(after)
			want := `{"metadata":{"labels":{"hostclaims.metal3.io/kind":"` + tc.label + `"}}}`
			if tc.label == tc.labelled {
				want = "{}"
			}
			if err != nil || string(patch) != want {
				t.Errorf("the patch is %s, %v, want %s", patch, err, want)
			}
		})
	}
}
