package simulation

import (
	"encoding/json"
	"maps"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patch applies a merge patch to an object, or to its status alone. A resourceVersion in the patch has to be the
// present one. What changes a spec begins a new generation.
func (s *Server) patch(key Key, patch []byte, status bool) (client.Object, error) {
	before := s.objects.get(key)
	if before == nil {
		return nil, apierrors.NewNotFound(key.resource(), key.Name)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, err
	}
	var precondition struct {
		ResourceVersion string `json:"resourceVersion"`
		UID             string `json:"uid"`
	}
	if metadata := fields["metadata"]; metadata != nil {
		if err := json.Unmarshal(metadata, &precondition); err != nil {
			return nil, err
		}
	}
	if version := precondition.ResourceVersion; version != "" && version != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(key.resource(), key.Name, errStale)
	}
	if uid := precondition.UID; uid != "" && uid != string(before.GetUID()) {
		return nil, apierrors.NewConflict(key.resource(), key.Name, errStale)
	}
	if status {
		maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return name != "status" })
		var err error
		if patch, err = json.Marshal(fields); err != nil {
			return nil, err
		}
	}
	after, err := merged(before, patch, fields)
	if err != nil {
		return nil, err
	}
	after.SetUID(before.GetUID()) // Neither can be patched.
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	if equality.Semantic.DeepEqual(before, after) {
		return copyOf(before), nil // Nothing is written, and nobody is told.
	}
	if fields["spec"] != nil && specOf(before) != specOf(after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	s.store(key, after)
	return copyOf(after), nil
}

// merged applies a merge patch. Most are about metadata alone, and what else an object has can be large.
func merged(before client.Object, patch []byte, fields map[string]json.RawMessage) (client.Object, error) {
	after := copyOf(before)
	accessor, has := after.(metav1.ObjectMetaAccessor)
	if _, alone := fields["metadata"]; has && alone && len(fields) == 1 {
		if metadata, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			was := *metadata
			*metadata = metav1.ObjectMeta{}
			return after, merge(&was, fields["metadata"], metadata)
		}
	}
	after = emptyOf(before)
	return after, merge(before, patch, after)
}

func merge(before any, patch []byte, into any) error {
	was, err := json.Marshal(before)
	if err != nil {
		return err
	}
	is, err := jsonpatch.MergePatch(was, patch)
	if err != nil {
		return err
	}
	return json.Unmarshal(is, into)
}

// specOf returns the spec of an object as JSON.
func specOf(object client.Object) string {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // It is an object of this package.
	}
	var has struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(raw, &has); err != nil {
		panic(err)
	}
	spec, err := json.Marshal(has.Spec)
	if err != nil {
		panic(err)
	}
	return string(spec)
}
