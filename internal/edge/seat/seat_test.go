package seat

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

func TestNewRefusesWhatIsMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("nothing is missing")
	}
	whole := newWorld(t).start(newLeases()).Options
	whole.Timing = Timing{}
	if _, err := New(whole); err == nil {
		t.Error("it needs no times")
	}
}

// installed returns a management cluster whose Archelon has the seat.
func installed(w *world) (*leases, *Seat) {
	w.t.Helper()
	site := newLeases()
	first := w.start(site)
	w.pass(DefaultTiming().Quiet, first)
	w.may(first, true)
	return site, first
}

func TestTheNextProcessContinuesAtOnce(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	first.park(t.Context())
	w.may(first, false)
	next := w.start(site)
	next.step(t.Context())
	w.may(next, true)
	if !next.hasBegun() || next.Ready(nil) != nil {
		t.Errorf("it is not ready: %v", next.Ready(nil))
	}
}

func TestAProcessThatWasKilledIsFollowedWhenItIsQuiet(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	next := w.start(site)
	w.pass(DefaultTiming().Quiet-DefaultTiming().Renew, next)
	w.may(next, false)
	w.pass(DefaultTiming().Renew, next)
	w.may(next, true)
	w.may(first, false)
	if first.step(t.Context()); !first.ended {
		t.Error("the first one does not notice")
	}
}

func TestACloneStandsByForGood(t *testing.T) {
	w := newWorld(t)
	site, original := installed(w)
	elsewhere := site.copied()
	clone := w.start(elsewhere)
	w.pass(time.Hour, original, clone)
	w.may(original, true)
	w.may(clone, false)
	if err := clone.Ready(nil); err == nil || !strings.Contains(err.Error(), "Stop one of them") {
		t.Errorf("got %v", err)
	}
	if got := ptr.Deref(elsewhere.all[memoryKey.Name].Spec.HolderIdentity, "none"); got != "" {
		t.Errorf("the clone still believes that it was %s", got)
	}

	// The original starts again, and later is cut off: the clone has seen it alive.
	original.park(t.Context())
	w.pass(time.Second, clone)
	original = w.start(site)
	w.pass(time.Minute, original, clone)
	w.may(original, true)
	w.pass(time.Hour, clone)
	w.may(clone, false)

	// A person says that the original is gone.
	clone = w.start(elsewhere)
	w.pass(DefaultTiming().Expire-DefaultTiming().Renew, clone)
	w.may(clone, false)
	w.pass(DefaultTiming().Renew, clone)
	w.may(clone, true)
}

func TestARestoreIsTheOneAfterSilence(t *testing.T) {
	w := newWorld(t)
	site, original := installed(w)
	backup := site.copied()
	original.park(t.Context())
	original = w.start(site)
	w.pass(time.Minute, original)
	w.may(original, true)

	var told []string
	restored := w.start(backup, func(o *Options) { o.Tell = func(reason, _ string) { told = append(told, reason) } })
	w.pass(DefaultTiming().Expire-DefaultTiming().Renew, restored)
	w.may(restored, false)
	w.pass(DefaultTiming().Renew, restored)
	w.may(restored, true)
	if !slices.Equal(told, []string{takenReason}) {
		t.Errorf("got Events %v", told)
	}

	// The original was not dead after all.
	var lost string
	original.Lost = func(why string) { lost = why }
	w.may(original, false)
	if !original.step(t.Context()) || !strings.Contains(lost, restored.name) {
		t.Errorf("it ends because of %q", lost)
	}
	w.may(restored, true)
}

func TestASeatThatSomebodyEmptiedIsTakenWhenItsHolderHasNoticed(t *testing.T) {
	w := newWorld(t)
	_, first := installed(w)
	w.rancher.put(resource(LeaseName(origin)))
	other := w.start(newLeases())
	other.step(t.Context())
	w.may(other, false)
	w.pass(DefaultTiming().Quiet, other, first)
	w.may(other, true)
	if !first.ended {
		t.Error("the first one does not notice")
	}
}

func TestWhatElseIsWrittenOnTheLeaseIsNoSignOfLife(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	touch := func() {
		lease := w.rancher.all[LeaseName(origin)].DeepCopy()
		lease.Labels = map[string]string{"at": w.clock.Now().String()}
		w.rancher.put(lease)
	}
	touch()
	if first.step(t.Context()) {
		t.Fatal("a label cost the seat")
	}
	w.clock.Step(DefaultTiming().Renew)
	first.step(t.Context())
	w.may(first, true)

	next := w.start(site)
	for range 3 {
		next.step(t.Context())
		touch()
		w.clock.Step(DefaultTiming().Renew)
	}
	next.step(t.Context())
	w.may(next, true)
}

