package hostclaim

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// A spec that lacks what it had is not obeyed: another CRD of HostClaims has dropped it.
func TestDropped(t *testing.T) {
	ready := func(reason string) func(*metal3v1.HostClaim) {
		return func(c *metal3v1.HostClaim) {
			c.Status.Conditions = []metav1.Condition{{Type: metal3v1.ReadyCondition, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	held := func(finalizer string) func(*metal3v1.HostClaim) {
		return func(c *metal3v1.HostClaim) { c.Finalizers = append(c.Finalizers, finalizer) }
	}
	was := func(kind string) func(*metal3v1.HostClaim) {
		return func(c *metal3v1.HostClaim) { c.Labels = map[string]string{metal3v1.KindLabel: kind} }
	}
	on := func(c *metal3v1.HostClaim) { c.Annotations = map[string]string{metal3v1.PoweredOnAnnotation: "true"} }
	type changes []func(*metal3v1.HostClaim)
	for name, tc := range map[string]struct {
		reason  string
		changes changes
		want    string
	}{
		"New":     {"it has lost nothing", nil, ""},
		"Held":    {"it is of this kind", changes{held(metal3v1.BareMetalFinalizer), ready("x"), was("baremetal")}, ""},
		"Foreign": {"finalizers of others say nothing about the kind", changes{held("example.com/backup"), held("metal3.io/hostclaim")}, ""},
		"Remote":  {"a second host would be taken", changes{held(metal3v1.RemoteFinalizer)}, `spec.kind is "baremetal"`},
		"Other":   {"kinds of others are protected as well", changes{held("hostclaims.metal3.io/pretend")}, `spec.kind is "baremetal"`},
		"Both":    {"one of them is wrong", changes{held(metal3v1.BareMetalFinalizer), held(metal3v1.RemoteFinalizer)}, `spec.kind is "baremetal"`},
		"Released": {
			"an uninstallation takes the finalizer off, and leaves the label", changes{was("remote"), ready("x")}, `label hostclaims.metal3.io/kind is "remote"`,
		},
		"Alias":      {"both names are those of one kind", changes{was("baremetalhost"), ready("x")}, ""},
		"Disguised":  {"nobody has begun with it: anybody may have written the label", changes{was("remote")}, ""},
		"Forged":     {"the finalizer counts", changes{held(metal3v1.BareMetalFinalizer), was("remote"), ready("x")}, ""},
		"Unhandled":  {"its kind was one that nobody handles", changes{ready(metal3v1.KindNotHandledReason)}, "no controller here processed"},
		"SwitchedOn": {"the host is not to be switched off", changes{on}, "spec.online is missing"},
		"On":         {"it says so itself", changes{on, func(c *metal3v1.HostClaim) { c.Spec.Online = new(true) }}, ""},
		"Off":        {"it says so itself", changes{on, func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) }}, ""},
		"OffByName":  {"Metal3's CRD keeps this field", changes{on, func(c *metal3v1.HostClaim) { c.Spec.PoweredOn = new(false) }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &metal3v1.HostClaim{Spec: metal3v1.HostClaimSpec{Kind: metal3v1.KindBareMetal}}
			for _, change := range tc.changes {
				change(claim)
			}
			Spell(claim)
			got := Dropped(claim, metal3v1.BareMetalFinalizer)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// What is known of a host stays when its claim is refused, and no host is kept for it.
func TestRefusedKeepsWhatIsKnown(t *testing.T) {
	claim := &metal3v1.HostClaim{Status: metal3v1.HostClaimStatus{
		Ready: true, BootMACAddress: "52:54", PendingHost: &metal3v1.ObjectReference{Name: "h"},
		Conditions: []metav1.Condition{{Type: metal3v1.AssociatedCondition, Status: metav1.ConditionTrue, Reason: "x"}},
	}}
	got, warning := Refused(claim, "why", time.Unix(1, 0))
	is := &metal3v1.HostClaim{Status: *got}
	for condition, want := range map[string]string{"Associated": "x", "Ready": "FieldsDropped", "Synchronized": "FieldsDropped", "RemoteSynced": ""} {
		if reason := ConditionOf(is, condition).Reason; reason != want {
			t.Errorf("%s has reason %q, want %q", condition, reason, want)
		}
	}
	if got.PendingHost != nil || got.BootMACAddress != "52:54" || warning != (Warning{"FieldsDropped", "why"}) {
		t.Errorf("got %+v and %+v", got, warning)
	}
}
