// Package problem has the error that tells what is wrong with the access to a workload cluster, and what to do about
// it. Packages kubeconfig, connection and capi return it:
//
//	if p, ok := errors.AsType[*problem.Problem](err); ok {
//		log.Info("The cluster cannot be used", "reason", p.Reason, "message", p.Message)
//	}
//
// A Problem quotes neither credentials nor text that a workload cluster sent, so it may be shown to everybody who may
// see the Cluster.
package problem

import (
	"fmt"
	"strings"
	"time"
)

// Kind says what ends a state.
type Kind int

const (
	// KindDone is no problem: there is nothing left to do.
	KindDone Kind = iota
	// KindWait is a wait for an event that a watch delivers. It schedules nothing.
	KindWait
	// KindPoll is a wait for something that cannot be watched; it is looked at again after a while.
	KindPoll
	// KindStall is a state that only a person, or a change of the object, can end. It is not retried.
	KindStall
	// KindFail is a failure that is expected to pass; it is retried with a backoff.
	KindFail
)

// String returns the name of the kind as it appears in logs and metrics.
func (k Kind) String() string {
	return [...]string{"Done", "Wait", "Poll", "Stall", "Fail"}[k]
}

// Problem is an error with a name, which says what ends it.
type Problem struct {
	// Kind is KindWait, KindPoll, KindStall or KindFail.
	Kind Kind
	// Reason names it in one word, as the reason of a condition does.
	Reason string
	// Message says what is wrong and what to do, without secrets.
	Message string
	// After is the delay of a Poll.
	After time.Duration
	// Err is the cause, without secrets; it may be nil.
	Err error
}

// Error returns the message, and the cause where there is one.
func (p *Problem) Error() string {
	if p.Err == nil {
		return p.Message
	}
	return p.Message + ": " + p.Err.Error()
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Wait returns a Problem that a change ends which a watch delivers, such as another kubeconfig.
func Wait(reason, format string, args ...any) *Problem {
	return &Problem{Kind: KindWait, Reason: reason, Message: Sentence(fmt.Sprintf(format, args...))}
}

// Fail returns a Problem that only another try can end.
func Fail(reason, format string, args ...any) *Problem {
	return &Problem{Kind: KindFail, Reason: reason, Message: Sentence(fmt.Sprintf(format, args...))}
}

// Sentence makes of an error of Go what a message begins with: its first word gets a capital letter, unless it is a
// name, such as that of a field or a file.
func Sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if word == "" || strings.ContainsFunc(strings.TrimSuffix(word, ":"), func(r rune) bool { return r < 'a' || r > 'z' }) {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
