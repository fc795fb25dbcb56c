package remote

import (
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/test/simulation"
)

// A process that knows an earlier version of a source, or of its target, does to the target what the present one asks
// for, or nothing.
func TestStaleProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		// first is what the process has seen of the user's changes, then what it has yet to see.
		first, then func(w *world, source *metal3v1.HostClaim)
		holds       func(target *metal3v1.HostClaim) bool
	}{
		"Deletion": {
			reason: "The user leaves the target there, and its host with it",
			first: func(w *world, source *metal3v1.HostClaim) {
				w.here.Remove(w.here.KeyOf(source))
			},
			then: func(w *world, source *metal3v1.HostClaim) {
				source.Annotations = hostclaim.Set(source.Annotations, metal3v1.AbandonAnnotation, "true")
				w.here.Put(source)
			},
			holds: func(target *metal3v1.HostClaim) bool { return target.DeletionTimestamp == nil },
		},
		"Change": {
			reason: "The user has switched the host off, and another process has done so",
			first: func(w *world, source *metal3v1.HostClaim) {
				source.Spec.Online = new(true)
				w.here.Put(source)
			},
			then: func(w *world, source *metal3v1.HostClaim) {
				source.Spec.Online = new(false)
				w.here.Put(source)
				target := w.targets()[0]
				target.Spec.Online = new(false)
				w.there.Put(target)
			},
			holds: func(target *metal3v1.HostClaim) bool { return target.Spec.Online != nil && !*target.Spec.Online },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := furnished(t)
			tc.first(w, w.sources()[0])
			process := w.processes[0].claims
			process.Deliver(w.ctx, claimGK)
			tc.then(w, w.sources()[0])
			for process.Queued() > 0 {
				if _, err := process.Work(w.ctx, 0); err != nil {
					t.Fatal(err)
				}
			}
			expectTarget(t, w, tc.reason, tc.holds)
			if !w.settle() {
				t.Error("it does not come to rest")
			}
			expectTarget(t, w, tc.reason+", also later", tc.holds)
		})
	}
	t.Run("DeletionOfAnotherVersion", func(t *testing.T) {
		t.Parallel()
		server := simulation.NewServer(simScheme())
		server.Put(simClaim("c1"))
		seen := claimsOf(server)[0]
		changed := seen.DeepCopy()
		changed.Labels = map[string]string{"by": "somebody else"}
		server.Put(changed)
		c := server.Client(nil)
		err := deleteTarget{source: claimsOf(server)[0], target: seen}.Do(t.Context(), &run{Reconciler: &Reconciler{Read: Readers{Live: c}}, there: c})
		if !reconcile.Overtaken(err) || len(claimsOf(server)) != 1 {
			t.Errorf("the target has changed since it was seen: %v, and %d are left", err, len(claimsOf(server)))
		}
	})
}

// furnished returns a world with one process and one source, which has a target.
func furnished(t *testing.T) *world {
	t.Helper()
	w := &world{
		ctx: t.Context(), left: map[string]bool{},
		here: simulation.NewServer(simScheme()), there: simulation.NewServer(simScheme()),
		clock: clocktesting.NewFakePassiveClock(now), processes: make([]*instance, 1),
	}
	w.kubeconfig("u1")
	w.start(0)
	w.here.Put(simClaim("c1"))
	if !w.settle() || len(w.targets()) != 1 {
		t.Fatalf("there are %d targets", len(w.targets()))
	}
	return w
}

func expectTarget(t *testing.T, w *world, reason string, holds func(*metal3v1.HostClaim) bool) {
	t.Helper()
	targets := w.targets()
	if len(targets) == 1 && holds(targets[0]) {
		return
	}
	t.Errorf("%s, and there are %d targets", reason, len(targets))
	for _, target := range targets {
		t.Log(describeClaim(target))
	}
}
