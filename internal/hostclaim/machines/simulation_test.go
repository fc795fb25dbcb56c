package machines

import (
	"testing"

	"github.com/go-logr/logr"
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever happens in whatever order: nothing of others is touched, a Machine that had a host gets no other one, the
// provider is never told that a server is clean while something runs on it; and once faults stop, each Machine has what
// it can have, what is deleted is gone, and nothing is written any more.
func TestSimulation(t *testing.T) {
	ctx := ctrl.LoggerInto(t.Context(), logr.Discard())
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(ctx, t)
		for range rapid.IntRange(10, 120).Draw(t, "steps") {
			w.act()
			w.check()
		}
		w.checkEnd()
		w.checkReleased()
	})
}

// checkWrite is what must hold for each write.
func (w *world) checkWrite(verb string, key simulation.Key, was, is client.Object) {
	if was != nil && is != nil && was.GetResourceVersion() == is.GetResourceVersion() {
		return // It was refused.
	}
	for _, object := range []client.Object{was, is} {
		if object == nil {
			continue
		}
		host, _ := object.(*bmov1.BareMetalHost)
		foreign := len(object.GetOwnerReferences()) == 0 && object.GetLabels()[metal3v1.MachineLabel] == ""
		if claim, ok := object.(*metal3v1.HostClaim); ok {
			foreign = len(claim.OwnerReferences) == 0
		}
		if host != nil && host.Spec.BMC.Address != "" {
			foreign = true
		}
		if foreign {
			w.T.Fatalf("it wrote to %s, which is not its own", key)
		}
	}
	w.checkReuse(verb, was, is)
	if _, claim := is.(*metal3v1.HostClaim); !claim || verb != "create" || was != nil {
		return
	}
	if m := w.machine(key.Name); m != nil && isOwner(m.UID, is) && m.Annotations[metal3v1.HostAnnotation] != "" && w.Faulty == "" {
		w.T.Fatalf("Machine %s gets another host", describeMachine(m))
	}
}

// check is what must hold at every moment.
func (w *world) check() {
	claims := map[types.UID]string{}
	for _, s := range w.servers {
		if s.claim == "" {
			continue
		}
		if other := claims[s.claim]; other != "" {
			w.T.Fatalf("a claim has %s and %s", other, s.name)
		}
		claims[s.claim] = s.name
	}
}

// settle has everything go on until nothing moves any more.
func (w *world) settle() bool {
	for range 500 {
		moved := false
		for i := range w.processes {
			if !w.processes[i].Settle(w.ctx, 2000) {
				return false
			}
		}
		version := w.server.Version()
		for _, name := range []string{"m1", "m2"} {
			w.provide(name)
		}
		for _, s := range w.servers {
			moved = s.step() || moved
		}
		moved = w.collect() || moved
		moved = w.claim() || moved
		if !moved && version == w.server.Version() {
			return true
		}
	}
	return false
}

// resume has nothing be paused, and nothing be anybody's who makes no sense.
func (w *world) resume() {
	for _, name := range []string{"m1", "m2"} {
		w.pause(name, false)
		w.removeForeign(name)
	}
	if cluster := w.cluster(); cluster != nil {
		cluster.Spec.Paused = nil
		w.server.Put(cluster)
	}
}

// checkEnd is what must hold when nothing goes wrong any more.
func (w *world) checkEnd() {
	w.Faulty = ""
	w.resume()
	if !w.settle() {
		w.T.Fatal("it does not come to rest")
	}
	w.check()
	for _, name := range []string{"m1", "m2"} {
		w.checkMachine(name)
	}
	before := w.writes
	for i := range w.processes {
		w.start(i)
	}
	if !w.settle() || w.writes != before {
		w.T.Fatalf("%d writes at rest", w.writes-before)
	}
}

func (w *world) checkMachine(name string) {
	m := w.machine(name)
	w.checkLeft(name)
	if m == nil {
		return
	}
	claim, proxy := w.pairOf(m)
	switch {
	case m.DeletionTimestamp != nil:
		w.T.Fatalf("Machine %s is still there", describeMachine(m))
	case claim == nil:
		// It had one. Its proxy says so, unless that was deleted, too.
		if m.Annotations[metal3v1.HostAnnotation] == "" && proxy == nil && w.getClaim(name) == nil {
			w.T.Fatalf("Machine %s has no claim", describeMachine(m))
		}
		if proxy != nil && proxy.Status.OperationalStatus != bmov1.OperationalStatusError {
			w.T.Fatalf("Machine %s is not told that its claim is gone: %+v", describeMachine(m), proxy.Status)
		}
	case hostclaim.LostForGood(claim):
		if proxy != nil && proxy.Status.OperationalStatus != bmov1.OperationalStatusError {
			w.T.Fatalf("Machine %s is not told that its host is gone: %+v", describeMachine(m), proxy.Status)
		}
	case w.serverOf(claim) == nil:
		if w.free() != nil || w.usable(m) {
			w.T.Fatalf("Machine %s has no host, and there is one", describeMachine(m))
		}
	case proxy == nil || !settled(proxy, w.serverOf(claim)):
		w.T.Fatalf("Machine %s does not run: %+v, %+v", describeMachine(m), proxy, w.serverOf(claim))
	}
}

// checkReleased is what must hold when all Machines are deleted: they go, and leave nothing behind.
func (w *world) checkReleased() {
	for _, name := range []string{"m1", "m2"} {
		w.server.Remove(keyOf(machineGK, name))
	}
	if !w.settle() {
		w.T.Fatal("it does not come to rest after the Machines were deleted")
	}
	for _, name := range []string{"m1", "m2"} {
		if m := w.machine(name); m != nil {
			w.T.Fatalf("Machine %s is left", describeMachine(m))
		}
		w.checkMachine(name)
	}
	w.server.Remove(keyOf(clusterGK, "cluster"))
	if !w.settle() {
		w.T.Fatal("it does not come to rest after the Cluster was deleted")
	}
	for _, name := range []string{"m1", "m2"} {
		w.checkLeft(name)
	}
	for _, s := range w.servers {
		if *s != (server{name: s.name}) {
			w.T.Fatalf("server %+v is left", *s)
		}
	}
}
