package remote

import (
	"testing"

	"github.com/archelon-io/archelon/test/decisions"
)

// situations are rows of TestDecide in words, for the page.
func situations() [][2]string {
	return [][2]string{
		{"paused", "It is paused."},
		{"not held", "It is new."},
		{"no answer yet", "The other cluster has not answered yet."},
		{"silence", "The other cluster does not answer."},
		{"where it is going to be is written first", "The other cluster has answered, and has no claim for it."},
		{"created then", "The same, and it is written down where the claim there is going to be."},
		{"Secrets come before", "The same, and it names a Secret."},
		{"a Secret is missing", "The same, and that Secret is missing."},
		{"a Secret of another namespace", "The same, and that Secret is in another namespace."},
		{"in step", "The claim there is as this one says."},
		{"a Secret has changed", "A Secret has changed."},
		{"a Secret is not named any more", "It does not name a Secret any more."},
		{"the spec goes first", "The same, and the claim there still names the copy."},
		{"edited by others", "The claim there was changed by another hand."},
		{"somebody else's", "What has the name there does not belong to it."},
		{"deleted by others", "The claim there is being deleted, and this one is not."},
		{"elsewhere", "Its credentials lead to another place than before."},
		{"the same by another name", "The same, and the claim there is its own: the place has another name now."},
		{"found again after a move", "It was moved here by clusterctl."},
		{"gone, without a host", "The claim there is gone, and had no host."},
		{"gone, with a host", "The claim there is gone, and had a host."},
		{"still gone", "The same, and that was reported."},
		{"another CRD has dropped what it asks for", "Another CRD of HostClaims has dropped `spec.online`."},
		{"of another kind before", "Its finalizer belongs to another kind."},
		{"deleted before anything was created", "It is being deleted, and nothing was created there."},
		{"deleted", "It is being deleted."},
		{"deleted, and marked as unhealthy", "The same, and it is marked as unhealthy."},
		{"deleted, waiting", "It is being deleted, and so is the claim there."},
		{"deleted, left over", "It is being deleted, the claim there is gone, and copies of Secrets are left."},
		{"deleted, all gone", "It is being deleted, and nothing is there any more."},
		{"deleted, silence", "It is being deleted, and the other cluster does not answer."},
		{"deleted, elsewhere", "It is being deleted, and its credentials lead to another place than before."},
		{"abandoned", "It is being deleted, the other cluster does not answer, and its annotation says to abandon the claim there."},
	}
}

// What becomes of a claim in a state is on a page that Decide writes.
func TestThePageOfDecisions(t *testing.T) {
	cases := decideRows()
	decisions.Check(t, "remote", situations(), func(name string) ([]string, bool) {
		row, ok := cases[name]
		row.o.RealKind = "baremetal"
		d := Decide(row.o, now)
		parts := decisions.Texts(d.Actions)
		if d.Status != nil {
			parts = append(parts, decisions.Conditions(d.Status.Conditions, "RemoteSynced", "Associated", "Ready")...)
		}
		return parts, ok
	})
}
