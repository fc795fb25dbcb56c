package importer

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/archelon-io/archelon/internal/outcome"
)

func TestConditionFor(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: "RancherImported", Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
	}
	imported := condition(metav1.ConditionTrue, "Imported", "")
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
		"Failed":        {reason: "the cause of a failure is the message", intent: intentImport, out: outcome.Fail("RecordRejected", errors.New("no")), want: condition(metav1.ConditionFalse, "RecordRejected", "no")},
		"JobRuns":       {reason: "a job that only just started is not worth a write", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), before: waiting},
		"JobRunsFirst":  {reason: "unless nothing is said yet", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), want: condition(metav1.ConditionFalse, "ConnectingAgent", "c")},
		"JobRunsRepair": {reason: "or what is said is not true any more", intent: intentImport, out: outcome.Wait("ConnectingAgent", "c"), before: imported, want: condition(metav1.ConditionFalse, "ConnectingAgent", "c")},
		"Stranger":      {reason: "a cluster that has nothing to do with Rancher gets no condition", intent: intentIdle, out: outcome.Done()},
		"Deleted":       {reason: "the object may be gone", intent: intentDelete, out: outcome.Done(), before: imported},
		"DeleteFails":   {reason: "a deletion that cannot go on says so", intent: intentDelete, out: outcome.Fail("InternalError", errors.New("down")), before: imported, want: condition(metav1.ConditionFalse, "Deleting", "down")},
		"PausedNew":     {reason: "a paused stranger gets no condition", intent: intentPause, out: outcome.Wait("Paused", "p")},
		"PausedLater":   {reason: "a connected cluster stays connected", intent: intentPause, out: outcome.Wait("Paused", "p"), before: imported},
		"Paused":        {reason: "an import that is paused under way says so", intent: intentPause, out: outcome.Wait("Paused", "p"), before: waiting, want: condition(metav1.ConditionFalse, "Paused", "p")},
		"Unimported": {reason: "the user's choice is confirmed", intent: intentUnimport, out: outcome.Done(), before: imported, want: condition(metav1.ConditionFalse, "NotSelected",
			`Label cluster-api.cattle.io/rancher-auto-import does not select this cluster; set it to "true" on the Cluster or its Namespace to import`)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := conditionFor(&scope{cluster: testCluster(), intent: tc.intent}, tc.out, tc.before)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLongEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	r := &Reconciler{Recorder: recorder}
	r.event(&scope{cluster: testCluster()}, "Warning", "RecordRejected", "%s", strings.Repeat("é", 1000))
	_, note, _ := strings.Cut(<-recorder.Events, "RecordRejected ")
	if len(note) > 1024 || !utf8.ValidString(note) || !strings.HasSuffix(note, "...") {
		t.Errorf("got a note of %d bytes, %q; the API server takes 1024 and refuses more", len(note), note)
	}
}
