package machines

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/simulation"
)

// story is a world with one server, whose Machine m1 runs. Templates have nodeReuse.
type story struct {
	*world

	t *testing.T
	// first is the UID of the claim of m1.
	first types.UID
}

func begun(t *testing.T) *story { //nolint:thelper // it begins the test
	ctx := ctrl.LoggerInto(t.Context(), logr.Discard())
	w := newWorldOf(ctx, simulation.Schedule{Script: map[string]string{"paused": "no"}})
	w.reuses, w.servers = true, w.servers[:1]
	w.createMachine("m1")
	s := &story{world: w, t: t}
	s.rest()
	s.first = w.getClaim("m1").UID
	return s
}

// rest has everything go on until nothing moves.
func (s *story) rest() {
	s.t.Helper()
	if !s.settle() {
		s.t.Fatal("it does not come to rest")
	}
}

// remove has a user delete something.
func (s *story) remove(kind schema.GroupKind, name string) { s.server.Remove(keyOf(kind, name)) }

// see has a process see what happened to some kinds, and work on all that this wakes.
func (s *story) see(n int, kinds ...schema.GroupKind) {
	s.t.Helper()
	for _, kind := range kinds {
		for s.processes[n].Deliver(s.ctx, kind) {
			continue
		}
	}
	for range 20 {
		if s.processes[n].Queued() == 0 {
			return
		}
		s.work(n)
	}
	s.t.Fatal("it does not come to an end")
}

// emptied has m1 be deleted, as far as to the moment before the provider lets it go.
func (s *story) emptied() {
	s.t.Helper()
	s.remove(machineGK, "m1")
	for range 100 {
		if host := s.getHost("m1"); s.machine("m1") == nil || host.Status.Provisioning.State == bmov1.StateAvailable && !host.Spec.Online {
			break
		}
		s.provide("m1")
		for _, each := range s.servers {
			each.step()
		}
		s.claim()
		for i := range s.processes {
			s.see(i, machineGK, claimGK, hostGK, clusterGK)
		}
	}
	if s.machine("m1") == nil {
		s.t.Fatal("the provider has let m1 go too early")
	}
}

// letGo has the provider let m1 go.
func (s *story) letGo() {
	s.t.Helper()
	for range 5 {
		s.provide("m1")
	}
	if s.machine("m1") != nil || tagged(s.getHost("m1")) == "" {
		s.t.Fatalf("m1 is not gone, or left no tag: %v", s.getHost("m1"))
	}
}

// wantKept checks that the first claim is there, with the server, for a Machine or for none.
func (s *story) wantKept(machine string) {
	s.t.Helper()
	claim, proxy := s.getClaim("m1"), s.getHost("m1")
	if claim == nil || claim.UID != s.first || claim.DeletionTimestamp != nil || s.servers[0].claim != s.first || proxy == nil {
		s.t.Fatalf("got %v, %v, server %+v, want the claim of m1", claim, proxy, *s.servers[0])
	}
	if machine == "" {
		if !(Pair{claim, proxy}).keeps(s.cluster()) {
			s.t.Fatalf("got %v, %v, want them kept", claim, proxy)
		}
		return
	}
	m := s.machine(machine)
	if m == nil || !isOwner(m.UID, claim) || !consumes(machine, proxy) || claim.Spec.ConsumerRef.Name != machine || len(claim.OwnerReferences) != 2 {
		s.t.Fatalf("got %v, %v, want them to be those of %s", claim, proxy, machine)
	}
}

// wantReleased checks that nothing of m1 is left.
func (s *story) wantReleased() {
	s.t.Helper()
	if s.getClaim("m1") != nil || s.getHost("m1") != nil || *s.servers[0] != (server{name: "s1"}) {
		s.t.Fatalf("left: %v, %v, %+v", s.getClaim("m1"), s.getHost("m1"), *s.servers[0])
	}
}

// Whatever write is the last one of its process, or is answered by nobody, the next Machine gets the host of the first
// one, with its claim.
func TestTheNextMachineGetsTheHostWhereverAProcessEnds(t *testing.T) {
	for _, fault := range []string{"crash before", "crash after", "lost before", "lost after"} {
		for n, reached := 0, true; reached; n++ {
			s := begun(t)
			s.createMachine("m2")
			s.remove(machineGK, "m1")
			reached = s.goOn(fault, s.writes+n)
			s.rest()
			if s.wantKept("m2"); s.servers[0].runs != simImage || s.getClaim("m2") != nil {
				t.Errorf("%s %d: server %+v, claim %v", fault, n, *s.servers[0], s.getClaim("m2"))
			}
			if n > 100 {
				t.Fatal("it does not come to an end")
			}
		}
	}
}

