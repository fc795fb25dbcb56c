package baremetal

import (
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// heldBy replaces the finalizers of a claim.
func heldBy(finalizers ...string) func(*metal3v1.HostClaim) {
	return func(claim *metal3v1.HostClaim) { claim.Finalizers = finalizers }
}

// The finalizers decide which of two controllers serves a claim.
func TestDecideBesideMetal3sController(t *testing.T) {
	theirs := hostOfClaim(func(h *bmov1.BareMetalHost) {
		h.Spec.ConsumerRef.UID = "" // Metal3's controller writes no UID.
		delete(h.Annotations, metal3v1.SavedAnnotation)
		delete(h.Annotations, blockMove)
	})
	paused := Observation{Claim: claimWith(heldBy(metal3v1.Metal3Finalizer)), Consumed: list(theirs), Paused: true}
	for name, tc := range map[string]struct {
		o    Observation
		want string
	}{
		"theirs": {
			Observation{Claim: claimWith(heldBy(metal3v1.Metal3Finalizer)), Candidates: list(simHost("h", "*"))}, "  | False ServedByMetal3",
		},
		"theirs, with a finalizer of a third": {
			Observation{Claim: claimWith(heldBy("example.com/backup", metal3v1.Metal3Finalizer))}, "  | False ServedByMetal3",
		},
		"theirs, with a host": {Observation{Claim: claimWith(heldBy(metal3v1.Metal3Finalizer)), Consumed: list(theirs)}, "  | False ServedByMetal3"},
		"theirs, with a host of ours, because somebody took our finalizer off": {
			Observation{Claim: claimWith(all(named, heldBy(metal3v1.Metal3Finalizer))), Consumed: list(hostOfClaim(nil))}, "HostClaim a/c: hold it",
		},
		"theirs, and paused":         {paused, "  | False ServedByMetal3"},
		"theirs, and a chosen host":  {Observation{Claim: claimWith(all(pends, heldBy(metal3v1.Metal3Finalizer))), Named: simHost("h", "*")}, "  | False ServedByMetal3"},
		"theirs, and being deleted":  {Observation{Claim: claimWith(all(deleted, heldBy(metal3v1.Metal3Finalizer))), Consumed: list(theirs)}, ""},
		"theirs, and lost fields":    {Observation{Claim: claimWith(all(on, heldBy(metal3v1.Metal3Finalizer)))}, "  | False ServedByMetal3"},
		"theirs, and kind remote":    {Observation{Claim: claimWith(all(heldBy(metal3v1.Metal3Finalizer, metal3v1.RemoteFinalizer)))}, "  (FieldsDropped)"},
		"of nobody, with their host": {Observation{Claim: claimWith(heldBy()), Consumed: list(theirs)}, "HostClaim a/c: hold it"},
		"ours since they are gone": {
			Observation{Claim: claimWith(all(named, says("ServedByArchelon", "False", "ServedByMetal3"))), Consumed: list(theirs)},
			"BareMetalHost infra/h: have it as its claim says, True BareMetalHostAssociated bound infra/h",
		},
		"of both": {
			Observation{Claim: claimWith(all(named, heldBy(metal3v1.BareMetalFinalizer, metal3v1.Metal3Finalizer))), Consumed: list(hostOfClaim(nil))},
			"True BareMetalHostAssociated bound infra/h | True SharedWithMetal3",
		},
		"of both, and waiting": {
			Observation{Claim: claimWith(heldBy(metal3v1.BareMetalFinalizer, metal3v1.Metal3Finalizer))}, "False NoBareMetalHost | True SharedWithMetal3",
		},
		"of both, and released by them": {
			Observation{Claim: claimWith(all(deleted, heldBy(metal3v1.BareMetalFinalizer, metal3v1.Metal3Finalizer)))}, "HostClaim a/c: release it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Requester = hostclaim.Requester{Name: "a"}
			d := Decide(tc.o, time.Now())
			got := printed(d)
			if d.Status != nil {
				if is := meta.FindStatusCondition(d.Status.Conditions, metal3v1.ServedByArchelonCondition); is != nil {
					got += " | " + string(is.Status) + " " + is.Reason
				}
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// Everything else in the status of a claim that Metal3's controller serves is written by that controller. The condition
// is written once.
func TestOneConditionIsWrittenOfAClaimOfMetal3sController(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	claim := claimWith(all(knows, says("Associated", "True", "BareMetalHostAssociated"), heldBy(metal3v1.Metal3Finalizer)))
	before := claim.Status.DeepCopy()
	claim.Status = *Decide(Observation{Claim: claim}, now).Status
	if again := Decide(Observation{Claim: claim}, now.Add(time.Hour)); !equality.Semantic.DeepEqual(*again.Status, claim.Status) {
		t.Errorf("got %+v, then %+v", claim.Status, again.Status)
	}
	message := hostclaim.ConditionOf(claim, metal3v1.ServedByArchelonCondition).Message
	for _, step := range []string{"Metal3's own controller has taken", "remove --hostclaims", "finalizer metal3.io/hostclaim"} {
		if !strings.Contains(message, step) {
			t.Errorf("the message %q lacks %q", message, step)
		}
	}
	meta.RemoveStatusCondition(&claim.Status.Conditions, metal3v1.ServedByArchelonCondition)
	if !equality.Semantic.DeepEqual(&claim.Status, before) {
		t.Errorf("got %+v, want %+v", claim.Status, before)
	}
	if keys := waitingKeys(claimWith(heldBy(metal3v1.Metal3Finalizer))); keys != nil {
		t.Errorf("free hosts wake the claim: %v", keys)
	}
}

// Both controllers are woken by each other's writes, so neither overwrites what the other one writes again.
func TestTwoControllersDoNotOverwriteEachOther(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	claim := claimWith(all(named, heldBy(metal3v1.BareMetalFinalizer, metal3v1.Metal3Finalizer)))
	o := Observation{Claim: claim, Consumed: list(hostOfClaim(nil)), Requester: hostclaim.Requester{Name: "a"}}
	claim.Status = *Decide(o, now).Status
	for name, theirs := range map[string]metav1.Condition{
		"Associated": {Status: "True", Reason: "BareMetalHostAssociated"}, "Ready": {Status: "False", Reason: "IssuesReported", Message: "* Provisioned: NotProvisioned"},
	} {
		theirs.Type, theirs.ObservedGeneration = name, claim.Generation
		meta.SetStatusCondition(&claim.Status.Conditions, theirs)
	}
	if d := Decide(o, now.Add(time.Hour)); len(d.Actions) > 0 || !equality.Semantic.DeepEqual(*d.Status, claim.Status) {
		t.Errorf("got %s: %+v, want %+v", printed(d), d.Status, claim.Status)
	}
	claim.Finalizers = []string{metal3v1.BareMetalFinalizer}
	claim.Status = *Decide(o, now.Add(time.Hour)).Status
	if is := hostclaim.ConditionOf(claim, "Ready"); is.Reason != "Ready" {
		t.Errorf("without their finalizer, Ready stays %+v", is)
	}
	if is := meta.FindStatusCondition(claim.Status.Conditions, metal3v1.ServedByArchelonCondition); is != nil {
		t.Errorf("got %+v", is)
	}
}
