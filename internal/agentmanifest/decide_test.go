package agentmanifest

import (
	"errors"
	"strings"
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

var now = time.Unix(1_800_000_000, 0)

// observed is a Cluster that asks for the manifest, and whose import waits for the agent.
func observed(change ...func(*Observation)) Observation {
	o := Observation{
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant-a", Name: "prod", UID: "1", Annotations: map[string]string{archelonv1.AgentDeliveryAnnotation: "manual"},
		}},
		Ours: true, Import: &metav1.Condition{Reason: archelonv1.WaitingForAgentReason},
		Management: &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-x7k2p"}}, Input: "new",
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func imported(reason string) func(*Observation) {
	return func(o *Observation) { o.Import = &metav1.Condition{Reason: reason} }
}

func annotated(value string) func(*Observation) {
	return func(o *Observation) { o.Cluster.Annotations[archelonv1.AgentDeliveryAnnotation] = value }
}

func secret(input string) func(*Observation) {
	return func(o *Observation) {
		o.Secret = secretMetadata()
		if input != "" {
			o.Secret.Annotations = map[string]string{archelonv1.ManifestInputAnnotation: input}
		}
	}
}

func before(reason string, ago time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Before = &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-ago))}
	}
}

func problem(err error) func(*Observation) { return func(o *Observation) { o.Problem = err } }

func none(o *Observation) { o.Management = nil }

func deleting(o *Observation) { o.Cluster.DeletionTimestamp = &metav1.Time{Time: now} }

func TestDecide(t *testing.T) {
	t.Parallel()
	taken := &outcome.Problem{Kind: outcome.KindPoll, Reason: TakenReason, Message: "Secret tenant-a/prod-rancher-agent exists already"}
	for name, test := range map[string]struct {
		o Observation
		// want has the action, the reason that is published, and when it is looked at again.
		want string
	}{
		"NotOurs":        {observed(func(o *Observation) { o.Ours = false }), ""},
		"Paused":         {observed(func(o *Observation) { o.Cluster.Spec.Paused = new(true) }), ""},
		"Slip":           {observed(annotated("manul"), secret("old")), ""},
		"First":          {observed(), "write the manifest for the agent of v3 Rancher cluster c-x7k2p into Secret tenant-a/prod-rancher-agent"},
		"Connected":      {observed(imported(archelonv1.ImportedReason), secret("old")), "write the manifest for the agent of v3 Rancher cluster c-x7k2p into Secret tenant-a/prod-rancher-agent"},
		"Current":        {observed(secret("new")), "True ManifestReady"},
		"OfOthers":       {observed(secret("")), "write the manifest for the agent of v3 Rancher cluster c-x7k2p into Secret tenant-a/prod-rancher-agent"},
		"NoRancher":      {observed(none), "False WaitingForImport"},
		"Early":          {observed(imported(archelonv1.WaitingForRancherReason)), "False WaitingForImport"},
		"Interrupted":    {observed(imported(archelonv1.InvalidSettingReason), secret("old"), before(ReadyReason, 0)), ""},
		"Unreadable":     {observed(problem(errors.New("boom"))), "False ManifestFailed"},
		"Taken":          {observed(problem(taken)), "False ManifestSecretTaken 1m0s"},
		"TakenLong":      {observed(problem(taken), before(TakenReason, 20*time.Minute)), "False ManifestSecretTaken 20m0s"},
		"TakenForEver":   {observed(problem(taken), before(TakenReason, 20*time.Hour)), "False ManifestSecretTaken 1h0m0s"},
		"Removed":        {observed(annotated(""), secret("old"), before(ReadyReason, 0)), "delete Secret tenant-a/prod-rancher-agent"},
		"RemovedNotOurs": {observed(annotated(""), secret(""), before(TakenReason, 0)), "delete condition AgentManifest of tenant-a/prod"},
		"RemovedDone":    {observed(annotated("")), ""},
		"Unimported":     {observed(none, imported(archelonv1.NotSelectedReason), secret("old")), "delete Secret tenant-a/prod-rancher-agent"},
		"Unimporting":    {observed(imported(archelonv1.NotSelectedReason), secret("old"), before(ReadyReason, 0)), ""},
		"LostFromCache":  {observed(none, secret("old"), before(ReadyReason, 0)), ""},
		"KeptOut":        {observed(none, imported(archelonv1.RemovedInRancherReason), secret("old")), "delete Secret tenant-a/prod-rancher-agent"},
		"Deleting":       {observed(deleting, secret("old")), "delete Secret tenant-a/prod-rancher-agent"},
		"DeletingSlip":   {observed(deleting, annotated("manul"), secret("old")), "delete Secret tenant-a/prod-rancher-agent"},
		"DeletingPaused": {observed(deleting, secret("old"), func(o *Observation) { o.Cluster.Spec.Paused = new(true) }), ""},
		"DeletingTaken":  {observed(deleting, secret(""), before(TakenReason, 0)), ""},
		"Deleted":        {observed(deleting, before(ReadyReason, 0)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := describe(Decide(test.o, now)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// describe prints what a decision does.
func describe(d Decision) string {
	var parts []string
	if d.Action != nil {
		parts = append(parts, d.Action.String())
	}
	if p, ok := d.Publish.(publish); ok && p.condition != nil {
		parts = append(parts, string(p.condition.Status)+" "+p.condition.Reason)
	} else if ok {
		parts = append(parts, p.String())
	}
	if d.Outcome.After > 0 {
		parts = append(parts, d.Outcome.After.String())
	}
	return strings.Join(parts, " ")
}

// A settled Cluster costs nothing, and what passes by itself is no Event.
func TestDecideIsQuiet(t *testing.T) {
	t.Parallel()
	first := Decide(observed(secret("new")), now)
	written, ok := first.Publish.(publish)
	if !ok || first.Event == nil || first.Event.Reason != ReadyReason {
		t.Fatalf("got %+v", first)
	}
	settled := Decide(observed(secret("new"), func(o *Observation) { o.Before = written.condition }), now.Add(time.Hour))
	if settled.Action != nil || settled.Publish != nil || settled.Event != nil || settled.Outcome.After > 0 {
		t.Errorf("a settled Cluster: got %+v", settled)
	}
	if waiting := Decide(observed(none), now); waiting.Event != nil {
		t.Errorf("got Event %+v", waiting.Event)
	}
}

// A validation or a webhook may quote what it refuses, which has a token in it.
func TestRefusalsAreNotQuoted(t *testing.T) {
	t.Parallel()
	key := secretOf(client.ObjectKey{Namespace: "tenant-a", Name: "prod"})
	err := writing(key, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("s3cret")))
	out := outcome.FromError(err, FailedReason)
	if out.Kind != outcome.KindFail || strings.Contains(out.Message, "s3cret") || !strings.Contains(out.Message, "tenant-a/prod-rancher-agent") {
		t.Errorf("got %+v", out)
	}
}

// What others write into the annotation must not fill the cache.
func TestKeepInput(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"digest": 1, strings.Repeat("x", 1<<18): 0} {
		found := secretMetadata()
		found.Annotations = map[string]string{archelonv1.ManifestInputAnnotation: value, "other": "large"}
		if _, err := KeepInput(controller.KeepIdentity)(found); err != nil || len(found.Annotations) != want {
			t.Errorf("got %d annotations (%v), want %d", len(found.Annotations), err, want)
		}
	}
}
