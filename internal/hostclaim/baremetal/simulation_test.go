package baremetal

import (
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever happens in whatever order: no host has two claims, no claim two hosts, nothing is written to a host of
// somebody else, none is given away before it is clean; and once faults stop, every claim has what it can have, and
// nothing is written any more.
func TestSimulation(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(ctx, t)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			w.act()
			w.check()
		}
		w.checkEnd()
	})
}

// checkWrite is what must hold for each write to a host.
func (w *world) checkWrite(before, after *bmov1.BareMetalHost) {
	if before == nil || after == nil || equality.Semantic.DeepEqual(before, after) {
		return
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) || !equality.Semantic.DeepEqual(before.Labels, after.Labels) {
		w.t.Fatalf("it changed more than it may of %s", describeHost(before))
	}
	if before.Spec.ConsumerRef == nil {
		w.checkTaken(before, after)
		return
	}
	if _, _, ours := consumerOf(before); !ours {
		w.t.Fatalf("it wrote to %s, which is not its own", describeHost(before))
	}
	if after.Spec.ConsumerRef != nil {
		return
	}
	state := before.Status.Provisioning.State
	if state != bmov1.StateAvailable || before.Spec.Image != nil || after.Spec.Image != nil || after.Spec.UserData != nil {
		w.t.Fatalf("it gave away %s, which is not clean", describeHost(before))
	}
	if !after.Spec.Online {
		w.t.Fatalf("it gave back %s other than its administrator had it", describeHost(after))
	}
}

// checkTaken is what must hold for a host that is taken.
func (w *world) checkTaken(before, after *bmov1.BareMetalHost) {
	key, uid, ours := consumerOf(after)
	claim, exists := w.server.Get(simulation.Key{Kind: claimGK, NamespacedName: key}).(*metal3v1.HostClaim)
	switch {
	case !ours:
		w.t.Fatalf("it wrote to %s, which is nobody's", describeHost(before))
	case !hostclaim.Free(before):
		w.t.Fatalf("it took %s, which is not free", describeHost(before))
	case exists && claim.UID == uid && !held(claim) && !w.forced[uid]:
		w.t.Fatalf("it took %s for a claim that is not held", describeHost(before))
	case !exists:
		w.forced[uid] = true // It went between the look at the claim and the write to the host.
	}
	if in := before.Annotations[metal3v1.NamespacesKey]; in != "" && in != "*" && in != key.Namespace {
		w.t.Fatalf("it took %s, which is open to namespace %s, for one of %s", describeHost(before), in, key.Namespace)
	}
}

// check is what must hold at every moment.
func (w *world) check() {
	claims := map[types.UID]bool{}
	for _, claim := range w.claims() {
		claims[claim.UID] = true
	}
	hosts := map[types.UID]int{}
	for _, host := range w.hosts() {
		if _, uid, ok := consumerOf(host); ok {
			if hosts[uid]++; hosts[uid] > 1 {
				w.t.Fatalf("a claim has two hosts: %s", describeHost(host))
			}
			if !claims[uid] && !w.forced[uid] {
				w.t.Fatalf("%s is left over by a claim that is gone", describeHost(host))
			}
		}
	}
}

// settle has everybody do what there is to do, and reports whether that comes to an end.
func (w *world) settle() bool {
	for range 200 {
		before := w.writes
		for i := range w.processes {
			if !w.processes[i].Settle(w.ctx, 5000) {
				return false
			}
		}
		moved := false
		for _, host := range w.hosts() {
			moved = w.metal3(host) || moved
		}
		behind := false
		for _, process := range w.processes {
			behind = behind || len(process.Cache.Behind()) > 0
		}
		if !moved && !behind && before == w.writes {
			return true
		}
	}
	return false
}

// checkEnd is what must hold when faults have stopped and everything has come to rest.
func (w *world) checkEnd() {
	w.faulty = ""
	if !w.settle() {
		w.t.Fatal("it does not come to rest")
	}
	w.check()
	for _, host := range w.hosts() {
		if _, uid, ok := consumerOf(host); ok && w.forced[uid] {
			w.t.Fatalf("%s is not released, and its claim is gone", describeHost(host))
		}
	}
	for _, claim := range w.claims() {
		if !paused(claim) {
			w.checkClaim(claim)
		}
	}
	before := w.writes
	for i := range w.processes {
		w.start(i)
	}
	if !w.settle() || w.writes != before {
		w.t.Fatalf("%d writes at rest", w.writes-before)
	}
}

func (w *world) checkClaim(claim *metal3v1.HostClaim) {
	name := claim.Namespace + "/" + claim.Name
	if claim.DeletionTimestamp != nil {
		w.t.Fatalf("%s is still there", name)
	}
	var mine *bmov1.BareMetalHost
	var fit []string
	q := hostclaim.Question{Claim: claim, Requester: hostclaim.Requester{Name: claim.Namespace}, Policies: w.policies()}
	if namespace := w.server.Get(simulation.Key{
		Kind: namespaceGK, NamespacedName: types.NamespacedName{Name: claim.Namespace},
	}); namespace != nil {
		q.Requester.Labels = namespace.GetLabels()
	}
	for _, host := range w.hosts() {
		if ownedBy(host, claim) {
			mine = host
		}
		if hostclaim.Check(q, host) == "" {
			fit = append(fit, host.Name)
		}
	}
	switch {
	case mine != nil:
		w.checkBound(claim, mine)
	case claim.Status.BareMetalHost != nil || claim.Status.PendingHost != nil || claim.Labels[metal3v1.HostLabel] != "":
		w.t.Fatalf("%s says that it has a host, and has none: %+v", name, claim.Status)
	case lostForGood(claim):
	case len(fit) > 0:
		w.t.Fatalf("%s waits, and could have %v: %+v", name, fit, claim.Status.Conditions)
	}
}

// checkBound is what must hold for a claim that has a host.
func (w *world) checkBound(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost) {
	name := claim.Namespace + "/" + claim.Name
	if ref := claim.Status.BareMetalHost; ref == nil || ref.Name != host.Name || claim.Labels[metal3v1.HostLabel] != "infra."+host.Name {
		w.t.Fatalf("%s has %s and says %+v, %v", name, describeHost(host), claim.Status.BareMetalHost, claim.Labels)
	}
}

func (w *world) policies() hostclaim.Policies {
	policies := hostclaim.Policies{}
	for _, object := range w.server.Objects(policyGK) {
		if policy, ok := object.(*metal3v1.HostDeployPolicy); ok {
			policies[policy.Namespace] = append(policies[policy.Namespace], *policy)
		}
	}
	return policies
}
