package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	managers "github.com/archelon-io/archelon/internal/options"
)

// The time limit for the imports of one run: that of a small one, and what each of many clusters adds to it.
const (
	minTimeout  = 10 * time.Minute
	timeoutEach = 200 * time.Millisecond
)

// options say what to measure.
type options struct {
	Clusters    int           `json:"clusters"`
	Baseline    int           `json:"baseline"`
	Machines    int           `json:"machines"`
	Namespaces  int           `json:"namespaces"`
	Strategy    string        `json:"strategy"`
	Rancher     string        `json:"rancher"`
	BlackHoles  float64       `json:"blackHoles"`
	Compare     bool          `json:"compare"`
	Newcomer    bool          `json:"newcomer"`
	Floor       bool          `json:"floor,omitempty"`
	Scope       int           `json:"scope,omitempty"`
	Hostile     time.Duration `json:"-"`
	Identity    bool          `json:"-"`
	Fleet       bool          `json:"-"`
	HostClaim   bool          `json:"-"`
	Restart     bool          `json:"restart"`
	Runs        int           `json:"runs"`
	Pace        time.Duration `json:"paceNanoseconds,omitempty"`
	Prepares    time.Duration `json:"preparesNanoseconds,omitempty"`
	Distance    time.Duration `json:"distanceNanoseconds,omitempty"`
	AgentDelay  time.Duration `json:"agentDelayNanoseconds"`
	SyncPeriod  time.Duration `json:"syncPeriodNanoseconds"`
	Idle        time.Duration `json:"idleNanoseconds"`
	Concurrency int           `json:"concurrency,omitempty"`
	Manager     string        `json:"manager,omitempty"`
	ManagerArgs []string      `json:"managerArgs,omitempty"`
	Settle      time.Duration `json:"settleNanoseconds"`
	Timeout     time.Duration `json:"timeoutNanoseconds"`
	JSON        string        `json:"-"`
	Profiles    string        `json:"-"`
	Markdown    bool          `json:"-"`
}

func defaultOptions() *options {
	return &options{
		Clusters: 300, Baseline: 1000, Machines: 10, Namespaces: 10, Strategy: "v3", Rancher: rancherLight, Restart: true, Runs: 1, AgentDelay: 2 * time.Second,
		Idle: 70 * time.Second, Settle: 3 * time.Second,
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Clusters, "clusters", o.Clusters, "CAPI clusters to import.")
	fs.IntVar(&o.Baseline, "baseline", o.Baseline, "When there are more --clusters than this, first import this many alone, and compare the time that a cluster takes; 0 compares nothing.")
	fs.IntVar(&o.Machines, "machines", o.Machines, "Machines of each cluster. Each has a Secret with its bootstrap data, beside the five Secrets of the cluster.")
	fs.IntVar(&o.Namespaces, "namespaces", o.Namespaces, "Namespaces that they are spread over.")
	fs.StringVar(&o.Strategy, "strategy", o.Strategy, "Kind of the Rancher clusters: v3 or v1.")
	fs.StringVar(&o.Rancher, "rancher", o.Rancher, "Who plays Rancher: light does the least that an import needs, standin all that Rancher does, which takes most of the machine.")
	fs.Float64Var(&o.BlackHoles, "black-holes", o.BlackHoles, "Fraction of the workload clusters that accept connections and never answer, for example 0.1.")
	fs.BoolVar(&o.Compare, "compare", o.Compare, "With --black-holes: also run without them, and compare the latencies of the healthy clusters.")
	fs.BoolVar(&o.Newcomer, "newcomer", o.Newcomer, "Also select one cluster in another namespace while the others are being imported, and another one alone after them, and compare.")
	fs.BoolVar(&o.Floor, "floor", o.Floor, "Before each run also make one with the cheapest importer that there can be, which promises nothing, and print the ratio. As v3, without --black-holes, --newcomer and --scope.")
	fs.IntVar(&o.Scope, "scope", o.Scope, "After the imports also start the manager anew for all namespaces, for this many of them by --namespace, and for the same by --excluded-namespace, and compare what the API server sends.")
	fs.DurationVar(&o.Hostile, "hostile", o.Hostile, "Instead of all that: import the clusters one after the other, and again within this time beside tenants that write what costs others as much as they can, and compare. It fails if one is not imported, or the manager takes more than 150 MiB.")
	fs.Lookup("hostile").NoOptDefVal = "5m"
	fs.BoolVar(&o.Identity, "identity", o.Identity, "Instead of all that: measure what the controller of OCI identities asks of the API server, with 1,000 clusters. It fails if decisions cost a request at rest.")
	fs.BoolVar(&o.Fleet, "fleet", o.Fleet, "Instead of all that: measure what connections to 1,000 workload clusters cost, of which each twentieth is a black hole, forbids everything, or refuses the credentials. It fails if a cluster takes more than 250 KiB, locks are waited for more than 10 seconds by all together, a reconcile fails while all kubeconfigs are replaced, or something is left at the end.")
	fs.BoolVar(&o.HostClaim, "hostclaim", o.HostClaim, "Instead of all that: measure what HostClaims cost, 100 and 1,000 of 50 namespaces, on as many hosts, with caches that are a quarter of a second old. It fails if a claim costs 1.5 times as much among 1,000 as among 100, has two hosts, shares one, or if 1,000 claims that wait cost a request.")
	fs.BoolVar(&o.Restart, "restart", o.Restart, "After the imports also start the manager anew with everything imported, with its default --sync-period, and watch it for as long as --idle.")
	fs.IntVar(&o.Runs, "runs", o.Runs, "Repetitions. With --compare each is a pair of runs, and the calmest of each kind are compared.")
	fs.DurationVar(&o.Pace, "pace", o.Pace, "Time between the labels of two namespaces. With as many --namespaces as --clusters, clusters are imported one at a time.")
	fs.DurationVar(&o.Prepares, "prepares", o.Prepares, "Time that Rancher takes from the token of a cluster until an agent may register, with --rancher=light.")
	fs.DurationVar(&o.Distance, "distance", o.Distance, "Time that a request to a workload cluster and its answer are on their way.")
	fs.DurationVar(&o.AgentDelay, "agent-delay", o.AgentDelay, "Time between the installation of an agent and its connection to Rancher.")
	fs.DurationVar(&o.SyncPeriod, "sync-period", o.SyncPeriod, "The manager's --sync-period; by default 20s, and with more clusters than --baseline the manager's own default.")
	fs.DurationVar(&o.Idle, "idle", o.Idle, "How long to watch the manager when everything is imported. Longer than --sync-period shows what resyncs cost.")
	fs.DurationVar(&o.Settle, "settle", o.Settle, "How long nothing may have happened for the imports to count as over.")
	fs.IntVar(&o.Concurrency, "concurrency", o.Concurrency, "The manager's --concurrency; 0 leaves its default.")
	fs.StringVar(&o.Manager, "manager", o.Manager, "The manager as a program, for example one of another version; by default it is built.")
	fs.StringArrayVar(&o.ManagerArgs, "manager-arg", nil, "Another argument for the manager; repeatable.")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "Time limit for the imports of one run; by default ten minutes, and more for more than 3,000 clusters.")
	fs.StringVar(&o.JSON, "json", o.JSON, "File for the results as JSON.")
	fs.BoolVar(&o.Markdown, "markdown", o.Markdown, "Print the results also as a table in Markdown, for docs/development/performance.md.")
	fs.StringVar(&o.Profiles, "profiles", o.Profiles, "Directory for profiles of the manager: CPU and, every second, heap during the imports, heap and goroutines after them. Profiling itself costs memory.")
}