// goOn has everything take some steps, and a fault befall one write. It reports whether there was that write.
func (s *story) goOn(fault string, write int) bool {
	for range 100 {
		if s.writes == write {
			s.Faulty = fault
		}
		for i := range s.processes {
			s.deliver(i)
			if s.processes[i].Queued() > 0 {
				s.work(i)
			}
		}
		s.provide("m1")
		s.provide("m2")
		s.servers[0].step()
		s.claim()
	}
	s.Faulty = ""
	return s.writes > write
}

// deliver has a process see all that happened.
func (s *story) deliver(n int) {
	for _, kind := range s.processes[n].Cache.Behind() {
		for s.processes[n].Deliver(s.ctx, kind) {
			continue
		}
	}
}

func TestAHostIsKeptUntilItsClusterEnds(t *testing.T) {
	for name, end := range map[string]func(*story){
		"its Cluster is deleted": func(s *story) { s.remove(clusterGK, "cluster") },
		"its Cluster is being deleted": func(s *story) {
			cluster := s.cluster()
			cluster.Finalizers = []string{"cluster.cluster.x-k8s.io"}
			s.server.Put(cluster)
			s.remove(clusterGK, "cluster")
		},
		"its Cluster is replaced": func(s *story) { s.remove(clusterGK, "cluster"); s.putCluster() },
		"its claim is deleted":    func(s *story) { s.remove(claimGK, "m1") },
		"its proxy is deleted":    func(s *story) { s.remove(hostGK, "m1") },
	} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			s.remove(machineGK, "m1")
			s.rest()
			s.wantKept("")
			writes := s.writes
			for i := range s.processes {
				s.start(i)
			}
			s.rest()
			if s.writes != writes {
				t.Errorf("%d writes at rest", s.writes-writes)
			}
			end(s)
			s.rest()
			s.wantReleased()
		})
	}
}

// A cache can know that a Machine is gone, and not yet that the provider has left its host for the next one.
func TestACacheThatDoesNotKnowTheTagGivesNothingBack(t *testing.T) {
	s := begun(t)
	s.emptied()
	s.letGo()
	s.see(0, machineGK)
	s.see(0, claimGK)
	s.wantKept("")
	s.rest()
	s.wantKept("")
}

// A cache can know that a claim belongs to another Machine by now, and not know that Machine.
func TestACacheThatDoesNotKnowTheNextMachineGivesNothingBack(t *testing.T) {
	s := begun(t)
	s.remove(machineGK, "m1")
	s.rest()
	s.createMachine("m2")
	s.see(0, machineGK)
	s.wantKept("m2")
	s.remove(clusterGK, "cluster")
	s.see(1, claimGK, hostGK, clusterGK)
	s.wantKept("m2")
}

// A cache can know that a host is kept, and not that the Machine has got a claim of its own.
func TestAMachineTakesNoHostWhileItHasAnotherClaim(t *testing.T) {
	s := begun(t)
	s.emptied()
	s.createMachine("m2")
	s.see(0, machineGK)
	if s.getClaim("m2") == nil {
		t.Fatal("m2 has no claim")
	}
	s.letGo()
	for s.processes[0].Deliver(s.ctx, hostGK) || s.processes[0].Deliver(s.ctx, machineGK) {
		continue
	}
	s.see(0)
	s.wantKept("")
	s.rest()
	s.wantKept("m2")
}

// Two Machines get one host by no means.
func TestTwoMachinesRaceForOneHost(t *testing.T) {
	s := begun(t)
	s.remove(machineGK, "m1")
	s.rest()
	s.createMachine("m2")
	s.createMachine("m3")
	for i, name := range []string{"m2", "m3"} {
		for s.processes[i].Deliver(s.ctx, machineGK) {
			continue
		}
		place := s.processes[i].Place(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: simNamespace, Name: name}})
		if _, err := s.processes[i].Work(s.ctx, place); err != nil {
			t.Fatal(err)
		}
	}
	s.wantKept("m2")
	s.rest()
	s.wantKept("m2")
	if claim := s.getClaim("m3"); claim == nil || s.serverOf(claim) != nil {
		t.Errorf("got %v, want that m3 waits", claim)
	}
}

