package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/archelon-io/archelon/internal/outcome"
)

var jobKey = types.NamespacedName{Namespace: "ns", Name: "c"}

// startJobs runs jobs in a bubble of fake time.
func startJobs(t *testing.T, parallel int) *jobs {
	t.Helper()
	j := newJobs(parallel, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runJobs(ctx, t, j)
	}()
	synctest.Wait()
	t.Cleanup(func() { cancel(); <-done })
	return j
}

// runJobs runs the controller of jobs without a manager, until the context ends.
func runJobs(ctx context.Context, t *testing.T, j *jobs) {
	t.Helper()
	options := j.options()
	options.Reconciler, options.SkipNameValidation = j, new(true)
	c, err := controller.NewUnmanaged(agentControllerName, options)
	if err == nil {
		err = errors.Join(c.Watch(source.Func(j.serve)), c.Start(ctx))
	}
	if err != nil {
		t.Error(err)
	}
}

// settle waits until a job ended and takes its event.
func settle(t *testing.T, j *jobs) {
	t.Helper()
	var ended event.GenericEvent
	select {
	case ended = <-j.ended:
	case <-time.After(time.Hour): // fake time
		t.Fatal("no job has ended")
	}
	if ended.Object.GetName() != jobKey.Name || ended.Object.GetNamespace() != jobKey.Namespace {
		t.Fatalf("got an event for %v, want %v", ended.Object, jobKey)
	}
}

func TestJobsRunOnceForAnInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 1)
		runs := 0
		do := func(input string) (outcome.Outcome, bool) {
			return j.Do(jobKey, input, func(context.Context) outcome.Outcome { runs++; return outcome.Done() })
		}
		if _, ended := do("a"); ended {
			t.Fatal("a job that was only just started cannot have ended")
		}
		settle(t, j)
		for range 3 {
			if out, ended := do("a"); !ended || !out.IsDone() {
				t.Fatalf("got %+v, %t, want the result of the job", out, ended)
			}
		}
		if runs != 1 {
			t.Fatalf("the work ran %d times for one input, want 1", runs)
		}
		do("b")
		settle(t, j)
		if runs != 2 {
			t.Fatalf("the work ran %d times for two inputs, want 2", runs)
		}
	})
}

// An agent that was only just installed is the one whose workload cluster may still be lost or replaced.
func TestJobsAreRepeatedLaterEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 1)
		runs := 0
		do := func(input string) (outcome.Outcome, bool) {
			return j.Do(jobKey, input, func(ctx context.Context) outcome.Outcome {
				runs++
				if input == "slow" {
					<-ctx.Done()
				}
				return outcome.Done()
			})
		}
		var delays []time.Duration
		for i := range 7 {
			do("a")
			settle(t, j)
			out, ended := do("a")
			if !ended || !out.IsDone() || runs != i+1 {
				t.Fatalf("got %+v, %t after %d runs, want the result of run %d", out, ended, runs, i+1)
			}
			delays = append(delays, out.After)
			time.Sleep(out.After - time.Nanosecond) //nolint:forbidigo // fake time
			if _, ended := do("a"); !ended {
				t.Fatalf("run %d began before its time", i+2)
			}
			time.Sleep(time.Nanosecond) //nolint:forbidigo // fake time
		}
		want := []time.Duration{
			30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
		}
		if !slices.Equal(delays, want) {
			t.Errorf("got delays %v, want %v", delays, want)
		}
		for _, restart := range []struct {
			name string
			with func() string
		}{
			{"a changed input", func() string { return "b" }},
			{"an input that changed under way", func() string {
				time.Sleep(jobDelayMax) //nolint:forbidigo // fake time
				do("slow")
				synctest.Wait()
				do("c")
				settle(t, j)
				return "c"
			}},
			{"Forget", func() string { j.Forget(jobKey); return "c" }},
		} {
			input := restart.with()
			do(input)
			settle(t, j)
			if out, _ := do(input); out.After != jobRecheckBase {
				t.Errorf("got a delay of %v after %s, want %v", out.After, restart.name, jobRecheckBase)
			}
		}
	})
}

func TestJobsBackOffAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 1)
		runs := 0
		do := func(input string) (outcome.Outcome, bool) {
			return j.Do(jobKey, input, func(context.Context) outcome.Outcome {
				runs++
				return outcome.Fail("Broken", errors.New("broken"))
			})
		}
		var delays []time.Duration
		for range 12 {
			do("a")
			settle(t, j)
			out, ended := do("a")
			if !ended || out.Kind != outcome.KindFail || out.After <= 0 {
				t.Fatalf("got %+v, %t, want the failure and when it is tried again", out, ended)
			}
			delays = append(delays, out.After)
			time.Sleep(out.After) //nolint:forbidigo // fake time
		}
		if delays[0] != time.Second || delays[1] != 2*time.Second || delays[11] != 5*time.Minute {
			t.Errorf("got delays %v, want them to double from 1 s to 5 min", delays)
		}
		before := runs
		do("fixed")
		settle(t, j)
		if out, _ := do("fixed"); runs != before+1 || out.After != time.Second {
			t.Errorf("a changed input must be tried at once and start the backoff anew, got %d runs and %v", runs-before, out.After)
		}
	})
}

