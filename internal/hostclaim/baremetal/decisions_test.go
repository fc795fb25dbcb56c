package baremetal

import (
	"testing"
	"time"

	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/decisions"
)

// situations are rows of TestDecide in words, for the page.
func situations() [][2]string {
	return [][2]string{
		{"paused", "It is paused, and has no host."},
		{"new", "It is new."},
		{"nothing free", "It is held, and no host that fits is free."},
		{"a selector that cannot be read", "Its hostSelector cannot be read."},
		{"a host is free", "A host that fits is free."},
		{"pending, and free", "A host was chosen, and is still free."},
		{"pending, and taken by somebody", "A host was chosen, and another consumer has taken it."},
		{"pending, and gone", "A host was chosen, and was deleted."},
		{"bound, and not named yet", "It has a host, and does not name it yet."},
		{"found again without a word of it", "It has a host and names it, and its status is lost."},
		{"a second host", "Two hosts name it."},
		{"from another cluster", "It was moved here with its host by clusterctl."},
		{"an image, and its Secret is missing", "It asks for an image, and its user data are missing."},
		{"an image and its Secret", "It asks for an image, and its user data are there."},
		{"an image of a Machine", "The same, and it is the claim of a Metal3Machine."},
		{"a copy without use", "A copy of a Secret is beside its host that it does not ask for any more."},
		{"a copy without use, and an image that Metal3 refuses", "The same, and Metal3 does not accept its image."},
		{"another CRD has dropped that it is to be on", "Another CRD of HostClaims has dropped `spec.online`."},
		{"of another kind before", "Its finalizer belongs to another kind."},
		{"marked as unhealthy", "It is marked as unhealthy."},
		{"forged label", "A tenant wrote the name of a host into its label."},
		{"lost, and never used", "It lost its host, on which nothing ran."},
		{"lost to the provider, with what was ours", "A Metal3Machine took its host, and annotations of Archelon are on that host."},
		{"lost, and used", "It lost its host, which was in use."},
		{"lost for good", "The same, and that was reported."},
		{"lost for good, by a status that somebody has forged", "Its status says so, and its annotation does not."},
		{"deleted", "It is being deleted, and has no host."},
		{"deleted, and in use", "It is being deleted, and its host runs an image."},
		{"deleted, and being cleaned", "It is being deleted, and Metal3 cleans its host."},
		{"deleted, and clean", "It is being deleted, and its host is clean."},
		{"deleted, and marked as unhealthy", "It is being deleted, and is marked as unhealthy."},
		{"its claim is gone", "A host names a claim that is gone without having released it."},
		{"its claim is gone, and had deleted it", "The same, and the deletion of the claim had begun, or an administrator releases the host."},
		{"its claim went when it was taken", "The same, and nothing was done with the host since it was taken."},
		{"to be released, and paused", "The same, and the host is paused."},
		{"the cache lags", "A host names a claim that the cache does not have, and the API server has."},
		{"of a claim that is gone, and taken by somebody else", "A host names a claim that is gone, and Archelon did not take that host."},
		{"restored", "It was restored from a backup, and its host names the claim before."},
		{"restored, and to be adopted", "The same, and an administrator gives that host to it."},
		{"restored, and to be cleaned", "The same, and an administrator releases that host."},
	}
}

// What becomes of a claim in a state is on a page that Decide writes.
func TestThePageOfDecisions(t *testing.T) {
	cases := decideRows()
	decisions.Check(t, "baremetal", situations(), func(name string) ([]string, bool) {
		row, ok := cases[name]
		row.o.Requester = hostclaim.Requester{Name: "a"}
		d := Decide(row.o, time.Now())
		parts := decisions.Texts(d.Actions)
		if d.Status != nil {
			parts = append(parts, decisions.Conditions(d.Status.Conditions, "Associated", "Synchronized", "Ready")...)
		}
		if d.Status != nil && d.Status.PendingHost != nil {
			parts = append(parts, "`status.pendingHost` names the host")
		}
		return parts, ok
	})
}
