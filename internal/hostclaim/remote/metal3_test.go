package remote

import (
	"testing"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Metal3's controller knows no kinds, so it takes claims of kind remote, too.
func TestAClaimOfMetal3sControllerIsLeftToIt(t *testing.T) {
	source := sourceWith(func(c *metal3v1.HostClaim) { c.Finalizers = []string{metal3v1.Metal3Finalizer} })
	d := Decide(Observation{Claim: source}, now)
	if len(d.Actions) > 0 || d.Status == nil || len(d.Status.Conditions) != 1 {
		t.Fatalf("got %+v", d)
	}
	source.Status = *d.Status
	if is := hostclaim.ConditionOf(source, metal3v1.ServedByArchelonCondition); is.Reason != metal3v1.ServedByMetal3Reason {
		t.Errorf("got %+v", is)
	}
	withTarget := sourceWith(pinned("uid-t"), func(c *metal3v1.HostClaim) { c.Finalizers = []string{metal3v1.Metal3Finalizer} })
	if got := toldOf(Decide(Observation{Claim: withTarget}, now)); got != "HostClaim a/c: hold it" {
		t.Errorf("of one with a target: %s, want it held again", got)
	}
	deleted(source)
	if d := Decide(Observation{Claim: source}, now); len(d.Actions) > 0 || d.Status != nil {
		t.Errorf("of one that is being deleted: %+v", d)
	}
}
