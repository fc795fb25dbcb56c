package rancher

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mutate is one change of an object.
type mutate func(*unstructured.Unstructured)

// write applies one change as one request and leaves the server's answer in obj. A change
// that changes nothing sends nothing. Every write carries the resource version, as Rancher's
// full updates do, so that it fails on conflict and makes others fail.
func (r *reactor) write(ctx context.Context, obj *unstructured.Unstructured, change mutate) error {
	return r.send(ctx, obj, change, false)
}

// writeStatus is write for the status, whether or not the kind has a status subresource.
func (r *reactor) writeStatus(ctx context.Context, obj *unstructured.Unstructured, change mutate) error {
	subresource := obj.GroupVersionKind() == provisioningGVK ||
		(obj.GroupVersionKind() == clusterGVK && r.opts.StatusSubresource)
	return r.send(ctx, obj, change, subresource)
}

func (r *reactor) send(ctx context.Context, obj *unstructured.Unstructured, change mutate, subresource bool) error {
	before := obj.DeepCopy()
	change(obj)
	if equality.Semantic.DeepEqual(before.Object, obj.Object) {
		return nil
	}
	if err := pause(ctx, r.opts.Timings.Write); err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	var err error
	if subresource {
		err = r.client.Status().Patch(ctx, obj, patch)
	} else {
		err = r.client.Patch(ctx, obj, patch)
	}
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
	}
	r.fresh.wrote(obj)
	return nil
}

// sequence sends each change in a request of its own.
func (r *reactor) sequence(ctx context.Context, obj *unstructured.Unstructured, status bool, changes ...mutate) error {
	for _, change := range changes {
		send := r.write
		if status {
			send = r.writeStatus
		}
		if err := send(ctx, obj, change); err != nil {
			return err
		}
	}
	return nil
}

func newObject(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func newList(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return u
}

// text returns the string at the path, "" when there is none.
func text(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

func flag(u *unstructured.Unstructured, path ...string) bool {
	b, _, _ := unstructured.NestedBool(u.Object, path...)
	return b
}

// set returns the change that stores value, which must be a JSON value, at the path.
func set(value any, path ...string) mutate {
	return func(u *unstructured.Unstructured) {
		fields := u.Object
		for _, key := range path[:len(path)-1] {
			next, ok := fields[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				fields[key] = next
			}
			fields = next
		}
		fields[path[len(path)-1]] = value
	}
}

func annotate(key, value string) mutate {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		u.SetAnnotations(annotations)
	}
}

func annotateNew(key, value string) mutate {
	return func(u *unstructured.Unstructured) {
		if _, ok := u.GetAnnotations()[key]; !ok {
			annotate(key, value)(u)
		}
	}
}

// condition returns the change that sets a condition in Norman's shape: times are strings, only
// lastUpdateTime is kept. A condition that already says the same is left alone.
func condition(kind, status, reason, message string) mutate {
	return func(u *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		entry := map[string]any{
			"type":           kind,
			"status":         status,
			"lastUpdateTime": time.Now().UTC().Format(time.RFC3339),
		}
		if reason != "" {
			entry["reason"] = reason
		}
		if message != "" {
			entry["message"] = message
		}
		for i := range conditions {
			old, _ := conditions[i].(map[string]any)
			if old["type"] != kind {
				continue
			}
			if old["status"] == status && orEmpty(old["reason"]) == reason && orEmpty(old["message"]) == message {
				return
			}
			conditions[i] = entry
			set(conditions, "status", "conditions")(u)
			return
		}
		set(append(conditions, entry), "status", "conditions")(u)
	}
}

func orEmpty(v any) string {
	s, _ := v.(string)
	return s
}

// conditionStatus returns the status of a condition, "" when the object has none of that type.
func conditionStatus(u *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if entry, _ := c.(map[string]any); entry["type"] == kind {
			return orEmpty(entry["status"])
		}
	}
	return ""
}
