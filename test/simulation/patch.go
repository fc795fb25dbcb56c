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
	after, err := s.patched(key, patch, status)
	if err != nil || equality.Semantic.DeepEqual(s.objects.get(key), after) {
		return after, err // Nothing is written, and nobody is told.
	}
	s.store(key, after)
	return copyOf(after), nil
}

// patched returns what an object would be after a patch.
func (s *Server) patched(key Key, patch []byte, status bool) (client.Object, error) {
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
	after.SetResourceVersion(before.GetResourceVersion()) // None of these can be patched.
	after.SetUID(before.GetUID())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	if fields["spec"] != nil && specOf(before) != specOf(after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	return after, nil
}

// merged applies a merge patch. Most are about metadata alone, and what else an object has can be large.
func merged(before client.Object, patch []byte, fields map[string]json.RawMessage) (client.Object, error) {
	after := copyOf(before)
	accessor, has := after.(metav1.ObjectMetaAccessor)
	if _, alone := fields["metadata"]; has && alone && len(fields) == 1 {
		if metadata, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return after, mergeMetadata(metadata, fields["metadata"])
		}
	}
	after = emptyOf(before)
	return after, merge(before, patch, after)
}

// mergeMetadata applies a merge patch to metadata. What is patched of them as a rule needs no way through JSON.
func mergeMetadata(metadata *metav1.ObjectMeta, patch []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil {
		return err
	}
	for name, raw := range fields {
		var err error
		switch name {
		case "uid", "resourceVersion": // They are preconditions.
		case "labels":
			metadata.Labels, err = mergeStrings(metadata.Labels, raw)
		case "annotations":
			metadata.Annotations, err = mergeStrings(metadata.Annotations, raw)
		case "finalizers":
			metadata.Finalizers = nil
			err = json.Unmarshal(raw, &metadata.Finalizers)
		case "ownerReferences":
			metadata.OwnerReferences = nil
			err = json.Unmarshal(raw, &metadata.OwnerReferences)
		default:
			panic("nobody patches metadata." + name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func mergeStrings(values map[string]string, patch []byte) (map[string]string, error) {
	var changes map[string]*string
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return nil, err
	}
	if values == nil {
		values = map[string]string{}
	}
	for name, value := range changes {
		if value == nil {
			delete(values, name)
		} else {
			values[name] = *value
		}
	}
	return values, nil
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