func TestAnOutageCostsNobodyTheSeat(t *testing.T) {
	w := newWorld(t)
	_, first := installed(w)
	w.rancher.befall = func(bool) error { return errors.New("cut off") }
	w.pass(time.Hour, first)
	w.may(first, false)
	w.rancher.befall = func(bool) error { return nil }
	first.step(t.Context())
	w.may(first, true)
}

// Of a virtual machine that was copied while it ran, one of two processes with the same name goes on.
func TestACopyOfARunningProcessIsNoticed(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	copied := w.start(site.copied())
	copied.name, copied.sent, copied.lease = first.name, slices.Clone(first.sent), first.lease
	close(copied.held)
	w.clock.Step(DefaultTiming().Renew)
	first.step(t.Context())
	w.clock.Step(time.Millisecond)
	if !copied.step(t.Context()) {
		t.Error("the copy goes on")
	}
	w.may(first, true)
	w.may(copied, false)
}

func TestNothingIsWrittenThatMayNot(t *testing.T) {
	w := newWorld(t)
	site, first := installed(w)
	first.May = func() error { return errors.New("frozen") }
	before := w.rancher.version
	w.pass(time.Minute, first)
	if w.rancher.version != before {
		t.Error("it was renewed")
	}
	next := w.start(site, func(o *Options) { o.May = first.May })
	w.pass(time.Hour, next)
	if w.rancher.version != before {
		t.Error("it was taken")
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	w := newWorld(t)
	delete(w.rancher.all, LeaseName(origin))
	s := w.start(newLeases())
	s.step(t.Context())
	if err := s.Ready(nil); err == nil || !strings.Contains(err.Error(), "role=rancher-side") || !strings.Contains(err.Error(), string(origin)) {
		t.Errorf("got %v", err)
	}
	hostile := strings.Repeat("x\n", 1000)
	w.rancher.put(&coordinationv1.Lease{ObjectMeta: resource(LeaseName(origin)).ObjectMeta, Spec: coordinationv1.LeaseSpec{HolderIdentity: &hostile}})
	s.step(t.Context())
	if text := s.Ready(nil).Error(); len(text) > 1000 || strings.Contains(text, "\n") {
		t.Errorf("got %q", text)
	}
}

func TestWritesAreRefusedWithoutTheSeat(t *testing.T) {
	w := newWorld(t)
	sent := 0
	s := w.start(newLeases())
	client := &http.Client{Transport: s.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))}
	ask := func(method string) error {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "https://rancher.example", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if err := ask(method); !errors.Is(err, ErrNotHeld) {
			t.Errorf("%s: got %v", method, err)
		}
	}
	if err := ask(http.MethodGet); err != nil || sent != 1 {
		t.Errorf("got %v, and %d requests", err, sent)
	}
	w.pass(DefaultTiming().Quiet, s)
	if err := ask(http.MethodPatch); err != nil {
		t.Error(err)
	}
	w.clock.Step(DefaultTiming().Fresh)
	if err := ask(http.MethodPatch); !errors.Is(err, ErrNotHeld) {
		t.Errorf("got %v", err)
	}
}

// The seat is given back when the last write has been answered.
func TestRunGivesBackWhenWritesHaveEnded(t *testing.T) {
	w := newWorld(t)
	_, first := installed(w)
	ctx, stop := context.WithCancel(t.Context())
	arrived, answer := make(chan struct{}), make(chan struct{})
	guarded := first.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		close(arrived)
		<-answer
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	written := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodDelete, "https://rancher.example", http.NoBody)
		if err == nil {
			var response *http.Response
			if response, err = guarded.RoundTrip(request); err == nil {
				err = response.Body.Close()
			}
		}
		written <- err
	}()
	<-arrived
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	stop()
	select {
	case err := <-ended:
		t.Fatalf("it ended during a write: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(answer)
	for _, err := range []error{<-written, <-ended} {
		if err != nil {
			t.Error(err)
		}
	}
	if left := sightOf(w.rancher.all[LeaseName(origin)]); !left.parked || left.holder != first.name {
		t.Errorf("got %v", left)
	}
}

// Whoever saw the seat without a holder, and not that somebody had it meanwhile, waits again.
func TestASeatIsEmptyAnew(t *testing.T) {
	w := newWorld(t)
	late := w.start(newLeases())
	late.step(t.Context())
	_, first := installed(w)
	w.rancher.put(resource(LeaseName(origin)))
	late.step(t.Context())
	w.oneAtMost(first, late)
	w.may(late, false)
}
