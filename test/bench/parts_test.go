package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDeadOnes(t *testing.T) {
	cases := map[string]struct {
		reason   string
		clusters int
		fraction float64
		want     map[int]bool
	}{
		"None":   {reason: "nothing is dead without a fraction", clusters: 10, fraction: 0, want: map[int]bool{}},
		"Tenth":  {reason: "every tenth, spread evenly", clusters: 20, fraction: 0.1, want: map[int]bool{9: true, 19: true}},
		"TooFew": {reason: "part of a cluster is none", clusters: 5, fraction: 0.1, want: map[int]bool{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, deadOnes(tc.clusters, tc.fraction)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLatencyOf(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Second
	}
	cases := map[string]struct {
		reason string
		each   []time.Duration
		want   Latency
	}{
		"Empty":   {reason: "nothing measured is no panic"},
		"One":     {reason: "one value is every percentile", each: []time.Duration{time.Second}, want: Latency{P50: 1, P95: 1, P99: 1, Max: 1}},
		"Hundred": {reason: "nearest rank, whatever the order", each: hundred, want: Latency{P50: 50, P95: 95, P99: 99, Max: 100}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, latencyOf(tc.each)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	const line = "42 (kube-apiserver.) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1 2 3\n"
	cases := map[string]struct {
		reason   string
		line     string
		parent   int
		wantName string
		want     usage
		wantErr  bool
	}{
		"Child":    {reason: "names are cut off by the kernel, times are in hundredths of a second", line: line, parent: 7, wantName: "kube-apiserver", want: usage{CPUSeconds: 3}},
		"Stranger": {reason: "programs of others do not count", line: line, parent: 8},
		"Other":    {reason: "a child that is no part of the benchmark does not count", line: "43 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 0", parent: 7, want: usage{CPUSeconds: 3}},
		"Garbage":  {reason: "what cannot be read is no zero", line: "42 kube", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, spent, err := parseStat([]byte(tc.line), tc.parent)
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantName, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, spent); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseStatus(t *testing.T) {
	cases := map[string]struct {
		reason string
		status string
		want   resident
	}{
		"Parts":   {reason: "KiB become MiB, and other lines do not matter", status: "Name:\tarchelon\nVmHWM:\t  2048 kB\nRssAnon:\t  1024 kB\nRssFile:\t   512 kB\n", want: resident{Peak: 2, Anon: 1, File: 0.5}},
		"Ended":   {reason: "a process that is about to go has no memory", status: "Name:\tarchelon\nState:\tZ (zombie)\n"},
		"Garbage": {reason: "a line without a value is no panic", status: "VmHWM:\nRssAnon"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, parseStatus([]byte(tc.status))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRatios(t *testing.T) {
	r := newReport(&options{Compare: true})
	for _, others := range []float64{0.5, 0.1, 0.3} {
		r.add(&Run{OthersCPUShare: others, Applied: Latency{P50: 1, P99: 10 * others}})
		r.add(&Run{OthersCPUShare: others + 0.1, BlackHoles: 1, Applied: Latency{P50: 1, P99: 30 * others}})
	}
	if diff := cmp.Diff(Latency{P50: 1, P99: 3}, r.Ratios.Applied, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("the calmest run with black holes by the calmest without: -want, +got:\n%s", diff)
	}
}
