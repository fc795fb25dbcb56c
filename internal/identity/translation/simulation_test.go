package translation

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever happens in whatever order: nothing of anybody else is touched, no Secret has another key than its
// credential, no identity is open or goes while it is used, and once faults stop, everything is what the credentials
// say and nothing is written any more.
func TestSimulation(t *testing.T) {
	theKeys()
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(ctx, t)
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			w.act()
		}
		w.checkEnd()
	})
}

// In a world at rest nothing is asked and nothing written, also not by the next process, which reads each Secret once.
func TestSteadyStateAsksNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Context(), t)
		for _, name := range simNames {
			w.putCredential(name, map[string]string{driverAnnotation: "oracle"}, credentialData(theKeys().one))
		}
		w.settle()
		w.server.Writes = nil
		w.requests = 0
		w.start()
		w.settle()
		if len(w.server.Writes) > 0 || w.requests != 2*len(simNames) {
			t.Fatalf("the next process writes %v, and asks %d times", w.server.Writes, w.requests)
		}
	})
}

// A Secret that was given to somebody else, after it was decided to write it, is not written.
func TestWhatWasDecidedOnHasToBeThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Context(), t)
		w.putCredential("cc-1", map[string]string{driverAnnotation: "oracle"}, credentialData(theKeys().one))
		w.settle()
		secret := w.secret("cc-1")
		secret.Data = map[string][]byte{"tenancy": []byte("another")}
		w.server.Put(secret)
		w.process.Deliver(w.ctx, secretGK)
		w.Faulty = "lost before" // It has read the Secret, and will try again.
		w.work(func(int) int { return 0 })
		secret = w.secret("cc-1")
		secret.Labels = nil
		w.server.Put(secret)
		w.work(func(int) int { return 0 })
		w.settle()
	})
}

func TestCompleteRejectsWhatIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t.Context(), t)
		for name, change := range map[string]func(*Reconciler){
			"Client":   func(r *Reconciler) { r.Client = nil },
			"Live":     func(r *Reconciler) { r.Live = nil },
			"Objects":  func(r *Reconciler) { r.Objects = nil },
			"Metadata": func(r *Reconciler) { r.Metadata = nil },
			"Recorder": func(r *Reconciler) { r.Recorder = nil },
			"Policy":   func(r *Reconciler) { r.Policy = Policy{Namespace: "oci"} },
		} {
			changed := *w.control
			change(&changed)
			if changed.complete() == nil {
				t.Errorf("%s: it is complete", name)
			}
		}
	})
}
