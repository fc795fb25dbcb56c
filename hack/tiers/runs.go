package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// runs are the targets that were run.
type runs struct {
	// out is for what the first of several lanes prints, at once, and for what the others print, target by target.
	out io.Writer
	// run runs a target, and returns the processor time that it used.
	run func(target string, out io.Writer) (time.Duration, error)

	mu     sync.Mutex
	tiers  []timed
	failed error
}

// together runs the lanes of an argument beside each other, and the targets of a lane one after the other. Once a
// target has failed, those that run come to their end, and no other begins.
func (r *runs) together(lanes string) {
	var others sync.WaitGroup
	first, rest, _ := strings.Cut(lanes, "+")
	for lane := range strings.SplitSeq(rest, "+") {
		others.Go(func() {
			for target := range strings.FieldsSeq(lane) {
				said := &bytes.Buffer{}
				_, _ = fmt.Fprintf(said, "\nmake %s, beside the above:\n", target)
				if r.one(target, said) {
					_, _ = said.WriteTo(r.out)
				}
			}
		})
	}
	for target := range strings.FieldsSeq(first) {
		r.one(target, r.out)
	}
	others.Wait()
}

// one runs a target, unless one has failed, and reports whether it did.
func (r *runs) one(target string, out io.Writer) bool {
	if r.hasFailed() {
		return false
	}
	began := time.Now()
	used, err := r.run(target, out)
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
