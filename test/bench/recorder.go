package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

const (
	// managerClient is how the manager introduces itself to workload clusters.
	managerClient = "archelon"
	// agentDeployment is applied last but one; with it the agent is installed.
	agentDeployment = "cattle-cluster-agent"
	imported        = "True/Imported"
)

// recorder notes when what happened to which cluster.
type recorder struct {
	members map[string]member // by name
	// installed is called, with the lock held, when the agent was installed in a workload cluster.
	installed func(cluster string)

	mu         sync.Mutex
	labelled   map[string]time.Time // by namespace
	recorded   map[string]time.Time // by name: the record was seen
	applied    map[string]time.Time // by name
	connected  map[string]time.Time // by name: the condition became True
	conditions map[string]string    // by name
	requests   []workloadserver.Request
	activity   time.Time
}

func newRecorder(members []member) *recorder {
	r := &recorder{
		members: map[string]member{}, labelled: map[string]time.Time{}, recorded: map[string]time.Time{}, applied: map[string]time.Time{},
		connected: map[string]time.Time{}, conditions: map[string]string{}, installed: func(string) {},
	}
	for _, m := range members {
		r.members[m.name] = m
	}
	return r
}

func (r *recorder) chosen(namespace string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.labelled[namespace] = at
}

// request takes a request to a workload cluster.
func (r *recorder) request(request workloadserver.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Verb == "watch" {
		return
	}
	r.active(request.At)
	if request.Client != managerClient {
		return
	}
	r.requests = append(r.requests, request)
	if _, known := r.applied[request.Cluster]; !known && request.Verb == "patch" && request.Resource == "deployments" &&
		request.Name == agentDeployment && request.Code < 300 {
		r.applied[request.Cluster] = request.At
		r.installed(request.Cluster)
	}
}

// cluster takes a new state of a CAPI cluster.
func (r *recorder) cluster(object any) {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	state := conditionOf(cluster)
	r.conditions[cluster.Name] = state
	if _, known := r.connected[cluster.Name]; !known && state == imported {
		r.connected[cluster.Name] = now
	}
	r.active(now)
}

// record takes the new record of a CAPI cluster.
func (r *recorder) record(object any) {
	record, ok := object.(client.Object)
	if !ok {
		return
	}
	owner, now := record.GetLabels()[archelonv1.OwnerNameLabel], time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.recorded[owner]; known || r.members[owner].name == "" {
		return
	}
	r.recorded[owner] = now
	r.active(now)
}

// active notes that something happened. The lock is held.
func (r *recorder) active(at time.Time) { r.activity = at }

// finished says whether, of those that are selected, every healthy cluster is imported, and every
// dead one got as far as it can.
func (r *recorder) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.members {
		state := cmp.Or(r.conditions[name], "none")
		if r.labelled[m.namespace].IsZero() {
			continue
		}
		if !m.dead && (state != imported || r.applied[name].IsZero()) || m.dead && state == "none" {
			return false
		}
	}
	return true
}

// allApplied says whether the agent of every cluster that is selected was applied.
func (r *recorder) allApplied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.members {
		if !r.labelled[m.namespace].IsZero() && r.applied[name].IsZero() {
			return false
		}
	}
	return true
}

// quietSince returns when something was last seen to happen.
func (r *recorder) quietSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activity
}

// chosenAt is when a namespace was labelled.
func (r *recorder) chosenAt(namespace string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.labelled[namespace]
}

// begin is when the first namespace was labelled.
func (r *recorder) begin() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.MinFunc(slices.Collect(maps.Values(r.labelled)), time.Time.Compare)
}

// states counts the selected clusters by condition, for messages.
func (r *recorder) states() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for name, m := range r.members {
		if !r.labelled[m.namespace].IsZero() {
			counts[cmp.Or(r.conditions[name], "none")]++
		}
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return strings.Join(parts, ", ")
}

// latencies returns the times from the label of its namespace to the given moment of each healthy cluster, and the time
// from the first label to the last of them.
func (r *recorder) latencies(moments map[string]time.Time, compared func(member) bool) (each []time.Duration, all time.Duration) {
	begin := r.begin()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.members {
		at, ok := moments[name]
		if !ok || m.dead || !compared(m) {
			continue
		}
		each = append(each, at.Sub(r.labelled[m.namespace]))
		all = max(all, at.Sub(begin))
	}
	return each, all
}

// latency returns the time from the label of its namespace to the given moment of one cluster, and that moment.
func (r *recorder) latency(moments map[string]time.Time, name string) (time.Duration, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := moments[name]
	return at.Sub(r.labelled[r.members[name].namespace]), at
}

// crowdBefore counts those of the crowd whose moment was before a time.
func (r *recorder) crowdBefore(moments map[string]time.Time, before time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for name, at := range moments {
		if !r.members[name].lone && at.Before(before) {
			count++
		}
	}
	return count
}

// workloadRequests returns the manager's requests to workload clusters within a time.
func (r *recorder) workloadRequests(from, to time.Time) []workloadserver.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var within []workloadserver.Request
	for _, request := range r.requests {
		if !request.At.Before(from) && request.At.Before(to) {
			within = append(within, request)
		}
	}
	return within
}
