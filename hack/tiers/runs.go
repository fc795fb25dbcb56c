package main

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// runs are the targets that were run.
type runs struct {
	// out is for what the first of several lanes prints, at once, and for what the others print, target by target.
	out io.Writer
	// run runs a command, and returns the processor time that it used.
	run func(out io.Writer, command ...string) (time.Duration, error)

	mu     sync.Mutex
	tiers  []timed
	failed error
}

// nice begins a lane that has what time of processors the others leave.
const nice = "nice"

// together runs the lanes of an argument beside each other, and the targets of a lane one after the other. Once a
// target has failed, those that run come to their end, and no other begins.
func (r *runs) together(lanes string) {
	var others sync.WaitGroup
	first, rest, _ := strings.Cut(lanes, "+")
	for lane := range strings.SplitSeq(rest, "+") {
		others.Go(func() {
			for target, command := range targets(lane) {
				said := &bytes.Buffer{}
				_, _ = fmt.Fprintf(said, "\nmake %s, beside the above:\n", target)
				if r.one(target, command, said) {
					_, _ = said.WriteTo(r.out)
				}
			}
		})
	}
	for target, command := range targets(first) {
		r.one(target, command, r.out)
	}
	others.Wait()
}

// targets returns the targets of a lane, and the command that makes each.
func targets(lane string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		command := []string{"make", "--no-print-directory"}
		for word := range strings.FieldsSeq(lane) {
			if word == nice {
				command = append([]string{nice}, command...)
			} else if !yield(word, append(slices.Clip(command), word)) {
				return
			}
		}
	}
}

// one runs a target by a command, unless one has failed, and reports whether it did.
func (r *runs) one(target string, command []string, out io.Writer) bool {
	if r.hasFailed() {
		return false
	}
	began := time.Now()
	used, err := r.run(out, command...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tiers = append(r.tiers, timed{time.Since(began), used, target})
	if err != nil && r.failed == nil {
		r.failed = fmt.Errorf("make %s: %w", target, err)
	}
	return true
}

func (r *runs) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != nil
}
