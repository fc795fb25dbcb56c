package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/stage"
)

// managerUser is the manager to the management cluster.
const managerUser = "system:serviceaccount:" + stage.SystemNamespace + ":" + stage.ServiceAccount

// Run is what one run has shown.
type Run struct {
	Strategy   string `json:"strategy"`
	Rancher    string `json:"rancher"`
	Clusters   int    `json:"clusters"`
	Machines   int    `json:"machines"`
	BlackHoles int    `json:"blackHoles"`
	// Floor: it is the cheapest importer that was run, not the manager.
	Floor bool `json:"floor,omitempty"`
	// AgentDelaySeconds is what agents take to connect.
	AgentDelaySeconds float64 `json:"agentDelaySeconds"`
	// SetupSeconds is what it took to create the clusters and their Secrets, before the manager was started.
	SetupSeconds float64 `json:"setupSeconds"`
	// Load is the load average of the minute before, and OthersCPUShare the part of all CPU time that programs of
	// others took during the imports, from 0 to 1.
	Load           float64 `json:"loadAverageBefore"`
	OthersCPUShare float64 `json:"othersCPUShare"`

	// The times from the first label to the last of the crowd whose workload clusters answer; of records, to the last of
	// all that were selected in the wave.
	RecordsSeconds  float64 `json:"recordsSeconds"`
	AppliedSeconds  float64 `json:"appliedSeconds"`
	ImportedSeconds float64 `json:"importedSeconds"`
	// Latencies are from the label of a namespace to the record, the agent's Deployment, and RancherImported=True.
	Recorded Latency `json:"recordLatency"`
	Applied  Latency `json:"appliedLatency"`
	Imported Latency `json:"importedLatency"`

	// Newcomer is there with --newcomer.
	Newcomer *Newcomer `json:"newcomer,omitempty"`
	// Scopes are there with --scope: what an instance for all namespaces receives, and instances for a part.
	Scopes *Scopes `json:"scopes,omitempty"`

	// Records are those of everyone; requests and downloads are for the crowd and the newcomer.
	Records    int    `json:"recordsCreated"`
	Management Counts `json:"managementRequests"`
	Workload   Counts `json:"workloadRequests"`
	Downloads  Counts `json:"downloads"`

	// Processes are by name: CPU seconds during the imports, and peaks until their end.
	Processes map[string]usage `json:"processes"`
	// PeakMiB is the manager's highest resident set size until the end of the run.
	PeakMiB float64 `json:"managerPeakMiB"`
	// PeakAnonMiB and PeakFileMiB are the peaks of its parts, each at its own time: what the manager has allocated, and
	// pages of files, which are mostly its code.
	PeakAnonMiB float64 `json:"managerPeakAnonMiB"`
	PeakFileMiB float64 `json:"managerPeakFileMiB"`
	Idle        Idle    `json:"idle"`
	// Anew is there with --restart.
	Anew *Anew `json:"anew,omitempty"`
}

// Latency holds percentiles in seconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Counts are numbers of requests.
type Counts struct {
	Total      int            `json:"total"`
	PerImport  float64        `json:"perImport"`
	ByResource map[string]int `json:"byResource,omitempty"`
}

// Idle is what happened when there was nothing to do.
type Idle struct {
	Seconds float64 `json:"seconds"`
	// Management counts requests to the management cluster without watches and the lease, and Writes
	// those that change something.
	Management        Counts  `json:"managementRequests"`
	Writes            int     `json:"writes"`
	RequestsPerMinute float64 `json:"managementRequestsPerMinute"`
	WritesPerMinute   float64 `json:"writesPerMinute"`
	Workload          Counts  `json:"workloadRequests"`
	Downloads         int     `json:"downloads"`
	CPUSeconds        float64 `json:"managerCPUSeconds"`
}

// imports is how many clusters were imported in the wave.
func (r *Run) imports() int {
	if r.Newcomer != nil {
		return r.Clusters + 1
	}
	return r.Clusters
}

// times part a run: the wave was over, the idle time began and ended, the manager was started anew, had nothing to do
// any more, and was watched until the end.
type times struct{ over, idle, idled, anew, calm, end time.Time }

// evaluate fills in what the recorder and the audit log know.
func (r *run) evaluate(t times) error {
	events, err := r.stage.Management.AuditEvents()
	if err != nil {
		return err
	}
	if len(events) == 0 || events[0].RequestReceivedTimestamp.After(r.recorder.begin()) {
		return errors.New("the audit log does not reach back to the begin of the imports")
	}
	events = slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != managerUser || unrelated(e) })
	begin, result := r.recorder.begin(), r.result
	r.evaluateLatencies()
	healthy := result.imports() - result.BlackHoles
	result.Management = countAudit(events, begin, t.over, result.imports())
	result.Workload = countWorkload(r.recorder.workloadRequests(begin, t.over), healthy)
	for _, e := range events {
		if e.Verb == "create" && e.ObjectRef.Resource == "clusters" && e.ObjectRef.APIGroup == recordKind(result.Strategy).Group &&
			e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusCreated {
			result.Records++
			if within(e, begin, t.over) {
				result.RecordsSeconds = max(result.RecordsSeconds, e.StageTimestamp.Sub(begin).Seconds())
			}
		}
	}

	r.evaluateIdle(&result.Idle, events, t.idle, t.idled)
	if result.Anew != nil {
		r.evaluateIdle(&result.Anew.Start, events, t.anew, t.calm)
		r.evaluateIdle(&result.Anew.Settled, events, t.calm, t.end)
	}
	for _, at := range r.rancher.downloads() {
		if at.Before(t.over) {
			result.Downloads.Total++
		}
	}
	result.Downloads.PerImport = float64(result.Downloads.Total) / float64(healthy)
	if result.Records != len(r.members) {
		return fmt.Errorf("%d records were created for %d clusters", result.Records, len(r.members))
	}
	return nil
}

