package importer

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestConditionFor(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: "RancherImported", Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
	}
	imported := condition(metav1.ConditionTrue, "Imported", "")
	explained := condition
	condition = func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return explained(status, reason, message+". See https://github.com/archelon-io/archelon/blob/main/docs/operations/conditions.md#"+strings.ToLower(reason))
	}
	waiting := condition(metav1.ConditionFalse, "WaitingForRancher", "w")
	tests := map[string]struct {
		reason string
		intent intent
		out    outcome.Outcome
		before *metav1.Condition
		want   *metav1.Condition
	}{
		"Imported":      {reason: "all phases are done", intent: intentImport, out: outcome.Done(), want: imported},
		"Waiting":       {reason: "the phase that stopped gives reason and message", intent: intentImport, out: outcome.Wait("WaitingForRancher", "w"), want: waiting},
		"Lost":          {reason: "an import that lost its agent is not True", intent: intentImport, out: outcome.Poll("AgentDisconnected", "m", 1), before: imported, want: condition(metav1.ConditionFalse, "AgentDisconnected", "m")},
		"Failed":        {reason: "the cause of a failure is the message", intent: intentImport, out: outcome.Fail("RancherClusterRejected", errors.New("no")), want: condition(metav1.ConditionFalse, "RancherClusterRejected", "No")},
		"JobRuns":       {reason: "a job that only just started is not worth a write", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), before: waiting},
		"JobRunsFirst":  {reason: "unless nothing is said yet", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), want: condition(metav1.ConditionFalse, "ConnectingAgent", "c")},
		"JobRunsRepair": {reason: "or what is said is not true any more", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), before: imported, want: condition(metav1.ConditionFalse, "ConnectingAgent", "c")},
		"LostRuns":      {reason: "a lost agent that is looked at is lost", intent: intentImport, out: outcome.Wait("AgentDisconnected", "d"), before: imported, want: condition(metav1.ConditionFalse, "AgentDisconnected", "d")},
		"LostRunsLater": {reason: "what was found before stands until the next look has ended", intent: intentImport, out: outcome.Wait("AgentDisconnected", "d"), before: waiting},
		"Stranger":      {reason: "a cluster that has nothing to do with Rancher gets no condition", intent: intentIdle, out: outcome.Done()},
		"Deleted":       {reason: "the object may be gone", intent: intentDelete, out: outcome.Done(), before: imported},
		"DeleteFails":   {reason: "a deletion that cannot go on says so", intent: intentDelete, out: outcome.Fail("InternalError", errors.New("down")), before: imported, want: condition(metav1.ConditionFalse, "Deleting", "Down")},
		"PausedNew":     {reason: "a paused stranger gets no condition", intent: intentPause, out: outcome.Wait("Paused", "p")},
		"PausedLater":   {reason: "a connected cluster stays connected", intent: intentPause, out: outcome.Wait("Paused", "p"), before: imported},
		"Paused":        {reason: "an import that is paused under way says so", intent: intentPause, out: outcome.Wait("Paused", "p"), before: waiting, want: condition(metav1.ConditionFalse, "Paused", "p")},
		"Unimported": {reason: "the user's choice is confirmed", intent: intentUnimport, out: outcome.Done(), before: imported, want: condition(metav1.ConditionFalse, "NotSelected",
			`Not imported: no label selects this Cluster. To import it, set label cluster-api.cattle.io/rancher-auto-import to "true" on this Cluster or on its Namespace`)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := conditionFor(seen(testCluster()), Decision{Intent: tc.intent, Outcome: tc.out}, tc.before)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLongEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	r := &Reconciler{Recorder: recorder}
	r.event(seen(testCluster()), "Warning", "RancherClusterRejected", "%s", strings.Repeat("é", 1000))
	_, note, _ := strings.Cut(<-recorder.Events, "RancherClusterRejected ")
	if len(note) > 1024 || !utf8.ValidString(note) || !strings.HasSuffix(note, "...") {
		t.Errorf("got a note of %d bytes, %q; the API server takes 1024 and refuses more", len(note), note)
	}
}

func TestLostAgentMakesAnEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(2)
	r := &Reconciler{Recorder: recorder}
	o := seen(testCluster())
	before := &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Imported"}
	for _, out := range []outcome.Outcome{outcome.Wait("AgentDisconnected", "d"), outcome.Poll("AgentDisconnected", "d", time.Second)} {
		d := Decision{Intent: intentImport, Outcome: out}
		after := conditionFor(o, d, before)
		r.publishChange(o, d, before, after)
		before = after
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("got %d events, want one for one loss", len(recorder.Events))
	}
	if got := <-recorder.Events; !strings.HasPrefix(got, "Warning AgentDisconnected d. See https://") {
		t.Errorf("got %q, want a warning", got)
	}
}

func TestObserveImport(t *testing.T) {
	made := time.Unix(1_000_000, 0)
	for name, tc := range map[string]struct {
		reason, before string
		lost           time.Duration // from the making of the record to its condition False
		want           uint64
	}{
		"First":      {reason: "the agent of a new record connected", before: "WaitingForAgent", lost: time.Second, want: 1},
		"Early":      {reason: "the cluster had a condition before its record", before: "ConnectingAgent", lost: -time.Hour, want: 1},
		"Explained":  {reason: "it did not connect at first, and the cause is gone", before: "AgentUnschedulable", lost: time.Second, want: 1},
		"Looked":     {reason: "a lost agent came back while it was looked at", before: "AgentDisconnected", lost: time.Second},
		"Repaired":   {reason: "a lost agent came back after its repair", before: "WaitingForAgent", lost: 14 * 24 * time.Hour},
		"Failed":     {reason: "or after a repair that failed", before: "ConnectingAgent", lost: 14 * 24 * time.Hour},
		"NotRancher": {reason: "or after Rancher had to prepare a registration again", before: "WaitingForRancher", lost: 14 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			metrics, err := NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{Metrics: metrics, Clock: clocktesting.NewFakePassiveClock(made.Add(15 * 24 * time.Hour))}
			object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde", CreationTimestamp: metav1.NewTime(made)}}
			before := &metav1.Condition{Status: metav1.ConditionFalse, Reason: tc.before, LastTransitionTime: metav1.NewTime(made.Add(tc.lost))}
			r.observeImport(&record{Object: object, strategy: testStrategy{kind: "v3"}}, before, &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Imported"})
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var got uint64
			for _, family := range families {
				if family.GetName() == "archelon_import_duration_seconds" {
					got = family.GetMetric()[0].GetHistogram().GetSampleCount()
				}
			}
			if got != tc.want {
				t.Errorf("%s: counted %d times, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
