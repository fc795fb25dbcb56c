// Package outcome is the vocabulary in which phases of a reconciler say how they ended:
// why they stopped and who wakes them. One function turns it into what controller-runtime
// expects.
package outcome

import (
	"errors"
	"regexp"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/providers/capi/problem"
)

// Kind says who moves the object on.
type Kind = problem.Kind

// The kinds of outcomes, which those of problems are.
const (
	KindDone  = problem.KindDone
	KindWait  = problem.KindWait
	KindPoll  = problem.KindPoll
	KindStall = problem.KindStall
	KindFail  = problem.KindFail
)

// Problem is an error that knows the outcome it stands for.
type Problem = problem.Problem

// Outcome is how a phase ended. The zero value is Done.
type Outcome struct {
	// Kind says who moves the object on.
	Kind Kind
	// Reason is a CamelCase condition reason; empty for Done, unless what was done has not had its effect yet.
	Reason string
	// Message tells a person what is going on and what to do. It is stable between runs and holds no secret.
	Message string
	// After is the delay of a Poll, and that of a Done which stands for a time.
	After time.Duration
	// Err is the cause of a Fail or a Stall. It is logged, so it must hold no secret.
	Err error
}

// Done is a phase that has nothing left to do.
func Done() Outcome { return Outcome{} }

// DoneFor is a phase that has nothing left to do for the time being; the object is looked at
// again after the given delay.
func DoneFor(after time.Duration) Outcome { return Outcome{After: after} }

// Wait is a stop that a watch ends.
func Wait(reason, message string) Outcome {
	return Outcome{Kind: KindWait, Reason: reason, Message: message}
}

// Poll is a stop that no watch can end; the object is looked at again after the given delay.
func Poll(reason, message string, after time.Duration) Outcome {
	return Outcome{Kind: KindPoll, Reason: reason, Message: message, After: after}
}

// Stall is a stop that only a change made by a person ends.
func Stall(reason, message string) Outcome {
	return Outcome{Kind: KindStall, Reason: reason, Message: message}
}

// Fail is a failure that is retried with the backoff of the queue.
func Fail(reason string, err error) Outcome {
	return Outcome{Kind: KindFail, Reason: reason, Message: Sentence(steady(err.Error())), Err: err}
}

// Sentence makes of an error of Go what a message begins with.
func Sentence(text string) string { return problem.Sentence(text) }

// volatile is what Go's errors hold that is another with each try: the local address of a connection, and the time.
var volatile = regexp.MustCompile(`(?:\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?\]|[0-9.]+):[0-9]+->|(current time) [0-9]{4}-[0-9T:.+Z-]+`)

// steady takes out of a text what would make it another one after the next try.
func steady(text string) string {
	if !strings.Contains(text, "->") && !strings.Contains(text, "current time ") {
		return text // Most are, and the expression is slow.
	}
	return volatile.ReplaceAllString(text, "$1")
}

// IsDone reports whether the next phase may run.
func (o Outcome) IsDone() bool { return o.Kind == KindDone }

// Result converts the outcome to what a reconciler returns to controller-runtime: an error
// for Fail (the queue backs off), a delay for Poll and for a Done that has one, nothing for the others.
func (o Outcome) Result() (ctrl.Result, error) {
	switch o.Kind {
	case KindFail:
		return ctrl.Result{}, o.Err
	case KindDone, KindPoll:
		return ctrl.Result{RequeueAfter: o.After}, nil
	default:
		return ctrl.Result{}, nil
	}
}

// FromError turns an error into an outcome: the one that a Problem in its chain stands for,
// else Fail with the given reason. A nil error is Done.
func FromError(err error, reason string) Outcome {
	if err == nil {
		return Done()
	}
	var p *Problem
	if !errors.As(err, &p) {
		return Fail(reason, err)
	}
	return Outcome{Kind: p.Kind, Reason: p.Reason, Message: Sentence(steady(p.Error())), After: p.After, Err: err}
}
