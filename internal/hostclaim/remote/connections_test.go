package remote

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
)

// lineTo returns a connection with sources a, b and so on, that has been heard of.
func lineTo(sources int) (*connection, *[]string) {
	woken := &[]string{}
	all := &Connections{wake: func(source types.NamespacedName, after time.Duration) {
		*woken = append(*woken, fmt.Sprint(source.Name, " ", after))
	}}
	c := &connection{
		all: all, users: map[string]user{}, restart: func() { *woken = append(*woken, "restart") },
		heard: map[schema.GroupVersionResource]error{claims(): nil, secrets(): nil},
	}
	for i := range sources {
		name := string(rune('a' + i))
		c.users["origin-"+name] = newUser(types.NamespacedName{Name: name})
	}
	return c, woken
}

// A cluster with too many objects answers each time that it is asked for them. Its sources are told once in a while.
func TestTooManyObjectsStand(t *testing.T) {
	problem := &outcome.Problem{Reason: archelonv1.WorkloadServerErrorReason, Message: "there are more than 10000"}
	c, woken := lineTo(1)
	pause, again := c.ended(fmt.Errorf("%w: %w", workload.ErrFollowsTooMuch, problem))
	if pause != pauseMax || !again {
		t.Errorf("it is followed again: %t, after %s", again, pause)
	}
	if is := problemOf(c.ready()); is == nil || is.Message != problem.Message || len(*woken) != 1 {
		t.Errorf("the source is told %+v, and was woken %v", is, *woken)
	}
	if _, again := c.ended(problem); again {
		t.Error("a kubeconfig that cannot be used is used again")
	}
	if pause, again := c.ended(nil); pause != pauseBase || !again {
		t.Errorf("it is followed again: %t, after %s", again, pause)
	}
}

// A cluster that changes what it has without end wakes its source once in a while.
func TestWakesAreBounded(t *testing.T) {
	c, woken := lineTo(2)
	for range 1000 {
		c.changed("origin-a")
	}
	c.changed("origin-b")
	c.changed("origin-of-somebody-else")
	at, later := 0, 0
	for _, text := range *woken {
		switch text {
		case "a 0s":
			at++
		case "a 1s":
			later++
		case "b 0s":
		default:
			t.Errorf("it woke %s", text)
		}
	}
	if at > 30 || at+later != 1000 || (*woken)[len(*woken)-1] != "b 0s" {
		t.Errorf("it was woken %d times at once, and %d times later", at, later)
	}
}

// What one request finds out holds for all sources, until the cluster was followed anew.
func TestWhatDoesNotAnswerIsNotAsked(t *testing.T) {
	silence := &outcome.Problem{Kind: outcome.KindFail, Reason: archelonv1.WorkloadTimeoutReason, Message: "silence"}
	c, woken := lineTo(2)
	if err := c.ready(); err != nil {
		t.Fatal(err)
	}
	c.leave(fmt.Errorf("getting it: %w", silence))
	if len(*woken) != 3 || (*woken)[0] != "restart" {
		t.Errorf("it woke %v", *woken)
	}
	if err := c.ready(); !errors.Is(err, silence) {
		t.Errorf("got %v", err)
	}
	before := c.pause()
	c.failures = 30
	if after := c.pause(); before != pauseBase || after != pauseMax {
		t.Errorf("it pauses %s, and then %s", before, after)
	}
	// As run does when it follows the cluster again.
	c.broken = nil
	clear(c.heard)
	*woken = nil
	if problem := problemOf(c.ready()); problem == nil || problem.Reason != "RemoteConnecting" {
		t.Errorf("got %v", problem)
	}
	c.answered(claims(), nil)
	c.answered(secrets(), silence)
	if err := c.ready(); !errors.Is(err, silence) {
		t.Errorf("got %v", err)
	}
	*woken = nil
	c.answered(secrets(), nil)
	c.answered(secrets(), nil)
	if err := c.ready(); err != nil || len(*woken) != 2 {
		t.Errorf("got %v, it woke %v", err, *woken)
	}
	c.leave(nil)
	if c.failures != 0 {
		t.Errorf("%d failures are left", c.failures)
	}
}

// Other failures are those of one source.
func TestOtherFailuresAreOfOneSource(t *testing.T) {
	for _, reason := range []string{archelonv1.WorkloadForbiddenReason, archelonv1.WorkloadServerErrorReason} {
		c, woken := lineTo(2)
		if err := c.ready(); err != nil {
			t.Fatal(err)
		}
		c.leave(&outcome.Problem{Reason: reason})
		if err := c.ready(); err != nil || len(*woken) > 0 {
			t.Errorf("%s: got %v, it woke %v", reason, err, *woken)
		}
	}
}
