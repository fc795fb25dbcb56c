package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/archelon-io/archelon/test/builder"
)

func TestCheck(t *testing.T) {
	settled := func(change func(*Run)) *Run {
		run := &Run{
			Rancher: rancherLight, Clusters: 1000, PeakMiB: 140, Anew: &Anew{PeakMiB: 145},
			Management: Counts{PerImport: 8}, Workload: Counts{PerImport: 12}, Downloads: Counts{PerImport: 1},
			AppliedSeconds: 20, Processes: map[string]usage{"archelon": {CPUSeconds: 12}},
		}
		change(run)
		return run
	}
	large := func(change func(*Run)) []*Run {
		return []*Run{settled(func(*Run) {}), settled(func(run *Run) {
			run.Clusters, run.AppliedSeconds, run.Processes = 10000, 250, map[string]usage{"archelon": {CPUSeconds: 150}}
			change(run)
		})}
	}
	cases := map[string]struct {
		reason   string
		runs     []*Run
		profiles string
		broken   bool
	}{
		"Good":        {reason: "everything is within its bounds", runs: []*Run{settled(func(*Run) {})}},
		"Requests":    {reason: "an import costs more", runs: []*Run{settled(func(run *Run) { run.Management.PerImport = 8.1 })}, broken: true},
		"RequestsV1":  {reason: "one more for the v3 Cluster", runs: []*Run{settled(func(run *Run) { run.Strategy, run.Management.PerImport = "v1", 9 })}},
		"SlowAgents":  {reason: "some are looked at", runs: []*Run{settled(func(run *Run) { run.AgentDelaySeconds, run.Management.PerImport = 100, 9 })}},
		"Memory":      {reason: "the first start takes too much", runs: []*Run{settled(func(run *Run) { run.PeakMiB = 151 })}, broken: true},
		"MemoryAnew":  {reason: "the second start takes too much", runs: []*Run{settled(func(run *Run) { run.Anew.PeakMiB = 151 })}, broken: true},
		"Profiled":    {reason: "profiling takes memory itself", runs: []*Run{settled(func(run *Run) { run.PeakMiB = 151 })}, profiles: "dir"},
		"Writes":      {reason: "a start anew writes", runs: []*Run{settled(func(run *Run) { run.Anew.Start.Writes = 1 })}, broken: true},
		"Settled":     {reason: "a settled manager writes", runs: []*Run{settled(func(run *Run) { run.Anew.Settled.Writes = 1 })}, broken: true},
		"BlackHoles":  {reason: "black holes cost further requests", runs: []*Run{settled(func(run *Run) { run.BlackHoles, run.Management.PerImport = 1, 20 })}},
		"Large":       {reason: "a quarter more is flat enough", runs: large(func(*Run) {})},
		"LargeMemory": {reason: "10,000 clusters may take more", runs: large(func(run *Run) { run.PeakMiB = 390 })},
		"Slower":      {reason: "each of many takes longer", runs: large(func(run *Run) { run.AppliedSeconds = 270 }), broken: true},
		"Disturbed":   {reason: "others took the machine, so the time says nothing", runs: large(func(run *Run) { run.AppliedSeconds, run.OthersCPUShare = 270, 0.2 })},
		"Dearer": {reason: "each of many takes more CPU time", broken: true, runs: large(func(run *Run) {
			run.OthersCPUShare, run.Processes = 0.2, map[string]usage{"archelon": {CPUSeconds: 160}}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newReport(&options{Profiles: tc.profiles})
			for _, run := range tc.runs {
				r.add(run)
			}
			var out strings.Builder
			err := r.check(&out)
			if errors.Is(err, errBounds) != tc.broken || strings.Contains(out.String(), "BROKEN") != tc.broken {
				t.Errorf("%s: check() = %v, want broken %t:\n%s", tc.reason, err, tc.broken, &out)
			}
			r.markdown(io.Discard)
		})
	}
}

func TestRunsOf(t *testing.T) {
	type sizes struct{ Clusters, Dead, Compared int }
	cases := map[string]struct {
		reason string
		args   func(*options)
		want   []sizes
	}{
		"Small":    {reason: "there is nothing to compare with", args: func(*options) {}, want: []sizes{{300, 0, 0}}},
		"Large":    {reason: "fewer come first", args: func(o *options) { o.Clusters = 3000 }, want: []sizes{{1000, 0, 0}, {3000, 0, 0}}},
		"Alone":    {reason: "the baseline can be left out", args: func(o *options) { o.Clusters, o.Baseline = 3000, 0 }, want: []sizes{{3000, 0, 0}}},
		"Compared": {reason: "a pair of runs, over the same clusters", args: func(o *options) { o.BlackHoles, o.Compare = 0.1, true }, want: []sizes{{300, 0, 30}, {300, 30, 30}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			tc.args(o)
			if err := o.validate(nil); err != nil {
				t.Fatal(err)
			}
			dead := func(members []member) (count int) {
				for _, m := range members {
					if m.dead {
						count++
					}
				}
				return count
			}
			var got []sizes
			for _, r := range runsOf(o) {
				got = append(got, sizes{len(r.members), dead(r.members), dead(r.compared)})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	for clusters, want := range map[int]time.Duration{300: 10 * time.Minute, 10000: 2000 * time.Second} {
		o := defaultOptions()
		o.Clusters = clusters
		if err := o.validate(nil); err != nil || o.Timeout != want {
			t.Errorf("%d clusters: timeout %s, %v, want %s", clusters, o.Timeout, err, want)
		}
	}
}

// The Secrets of a cluster are those that real ones have, by number, size, label and type.
func TestSecretsOf(t *testing.T) {
	cluster := builder.Cluster("tenant", "prod")
	cluster.UID = "uid-1"
	kubeconfig := []byte("kubeconfig")
	got := map[string]int{}
	for _, secret := range secretsOf(cluster, kubeconfig, 4) {
		for _, value := range secret.Data {
			got[secret.Name] += len(value)
		}
		if secret.Labels["cluster.x-k8s.io/cluster-name"] != "prod" || secret.Type != "cluster.x-k8s.io/secret" || len(secret.OwnerReferences) == 0 {
			t.Errorf("Secret %s is none of CAPI's: %v, %s, %v", secret.Name, secret.Labels, secret.Type, secret.OwnerReferences)
		}
	}
	format := len("cloud-config")
	want := map[string]int{
		"prod-kubeconfig": len(kubeconfig), "prod-ca": 2775, "prod-etcd": 2775, "prod-proxy": 2775, "prod-sa": 2126,
		"prod-control-plane-00000": 8192 + format, "prod-control-plane-00001": 8192 + format, "prod-control-plane-00002": 8192 + format,
		"prod-md-0-fcbkd-00003": 3072 + format,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bytes by Secret: -want, +got:\n%s", diff)
	}
}