// baseline returns the options of the run to compare with, nil for none.
func (o *options) baseline() *options {
	if o.Floor || o.Baseline == 0 || o.Clusters <= o.Baseline || o.Compare {
		return nil
	}
	less := *o
	less.Clusters, less.Newcomer, less.Scope = o.Baseline, false, 0
	return &less
}

// comparable reports whether a comparison with the cheapest importer is possible, or not asked for. That importer
// imports all clusters alike, as v3.
func (o *options) comparable() bool {
	return !o.Floor || o.Strategy == "v3" && o.BlackHoles == 0 && !o.Compare && !o.Newcomer && o.Scope == 0
}

// validate reports everything that cannot be measured, and fills in the time limit.
func (o *options) validate(rest []string) error {
	var problems []error
	for _, check := range []struct {
		fails   bool
		problem error
	}{
		{len(rest) > 0, fmt.Errorf("unexpected arguments: %s", strings.Join(rest, " "))},
		{o.Clusters < 1 || o.Namespaces < 1 || o.Namespaces > o.Clusters || o.Runs < 1, errors.New("--clusters, --namespaces and --runs must be at least 1, and --namespaces at most --clusters")},
		{o.Machines < 0 || o.Baseline < 0 || o.Baseline > 0 && o.Namespaces > o.Baseline && o.Clusters > o.Baseline, errors.New("--machines and --baseline must not be negative, and --namespaces at most --baseline")},
		{o.Strategy != "v3" && o.Strategy != "v1", fmt.Errorf("--strategy %q must be v3 or v1", o.Strategy)},
		{o.Rancher != rancherLight && o.Rancher != rancherStandin, fmt.Errorf("--rancher %q must be light or standin", o.Rancher)},
		{o.BlackHoles < 0 || o.BlackHoles >= 1, errors.New("--black-holes must be a fraction below 1")},
		{o.Compare && len(deadOnes(o.Clusters, o.BlackHoles)) == 0, errors.New("--compare needs --black-holes, enough for one cluster at least")},
		{o.Scope < 0 || o.Scope >= o.Namespaces && o.Scope > 0, errors.New("--scope must be less than --namespaces")},
		{!o.comparable(), errors.New("--floor is for --strategy=v3, without --black-holes, --compare, --newcomer and --scope")},
		{o.Hostile < 0, errors.New("--hostile must not be negative")},
		{o.Pace < 0 || o.Prepares < 0 || o.Distance < 0 || o.AgentDelay < 0 || o.Idle < 0 || o.Settle < 0 || o.SyncPeriod < 0 || o.Timeout < 0, errors.New("durations must not be negative")},
	} {
		if check.fails {
			problems = append(problems, check.problem)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = max(minTimeout, time.Duration(o.Clusters)*timeoutEach)
	}
	if o.SyncPeriod == 0 {
		defaults, err := managers.New()
		if err != nil {
			return err
		}
		// Imports of thousands take minutes, and a resync of all of them every few seconds would be most of what is measured.
		if o.SyncPeriod = frequentSync; o.Baseline > 0 && o.Clusters > o.Baseline {
			o.SyncPeriod = defaults.SyncPeriod
		}
	}
	return errors.Join(problems...)
}

// frequentSync is a --sync-period that is shorter than --idle.
const frequentSync = 20 * time.Second

// deadOnes returns which of the clusters are black holes. They are spread evenly.
func deadOnes(clusters int, fraction float64) map[int]bool {
	dead := map[int]bool{}
	for i := range clusters {
		if int(float64(i+1)*fraction) > int(float64(i)*fraction) {
			dead[i] = true
		}
	}
	return dead
}