// What polls for ever, as for a clean-up that cannot end, costs less and less.
func TestJobsPollLaterEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 1)
		do := func(input, reason string, after time.Duration) time.Duration {
			t.Helper()
			work := func(context.Context) outcome.Outcome { return outcome.Poll(reason, "m", after) }
			j.Do(jobKey, input, work)
			settle(t, j)
			out, ended := j.Do(jobKey, input, work)
			if !ended || out.Kind != outcome.KindPoll {
				t.Fatalf("got %+v, %t, want the poll", out, ended)
			}
			return out.After
		}
		next := func(input, reason string, after time.Duration) time.Duration {
			t.Helper()
			delay := do(input, reason, after)
			time.Sleep(delay) //nolint:forbidigo // fake time
			return delay
		}
		var delays []time.Duration
		for range 10 {
			delays = append(delays, next("a", "WaitingForCleanup", 8*time.Second))
		}
		want := []time.Duration{
			8 * time.Second, 12 * time.Second, 18 * time.Second, 27 * time.Second, 40500 * time.Millisecond,
			time.Minute, time.Minute, time.Minute, time.Minute, time.Minute,
		}
		if !slices.Equal(delays, want) {
			t.Errorf("got delays %v, want %v", delays, want)
		}
		if got := next("a", "KubeconfigMissing", 8*time.Second); got != 8*time.Second {
			t.Errorf("got a delay of %v for another reason, want the first one", got)
		}
		next("a", "KubeconfigMissing", 8*time.Second)
		if got := next("b", "KubeconfigMissing", 8*time.Second); got != 8*time.Second {
			t.Errorf("got a delay of %v for another input, want the first one", got)
		}
		if got := next("b", "KubeconfigMissing", 2*time.Minute); got != 2*time.Minute {
			t.Errorf("got a delay of %v, want what was asked for", got)
		}
		do("b", "KubeconfigMissing", 8*time.Second)
		j.Forget(jobKey)
		if len(j.polls) != 0 {
			t.Errorf("%d polls are remembered, want none", len(j.polls))
		}
	})
}

// A panic in one cluster's job is that cluster's failure, with the place of the job given back.
func TestJobsSurviveAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled []any
		before := utilruntime.PanicHandlers
		utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, cause any) { handled = append(handled, cause) }}
		t.Cleanup(func() { utilruntime.PanicHandlers = before })
		j := startJobs(t, 1)
		work := func(context.Context) outcome.Outcome { panic("secret") }
		j.Do(jobKey, "a", work)
		settle(t, j)
		synctest.Wait()
		out, ended := j.Do(jobKey, "a", work)
		if !ended || out.Kind != outcome.KindFail || out.Reason != "InternalError" || out.After != jobBackoffBase {
			t.Fatalf("got %+v, %t, want a failure that is tried again", out, ended)
		}
		if strings.Contains(out.Message, "secret") || len(handled) != 1 {
			t.Errorf("got %q and %d panics handled, want one that is logged and not told", out.Message, len(handled))
		}
		j.Do(jobKey, "b", func(context.Context) outcome.Outcome { return outcome.Done() })
		settle(t, j)
		if out, ended := j.Do(jobKey, "b", nil); !ended || !out.IsDone() {
			t.Errorf("got %+v, %t, want the only slot to be free again", out, ended)
		}
	})
}

func TestJobsDoNotRunBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 10)
		running, most := 0, 0
		work := func(ctx context.Context) outcome.Outcome {
			running++
			most = max(most, running)
			<-ctx.Done()
			running--
			return outcome.Fail("Stopped", ctx.Err())
		}
		j.Do(jobKey, "a", work)
		synctest.Wait()
		// A changed input cancels the job, and the next call after its end starts anew.
		if _, ended := j.Do(jobKey, "b", work); ended {
			t.Fatal("a running job has no result")
		}
		settle(t, j)
		if _, ended := j.Do(jobKey, "b", work); ended {
			t.Fatal("the result of a cancelled job must not be used")
		}
		synctest.Wait()
		// So does Forget.
		j.Forget(jobKey)
		j.Do(jobKey, "b", work)
		settle(t, j)
		if most != 1 {
			t.Errorf("%d jobs ran at the same time for one cluster, want 1", most)
		}
		if len(j.entries) != 0 {
			t.Errorf("got %d entries after Forget, want none", len(j.entries))
		}
	})
}

func TestJobsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 2)
		release := make(chan struct{})
		var running atomic.Int32
		for _, name := range []string{"a", "b", "c"} {
			key := types.NamespacedName{Name: name}
			j.Do(key, "", func(context.Context) outcome.Outcome {
				running.Add(1)
				<-release
				running.Add(-1)
				return outcome.Done()
			})
		}
		synctest.Wait()
		if got := running.Load(); got != 2 {
			t.Errorf("got %d jobs at the same time, want 2", got)
		}
		close(release)
		for range 3 {
			<-j.ended
		}
	})
}

// What waits for a worker can be asked for anew, and costs nobody anything when it is forgotten.
func TestJobsThatHaveNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 1)
		release := make(chan struct{})
		j.Do(types.NamespacedName{Namespace: "ns", Name: "other"}, "", func(context.Context) outcome.Outcome { <-release; return outcome.Done() })
		synctest.Wait()
		var ran []string
		ask := func(name, input string) {
			j.Do(types.NamespacedName{Namespace: "ns", Name: name}, input, func(context.Context) outcome.Outcome {
				ran = append(ran, name+"/"+input)
				return outcome.Done()
			})
		}
		forgotten := types.NamespacedName{Namespace: "ns", Name: "forgotten"}
		ask(forgotten.Name, "a")
		ask(jobKey.Name, "a")
		ask(jobKey.Name, "b")
		if !j.Running(forgotten) || !j.Running(jobKey) {
			t.Error("work that was asked for has ended before it began")
		}
		if j.Forget(forgotten); j.Running(forgotten) {
			t.Error("work that was forgotten before it began is waited for")
		}
		close(release)
		<-j.ended
		settle(t, j)
		synctest.Wait()
		if !slices.Equal(ran, []string{"c/b"}) {
			t.Errorf("what has run is %v, want c with its last input", ran)
		}
	})
}

func TestJobsWaitForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJobs(1, clock.RealClock{})
		started := false
		work := func(context.Context) outcome.Outcome {
			if !started {
				t.Error("the work ran without leadership")
			}
			return outcome.Done()
		}
		if _, ended := j.Do(jobKey, "", work); ended {
			t.Error("there is no result without a run")
		}
		started = true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go runJobs(ctx, t, j)
		// What was asked for too early is done.
		settle(t, j)
		if _, ended := j.Do(jobKey, "", work); !ended {
			t.Error("the work did not run after Start")
		}
	})
}

// A job that is asked for while everything ends is waited for, or never started.
func TestJobsEndTogether(t *testing.T) {
	for range 20 {
		j := newJobs(10, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		var running atomic.Int32
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for i := 0; ctx.Err() == nil; i++ {
				key := types.NamespacedName{Namespace: "ns", Name: strconv.Itoa(i % 100)}
				j.Do(key, strconv.Itoa(i), func(context.Context) outcome.Outcome {
					running.Add(1)
					defer running.Add(-1)
					return outcome.Done()
				})
			}
		}()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runJobs(ctx, t, j)
		}()
		<-j.ended
		cancel()
		<-ended
		if left := running.Load(); left != 0 {
			t.Fatalf("%d jobs run although Start has returned", left)
		}
		<-asked
	}
}

// crowdOfJobs starts jobs of one namespace that end when they are told, and returns how many run.
func crowdOfJobs(j *jobs, n int, end chan struct{}) *atomic.Int32 {
	running := &atomic.Int32{}
	for i := range n {
		key := types.NamespacedName{Namespace: "crowd", Name: fmt.Sprint(i)}
		j.Do(key, "input", func(context.Context) outcome.Outcome {
			running.Add(1)
			<-end
			return outcome.Done()
		})
	}
	synctest.Wait()
	return running
}

func TestJobsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := startJobs(t, 10)
		end := make(chan struct{})
		running := crowdOfJobs(j, 30, end)
		if n := running.Load(); n != 9 {
			t.Fatalf("%d jobs of one namespace run in 10 slots, want 9", n)
		}
		// Nobody of the crowd has ended yet.
		j.Do(jobKey, "input", func(context.Context) outcome.Outcome { return outcome.Done() })
		settle(t, j)
		go func() {
			for range j.ended { // Taken so that no job waits for it.
			}
		}()
		close(end)
		synctest.Wait()
		if n := running.Load(); n != 30 {
			t.Errorf("%d jobs have run, want all 30", n)
		}
		close(j.ended)
		j.ended = nil
	})
}