// evaluateIdle takes the manager's events of the audit log in a time in which nothing is to be done.
func (r *run) evaluateIdle(idle *Idle, events []auditv1.Event, from, to time.Time) {
	idle.Seconds = to.Sub(from).Seconds()
	idle.Management = countAudit(events, from, to, 0)
	idle.Workload = countWorkload(r.recorder.workloadRequests(from, to), 0)
	for _, at := range r.rancher.downloads() {
		if at.After(from) && at.Before(to) {
			idle.Downloads++
		}
	}
	for _, e := range events {
		if within(e, from, to) && changes(e) {
			idle.Writes++
		}
	}
	if minutes := idle.Seconds / 60; minutes > 0 {
		idle.RequestsPerMinute = float64(idle.Management.Total) / minutes
		idle.WritesPerMinute = float64(idle.Writes) / minutes
	}
}

// evaluateLatencies compares the crowd with itself: latencies are of those that are healthy in every kind of run.
func (r *run) evaluateLatencies() {
	counted := map[string]bool{}
	for _, m := range r.compared {
		counted[m.name] = !m.dead
	}
	compared := func(m member) bool { return counted[m.name] }
	crowd := func(m member) bool { return !m.lone }
	result := r.result
	_, all := r.recorder.latencies(r.recorder.applied, crowd)
	result.AppliedSeconds = all.Seconds()
	_, all = r.recorder.latencies(r.recorder.connected, crowd)
	result.ImportedSeconds = all.Seconds()
	each, _ := r.recorder.latencies(r.recorder.recorded, compared)
	result.Recorded = latencyOf(each)
	each, _ = r.recorder.latencies(r.recorder.applied, compared)
	result.Applied = latencyOf(each)
	each, _ = r.recorder.latencies(r.recorder.connected, compared)
	result.Imported = latencyOf(each)
	if r.options.Newcomer {
		result.Newcomer = r.compareNewcomer()
	}
}

// unrelated says whether a request is none that imports cause: watches, the lease and the Events about it, which are of
// the old kind, discovery and reviews of tokens.
func unrelated(e auditv1.Event) bool {
	return e.Verb == "watch" || e.ObjectRef == nil || e.ObjectRef.Resource == "leases" ||
		e.ObjectRef.Resource == "events" && e.ObjectRef.APIGroup == ""
}

// changes says whether a request changes something. To ask for one's own rights creates no object.
func changes(e auditv1.Event) bool {
	return e.Verb != "get" && e.Verb != "list" && e.ObjectRef.APIGroup != authorizationv1.GroupName
}

func within(e auditv1.Event, from, to time.Time) bool {
	at := e.RequestReceivedTimestamp.Time
	return !at.Before(from) && at.Before(to)
}

func countAudit(events []auditv1.Event, from, to time.Time, imports int) Counts {
	names := make([]string, 0, len(events))
	for _, e := range events {
		if !within(e, from, to) {
			continue
		}
		name := e.Verb + " " + e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			name += "/" + e.ObjectRef.Subresource
		}
		if e.ObjectRef.APIGroup != "" {
			name += "." + e.ObjectRef.APIGroup
		}
		if e.ResponseStatus != nil && e.ResponseStatus.Code >= 400 {
			name += fmt.Sprintf(" (%d)", e.ResponseStatus.Code)
		}
		names = append(names, name)
	}
	return countNames(names, imports)
}

func countWorkload(requests []workloadserver.Request, imports int) Counts {
	names := make([]string, 0, len(requests))
	for _, request := range requests {
		name := request.Verb + " " + request.Resource
		if request.Code >= 400 {
			name += fmt.Sprintf(" (%d)", request.Code)
		}
		names = append(names, name)
	}
	return countNames(names, imports)
}

func countNames(names []string, imports int) Counts {
	counts := Counts{Total: len(names), ByResource: map[string]int{}}
	for _, name := range names {
		counts.ByResource[name]++
	}
	if imports > 0 {
		counts.PerImport = float64(counts.Total) / float64(imports)
	}
	return counts
}

// latencyOf returns percentiles by nearest rank.
func latencyOf(each []time.Duration) Latency {
	if len(each) == 0 {
		return Latency{}
	}
	each = slices.Sorted(slices.Values(each))
	at := func(percent float64) float64 {
		rank := int(math.Ceil(percent / 100 * float64(len(each))))
		return each[max(rank, 1)-1].Seconds()
	}
	return Latency{P50: at(50), P95: at(95), P99: at(99), Max: at(100)}
}
