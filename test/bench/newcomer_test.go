package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestTurn(t *testing.T) {
	o := &options{Clusters: 3, Namespaces: 1, Newcomer: true}
	began := time.Now()
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	r := &run{recorder: newRecorder(append(crowdOf(o, nil), loners(o)...))}
	r.recorder.chosen("bench-00", began)
	r.recorder.chosen(newcomerName, after(10))
	r.recorder.chosen(aloneName, after(100))
	// The newcomer comes 30 s after the first label, and 20 s after its own; the second of the crowd at the same moment.
	moments := map[string]time.Time{
		"c-0000": after(20), "c-0001": after(30), "c-0002": after(40), newcomerName: after(30), aloneName: after(105),
	}
	want := Turn{Newcomer: 20, Alone: 5, CrowdP50: 40, CrowdP99: 80, ByCrowd: 0.5, ByAlone: 4, Before: 1}
	if diff := cmp.Diff(want, r.turn(moments, Latency{P50: 40, P99: 80}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("each latency counts from its own label, and only the crowd comes before: -want, +got:\n%s", diff)
	}
}

func TestFinished(t *testing.T) {
	o := &options{Clusters: 2, Namespaces: 1, Newcomer: true}
	r := newRecorder(append(crowdOf(o, map[int]bool{1: true}), loners(o)...))
	r.chosen("bench-00", time.Now())
	r.conditions["c-0000"], r.applied["c-0000"] = imported, time.Now()
	if r.finished() {
		t.Error("a black hole that was never looked at does not count as done")
	}
	r.conditions["c-0001"] = "False/Waiting"
	if !r.finished() {
		t.Error("clusters that are not selected hold the end up")
	}
	r.chosen(newcomerName, time.Now())
	if r.finished() {
		t.Error("a newcomer that is selected is waited for")
	}
}
