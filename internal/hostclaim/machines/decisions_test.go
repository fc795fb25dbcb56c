package machines

import (
	"maps"
	"testing"

	"github.com/archelon-io/archelon/test/decisions"
)

// situations are rows of TestDecide in words, for the page.
func situations() [][2]string {
	return [][2]string{
		{"NoKind", "The Metal3Machine asks for no kind of host."},
		{"NewAndPaused", "It is paused."},
		{"New", "It is new."},
		{"NewAndLeaving", "It is being deleted, and has no claim."},
		{"Unreadable", "What it asks for cannot be read."},
		{"HadHost", "It has no claim, and had a host."},
		{"Waiting", "Its claim waits for a host."},
		{"Bound", "Its claim has a host."},
		{"Asked", "CAPM3 has written an image to the BareMetalHost that stands for that host."},
		{"Tells", "The host is provisioned."},
		{"Unhealthy", "Remediation has marked the BareMetalHost as unhealthy."},
		{"ClaimDeleted", "Its claim was deleted."},
		{"AnotherProxy", "The BareMetalHost was deleted and created again."},
		{"Namesake", "The claim of its name belongs to an earlier Metal3Machine."},
		{"Restored", "It was restored from a backup, and its claim has no owner."},
		{"RestoredAndDeleted", "The same, and it is being deleted."},
		{"LetGo", "It is being deleted, and CAPM3 has released the BareMetalHost."},
		{"Leaving", "It is being deleted, and its host is empty. Its Cluster is not being deleted."},
		{"LeavingTagged", "It is being deleted, and CAPM3 has released the BareMetalHost with a label for node reuse."},
		{"Kept", "The same, and it is gone."},
		{"KeptNoCluster", "The same, and its Cluster is being deleted, or gone."},
		{"KeptUnhealthy", "It is gone, and its host is kept, and marked as unhealthy."},
		{"Next", "It is new, and the host of m1 is kept for its deployment."},
		{"Waits", "Its claim waits for a host, and the host of m1 is kept for its deployment."},
		{"WaitsSelects", "The same, and it has another hostSelector than m1 had."},
		{"HalfDone", "It has got the BareMetalHost of m1, and not yet the claim."},
		{"Gone", "It is gone."},
		{"GonePaused", "It is gone, and its Cluster is paused: it was moved."},
		{"RestoredBeforeItsMachine", "Its BareMetalHost was restored from a backup, and it was not yet."},
		{"Unknown", "The cache does not have it, and the API server does."},
	}
}

// What becomes of a Metal3Machine in a state is on a page that Decide writes.
func TestThePageOfDecisions(t *testing.T) {
	cases := decideRows()
	maps.Copy(cases, reuseRows())
	decisions.Check(t, "machines", situations(), func(name string) ([]string, bool) {
		row, ok := cases[name]
		d := Decide(row.o)
		parts := decisions.Texts(d.Actions)
		if d.Problem != "" {
			parts = append(parts, "Event: "+d.Problem)
		}
		return parts, ok
	})
}
