package importer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

func TestOwnConditionDoesNotWake(t *testing.T) {
	with := func(version, uid string, condition *metav1.Condition) *clusterv1.Cluster {
		cluster := testCluster()
		cluster.ResourceVersion, cluster.UID = version, types.UID(uid)
		if condition != nil {
			cluster.Status.Conditions = []metav1.Condition{*condition}
		}
		return cluster
	}
	condition := func(message string) *metav1.Condition {
		return &metav1.Condition{Type: "RancherImported", Status: "False", Reason: "InternalError", Message: message, LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}
	}
	own := newTold()
	own.note(with("1", "uid-1", nil), condition("first"))
	own.note(with("1", "uid-1", nil), condition("second"))
	renamed := with("2", "uid-1", condition("second"))
	renamed.Labels = map[string]string{"a": "b"}
	changed := clusterChanged(own)
	for name, tc := range map[string]struct {
		reason string
		after  *clusterv1.Cluster
		want   bool
	}{
		"Own":       {reason: "it is what was just written", after: with("2", "uid-1", condition("second"))},
		"OwnBefore": {reason: "somebody brought back what was written before", after: with("2", "uid-1", condition("first")), want: true},
		"Changed":   {reason: "somebody changed it", after: with("2", "uid-1", condition("other")), want: true},
		"Removed":   {reason: "somebody removed it", after: with("2", "uid-1", nil), want: true},
		"Successor": {reason: "another cluster has it from a backup", after: with("2", "uid-2", condition("second")), want: true},
		"AndMore":   {reason: "what changed together with it counts", after: renamed, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := changed.Update(event.UpdateEvent{ObjectOld: with("1", "uid-1", condition("before")), ObjectNew: tc.after}); got != tc.want {
				t.Errorf("%s: admitted %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
	own.forget(client.ObjectKeyFromObject(testCluster()))
	if len(own.last) != 0 {
		t.Errorf("%d clusters are remembered, want none", len(own.last))
	}
}

func TestConflictsInARow(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	r := newBench(t, instance.Claim{})
	r.Clock = now
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "prod", errors.New("changed"))
	out := outcome.Fail("InternalError", fmt.Errorf("writing: %w", conflict))
	for i := range 10 {
		result, err := r.finish(t.Context(), seen(testCluster()), Decision{Intent: intentImport, Outcome: out})
		if first := i < 3; first != (result.RequeueAfter > 0) || first != (err == nil) {
			t.Errorf("conflict %d: got %+v, %v, want a short pause for the first three and then the backoff of the queue", i+1, result, err)
		}
		now.SetTime(now.Now().Add(100 * time.Millisecond))
	}
	if row, lasted := r.conflicts.note(jobKey, now.Now()); row != 1 || lasted != 0 {
		t.Errorf("%d conflicts for %s of another cluster, want its first", row, lasted)
	}
	r.conflicts.forget(jobKey)
	r.conflicts.forget(client.ObjectKeyFromObject(testCluster()))
	if len(r.conflicts.row) != 0 {
		t.Errorf("%d clusters are remembered, want none", len(r.conflicts.row))
	}
}

// A condition whose write was not answered may be there. Its event has the cluster looked at again: it may not be what
// the condition says any more, and the next run may have seen it without any.
func TestAConditionWithoutAnswerWakes(t *testing.T) {
	cluster := testCluster()
	b := newBench(t, instance.Claim{}, cluster)
	store, _ := b.Client.(client.WithWatch)
	b.Client = interceptor.NewClient(store, interceptor.Funcs{SubResourceApply: func(
		ctx context.Context, c client.Client, resource string, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption,
	) error {
		return errors.Join(c.SubResource(resource).Apply(ctx, configuration, opts...), errors.New("no answer"))
	}})
	d := Decision{Intent: intentImport, Outcome: outcome.Stall("ManagementCluster", "it is Rancher's own")}
	if _, err := b.finish(t.Context(), seen(cluster.DeepCopy()), d); err == nil {
		t.Fatal("the lost answer is no error")
	}
	before := cluster.DeepCopy()
	if err := store.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil || len(cluster.Status.Conditions) == 0 {
		t.Fatalf("the condition is not there: %v", err)
	}
	if !clusterChanged(b.told).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: cluster}) {
		t.Error("it does not wake the cluster")
	}
}