// The next Machine hears of a host when the last one is gone, and not before that. Kubernetes need not tell it so: the
// owners of the claim can stay as they are.
func TestAMachineThatWaitsHearsOfAHostThatIsLeft(t *testing.T) {
	s := begun(t)
	hold := func(finalizers ...string) {
		m1 := s.server.Get(keyOf(machineGK, "m1"))
		m1.SetFinalizers(finalizers)
		s.server.Put(m1)
	}
	hold("metal3machine.infrastructure.cluster.x-k8s.io", "example.com/hold")
	s.emptied()
	s.createMachine("m2")
	s.see(0, machineGK)
	s.provide("m1")
	s.see(0, claimGK, hostGK)
	s.see(0, claimGK, hostGK)
	if claim := s.getClaim("m2"); tagged(s.getHost("m1")) == "" || claim == nil || claim.DeletionTimestamp != nil {
		t.Fatalf("got %v, want that m2 has its own claim while m1 is there", claim)
	}
	hold()
	s.see(0, machineGK)
	if claim := s.getClaim("m2"); s.machine("m1") != nil || claim != nil && claim.DeletionTimestamp == nil {
		t.Errorf("got %v, want that m2 gives up its own claim", claim)
	}
	s.rest()
	s.wantKept("m2")
}

// What a tool has restored has no owners. Nobody says whose it is but its user.
func TestWhatWasKeptAndRestoredIsLeftAlone(t *testing.T) {
	s := begun(t)
	s.remove(machineGK, "m1")
	s.rest()
	claim, proxy := s.getClaim("m1"), s.getHost("m1")
	claim.OwnerReferences, proxy.OwnerReferences = nil, nil
	s.server.Put(claim)
	s.server.Put(proxy)
	s.createMachine("m2")
	writes := s.writes
	s.rest()
	if s.getHost("m1") == nil || s.getClaim("m1").DeletionTimestamp != nil || consumer(s.getHost("m1")) != "" || s.writes > writes+1 {
		t.Errorf("got %v, %v, %d writes", s.getClaim("m1"), s.getHost("m1"), s.writes-writes)
	}
	if claim := s.getClaim("m2"); claim == nil || s.serverOf(claim) != nil {
		t.Errorf("got %v, want that m2 waits", claim)
	}
	claim = s.getClaim("m1")
	claim.OwnerReferences = append(claim.OwnerReferences, ownerCluster(s.cluster()))
	s.server.Put(claim)
	s.rest()
	s.wantKept("m2")
}

// clusterctl creates claim and proxy one after the other in the other cluster, whose Cluster is paused meanwhile. A
// cache may not have that Cluster yet.
func TestHalfAPairThatComesFromAnotherClusterIsLeftAlone(t *testing.T) {
	for _, half := range []schema.GroupKind{claimGK, hostGK} {
		s := begun(t)
		s.remove(machineGK, "m1")
		s.rest()
		claim, proxy := s.getClaim("m1"), s.getHost("m1")
		for _, kind := range []schema.GroupKind{claimGK, hostGK, clusterGK} {
			s.server.Vanish(keyOf(kind, map[bool]string{true: "cluster", false: "m1"}[kind == clusterGK]))
		}
		for i := range s.processes {
			s.start(i)
		}
		s.Script["paused"] = "yes"
		s.putCluster()
		moved := ownerCluster(s.cluster())
		claim.OwnerReferences, proxy.OwnerReferences = []metav1.OwnerReference{moved}, []metav1.OwnerReference{moved}
		objects := map[schema.GroupKind]client.Object{claimGK: claim, hostGK: proxy}
		s.server.Put(objects[half])
		s.see(0, half)
		for kind, object := range objects {
			if kind != half {
				s.server.Put(object)
			}
		}
		s.servers[0].claim = s.getClaim("m1").UID // It has come along.
		s.rest()
		if s.getClaim("m1") == nil || s.getClaim("m1").DeletionTimestamp != nil || s.getHost("m1") == nil {
			t.Fatalf("%s came first: got %v, %v", half.Kind, s.getClaim("m1"), s.getHost("m1"))
		}
		s.resume()
		s.createMachine("m2")
		s.rest()
		if m := s.machine("m2"); !isOwner(m.UID, s.getClaim("m1")) {
			t.Errorf("%s came first: m2 does not get %v", half.Kind, s.getClaim("m1"))
		}
	}
}

// The reason why a Machine does not get a host that was kept is in an Event.
func TestAMachineLearnsWhyAHostIsNotForIt(t *testing.T) {
	_, problem := Observation{Machine: rolled("m2", func(m *Machine) { m.Kind = "kubevirt" }), Cluster: simCluster(), Kept: []Pair{keptPair()}}.choose()
	if !strings.Contains(problem, "m1") || !strings.Contains(problem, "Delete that HostClaim") {
		t.Errorf("got %q", problem)
	}
}
