package baremetal

import (
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// disk is what Metal3 has left on the disks of a host.
type disk struct {
	// of is the namespace whose claim wrote to the host last, empty if Metal3 has cleaned the host since.
	of string
	// keeps is whether Metal3 may have begun to deprovision the host without cleaning it.
	keeps bool
}

// writeDisk has Metal3 begin to write an image.
func (w *world) writeDisk(host *bmov1.BareMetalHost) {
	host.Status.OperationHistory.Provision.Start = metav1.NewTime(w.clock.Now())
	if key, _, ok := consumerOf(host); ok {
		w.disks[host.Name] = disk{of: key.Namespace}
	}
}

// deprovision has Metal3 begin to deprovision a host. Ironic goes by the mode of that moment, or by a later one.
func (w *world) deprovision(host *bmov1.BareMetalHost) {
	is := w.disks[host.Name]
	is.keeps = hostclaim.NotCleaned(host)
	w.disks[host.Name] = is
}

// cleanDisk has Metal3 come to the end of that.
func (w *world) cleanDisk(host *bmov1.BareMetalHost) {
	is := w.disks[host.Name]
	keeps := hostclaim.NotCleaned(host)
	if is.keeps != keeps && w.Pick("mode", "of the beginning", "of the end") == "of the beginning" {
		keeps = is.keeps
	}
	if !keeps {
		is.of = ""
	}
	w.disks[host.Name] = is
}

// checkDisk is what must hold of what is on the disks of a host that is given back, or taken.
func (w *world) checkDisk(was, is client.Object) {
	before, ok := was.(*bmov1.BareMetalHost)
	after, ok2 := is.(*bmov1.BareMetalHost)
	if !ok || !ok2 {
		return
	}
	of := w.disks[before.Name].of
	if _, _, ours := consumerOf(before); ours && after.Spec.ConsumerRef == nil {
		if of != "" && !strings.Contains(after.Annotations[metal3v1.LastUseAnnotation], `"uncleaned":true`) {
			w.t.Fatalf("it gave back %s with data of namespace %s, and does not say so: %v", describeHost(before), of, after.Annotations)
		}
		if after.Spec.AutomatedCleaningMode != "" {
			w.t.Fatalf("it gave back %s, and did not restore how it is cleaned", describeHost(before))
		}
	}
	if key, _, ours := consumerOf(after); ours && before.Spec.ConsumerRef == nil && of != "" && of != key.Namespace {
		w.t.Fatalf("it gave %s to namespace %s, with data of namespace %s", describeHost(before), key.Namespace, of)
	}
}

// Each row is what happens to a claim and its host in turn: what Decide writes to the host comes after each step.
func TestTheDisksOfAHost(t *testing.T) {
	allowed := metal3v1.HostDeployPolicy{Spec: metal3v1.HostDeployPolicySpec{
		AllowKeptDisks: true, HostClaimNamespaces: &metal3v1.HostClaimNamespaces{Names: []string{"a"}},
	}}
	type step = func(o *Observation, host *bmov1.BareMetalHost)
	asks := func(o *Observation, _ *bmov1.BareMetalHost) {
		o.Claim.Spec.Online, o.Claim.Spec.AutomatedCleaningMode = new(true), "disabled"
		o.Claim.Spec.Image = &metal3v1.Image{URL: "http://x", Checksum: "y"}
	}
	empties := func(o *Observation, _ *bmov1.BareMetalHost) { o.Claim.Spec.Image = nil }
	deletes := func(o *Observation, _ *bmov1.BareMetalHost) { o.Claim.DeletionTimestamp = new(metav1.Now()) }
	is := func(state bmov1.ProvisioningState) step {
		return func(_ *Observation, host *bmov1.BareMetalHost) {
			host.Status.Provisioning.State, host.Status.Provisioning.Image = state, bmov1.Image{}
			if state == bmov1.StateProvisioned || state == bmov1.StateDeprovisioning {
				host.Status.Provisioning.Image.URL = "http://x"
			}
			host.Status.OperationHistory.Provision.Start = metav1.NewTime(time.Unix(0, 0))
		}
	}
	runs, cleans, empty := is(bmov1.StateProvisioned), is(bmov1.StateDeprovisioning), is(bmov1.StateAvailable)
	forbid := func(o *Observation, _ *bmov1.BareMetalHost) { o.Policies = nil }
	forbidsIt := func(o *Observation, _ *bmov1.BareMetalHost) {
		o.Policies = hostclaim.Policies{"infra": {{Spec: metal3v1.HostDeployPolicySpec{HostClaimNamespaces: allowed.Spec.HostClaimNamespaces}}}}
	}
	others := func(o *Observation, _ *bmov1.BareMetalHost) {
		other := *allowed.DeepCopy()
		other.Spec.HostClaimNamespaces.Names = []string{"b"}
		o.Policies["infra"] = append(o.Policies["infra"], other)
	}
	elsewhere := func(o *Observation, _ *bmov1.BareMetalHost) { o.Policies = hostclaim.Policies{"else": {allowed}} }
	mode := func(is bmov1.AutomatedCleaningMode) step {
		return func(_ *Observation, host *bmov1.BareMetalHost) { host.Spec.AutomatedCleaningMode = is }
	}
	says := func(mode string) step {
		return func(o *Observation, _ *bmov1.BareMetalHost) { o.Claim.Spec.AutomatedCleaningMode = mode }
	}
	for name, tc := range map[string]struct {
		reason string
		steps  []step
		// want is the mode of the host after each step, by its first letter, and at last whether the host was given back
		// cleaned.
		want string
	}{
		"Asked":           {"it is kept, and comes back clean", []step{asks, runs, deletes, cleans, empty}, "ddmmm cleaned"},
		"Emptied":         {"nothing cleans it after that", []step{asks, runs, empties, cleans, empty, deletes}, "dddddm uncleaned"},
		"EmptiedAndInUse": {"the last time cleans it", []step{asks, runs, empties, cleans, empty, asks, runs, deletes, empty}, "dddddddmm cleaned"},
		"DeletedWhileDeprovisioned": {"it has begun without cleaning", []step{asks, runs, empties, cleans, deletes, empty},
			"ddddmm uncleaned"},
		"DeletedJustAfter": {"Metal3 begins after that", []step{asks, runs, empties, deletes, cleans, empty}, "dddmmm cleaned"},
		"NotAllowed":       {"a tenant does not decide that", []step{others, forbidsIt, asks, runs, empties, cleans, empty, deletes}, "mmmmmmmm cleaned"},
		"AllowedToOthers":  {"each namespace for itself", []step{forbidsIt, others, asks, runs, empties, empty, deletes}, "mmmmmmm cleaned"},
		"AllowedElsewhere": {"hosts there are other ones", []step{elsewhere, asks, runs, empties, empty, deletes}, "mmmmmm cleaned"},
		"Withdrawn":        {"the next time cleans it", []step{asks, runs, forbid, empties, cleans, empty, deletes}, "ddmmmmm cleaned"},
		"WithdrawnTooLate": {"it was emptied before", []step{asks, runs, empties, cleans, empty, forbid, deletes}, "dddddmm uncleaned"},
		"SwitchedOnLate":   {"it may count still", []step{asks, says(""), runs, empties, cleans, says("disabled"), empty, deletes}, "dmmmmddm uncleaned"},
		"NeverUsed":        {"there is nothing on it", []step{says("disabled"), deletes}, "dm cleaned"},
		"OfTheAdministrator": {"it stays the administrator's", []step{mode("disabled"), asks, runs, empties, cleans, empty, deletes},
			"ddddddd uncleaned"},
		"ChangedByTheAdministrator": {"the host was emptied before", []step{mode("disabled"), asks, runs, empties, cleans, empty, mode("metadata"), says(""), deletes},
			"dddddddmm uncleaned"},
	} {
		t.Run(name, func(t *testing.T) {
			host := hostOfClaim(func(h *bmov1.BareMetalHost) { h.Spec.AutomatedCleaningMode = "metadata" })
			o := Observation{
				Claim: claimWith(named), Requester: hostclaim.Requester{Name: "a"}, Policies: hostclaim.Policies{"infra": {allowed}},
			}
			got := ""
			for _, next := range tc.steps {
				next(&o, host)
				host = carriedOut(o, host)
				got += string(host.Spec.AutomatedCleaningMode[0])
			}
			last := " cleaned"
			if strings.Contains(host.Annotations[metal3v1.LastUseAnnotation], `"uncleaned":true`) {
				last = " uncleaned"
			}
			if got += last; got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
			if host.Spec.ConsumerRef != nil {
				t.Error("it is not given back")
			}
		})
	}
}

// carriedOut returns the host of a claim after all that is decided about it, until that is nothing any more.
func carriedOut(o Observation, host *bmov1.BareMetalHost) *bmov1.BareMetalHost {
	for host.Spec.ConsumerRef != nil {
		o.Consumed = list(host)
		var next *bmov1.BareMetalHost
		for _, action := range Decide(o, time.Now()).Actions {
			if change, ok := action.(changeHost); ok {
				next = change.after
			}
		}
		if next == nil {
			return host
		}
		host = next
	}
	return host
}

// A user whose disks are not kept learns why, and what to do.
func TestAClaimSaysThatItsDisksAreNotKept(t *testing.T) {
	claim := claimWith(func(c *metal3v1.HostClaim) { c.Spec.AutomatedCleaningMode = "disabled" })
	d := Decide(Observation{Claim: claim, Requester: hostclaim.Requester{Name: "a"}, Consumed: list(hostOfClaim(nil))}, time.Now())
	wantSaid(t, saidOf(t, d, "Synchronized"), "True DiskNotKept", "allowKeptDisks", "infra")
	off := hostOfClaim(func(h *bmov1.BareMetalHost) { h.Spec.AutomatedCleaningMode = "disabled" })
	d = Decide(Observation{Claim: claim, Requester: hostclaim.Requester{Name: "a"}, Consumed: list(off)}, time.Now())
	wantSaid(t, saidOf(t, d, "Synchronized"), "True ConfigurationSynced")
}

// A host that another consumer has taken is cleaned again as its administrator has set it.
func TestAHostThatWasTakenIsCleaned(t *testing.T) {
	after := disowned(hostOfClaim(func(h *bmov1.BareMetalHost) {
		h.Spec.AutomatedCleaningMode = "metadata"
		setCleaning(h, true)
		h.Spec.ConsumerRef.Kind = "Metal3Machine"
	}))
	if after == nil || after.Spec.AutomatedCleaningMode != "metadata" {
		t.Errorf("got %v, want the mode of the administrator", after)
	}
}
