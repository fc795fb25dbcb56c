package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
)

// The copy refuses what an API server refuses, and changes as the objects of one do.
func TestWorld(t *testing.T) { //nolint:gocognit // one story
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	w, ctx := newWorld(known, scheme.Mapper()), t.Context()
	object := func() *managementv3.Cluster {
		return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
			Name: "c-abcde", Finalizers: []string{"example.com/a"}, Labels: map[string]string{"a": "1", "b": "2"},
		}}
	}
	names := func() []string {
		t.Helper()
		list := &rancher.NamedClusterList{}
		if err := w.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		found := []string{}
		for i := range list.Items {
			found = append(found, list.Items[i].Spec.DisplayName)
		}
		return found
	}
	first := object()
	if err := w.Create(ctx, first); err != nil || first.UID == "" || first.ResourceVersion == "" {
		t.Fatalf("creating: %v, %+v", err, first.ObjectMeta)
	}
	if err := w.Create(ctx, object()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it again: %v", err)
	}

	after := first.DeepCopy()
	after.Labels, after.Spec.DisplayName = map[string]string{"b": "3"}, "prod"
	lock := client.MergeFromWithOptions(first, client.MergeFromWithOptimisticLock{})
	if err := w.Patch(ctx, after.DeepCopy(), lock); err != nil {
		t.Fatal(err)
	}
	if err := w.Patch(ctx, after.DeepCopy(), lock); !apierrors.IsConflict(err) {
		t.Errorf("patching an older version: %v", err)
	}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	if err := w.Get(ctx, client.ObjectKeyFromObject(first), seen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b": "3"}, seen.Labels); diff != "" || !cmp.Equal(names(), []string{"prod"}) {
		t.Errorf("%q (-want +got):\n%s", names(), diff)
	}

	other := types.UID("other")
	if err := w.Delete(ctx, object(), client.Preconditions{UID: &other}); !apierrors.IsConflict(err) {
		t.Errorf("deleting another one: %v", err)
	}
	if err := w.Delete(ctx, object()); err != nil {
		t.Fatal(err)
	}
	held := &managementv3.Cluster{}
	if err := w.Get(ctx, client.ObjectKeyFromObject(first), held); err != nil || held.DeletionTimestamp.IsZero() {
		t.Fatalf("one with a finalizer is gone: %v", err)
	}
	freed := held.DeepCopy()
	freed.Finalizers = nil
	if err := w.Patch(ctx, freed, client.MergeFrom(held)); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(ctx, client.ObjectKeyFromObject(first), held); !apierrors.IsNotFound(err) || len(names()) > 0 {
		t.Errorf("one without finalizers is there: %v, %q", err, names())
	}
	verbs := []string{}
	for _, change := range w.changes {
		verbs = append(verbs, change.Verb)
	}
	if diff := cmp.Diff([]string{"create", "patch", "delete", "patch"}, verbs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
