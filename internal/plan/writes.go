package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

// Change is a write that the controller would send. Its form in JSON and YAML stays as it is.
type Change struct {
	// Verb is that of RBAC and of an audit log.
	Verb string `json:"verb"`
	// Resource is "<plural>.<group>", with a subresource behind a slash.
	Resource string `json:"resource"`
	// Namespace and Name are of the object.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Does says what the write does.
	Does string `json:"does"`
}

// note writes a change down.
func (w *world) note(
	verb string, kind schema.GroupVersionKind, subresource string, key types.NamespacedName, does string,
) error {
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	resource := mapping.Resource.GroupResource().String()
	if subresource != "" {
		resource += "/" + subresource
	}
	change := Change{Verb: verb, Resource: resource, Namespace: key.Namespace, Name: key.Name, Does: does}
	w.changes = append(w.changes, change)
	return nil
}

// ownerOf returns the name of the CAPI cluster that a change is about.
func (w *world) ownerOf(change Change) string {
	if change.Resource == "clusters."+clusterv1.GroupVersion.Group {
		return change.Name
	}
	key := types.NamespacedName{Namespace: change.Namespace, Name: change.Name}
	for _, kind := range hold.Imports().Kinds()[1:] {
		if record := w.table(kind).objects[key]; record != nil {
			return record.GetLabels()[archelonv1.OwnerNameLabel]
		}
	}
	return change.Name
}

// Create implements client.Writer.
func (w *world) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	key := client.ObjectKeyFromObject(object)
	kind, stored, err := w.find(object, key)
	switch {
	case stored != nil:
		return apierrors.NewAlreadyExists(groupOf(kind), key.String())
	case !apierrors.IsNotFound(err):
		return err
	}
	created, err := w.typed(kind, object)
	if err != nil {
		return err
	}
	version := w.next()
	created.SetUID(types.UID("new-" + version))
	created.SetResourceVersion(version)
	created.SetCreationTimestamp(metav1.NewTime(time.Now()).Rfc3339Copy())
	w.put(kind, created)
	if err := into(kind, created, object); err != nil {
		return err
	}
	return w.note("create", kind, "", key, w.does)
}

// typed returns an object as the world stores those of its kind.
func (w *world) typed(kind schema.GroupVersionKind, object client.Object) (client.Object, error) {
	empty, err := w.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	typed, ok := empty.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s: %w", kind.Kind, errors.ErrUnsupported)
	}
	return typed, into(kind, object, typed)
}

// Patch implements client.Writer, for merge patches.
func (w *world) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("a patch of type %s: %w", patch.Type(), errors.ErrUnsupported)
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	kind, stored, err := w.find(object, key)
	if err != nil {
		return err
	}
	changes := map[string]any{}
	if err := utiljson.Unmarshal(data, &changes); err != nil {
		return fmt.Errorf("reading a patch: %w", err)
	}
	if err := holdsFor(stored, changes); err != nil {
		return apierrors.NewConflict(groupOf(kind), key.Name, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		return err
	}
	merge(content, changes)
	changed, err := w.typed(kind, &unstructured.Unstructured{Object: content})
	if err != nil {
		return err
	}
	changed.SetResourceVersion(w.next())
	if changed.GetDeletionTimestamp().IsZero() || len(changed.GetFinalizers()) > 0 {
		w.put(kind, changed)
	} else {
		w.remove(kind, key)
	}
	if err := into(kind, changed, object); err != nil {
		return err
	}
	return w.note("patch", kind, "", key, w.does)
}

// errAnother is that an object of the name is there, and not the one that is meant.
var errAnother = errors.New("it is another one")

// holdsFor fails if a patch is for another object, or for another version of it.
func holdsFor(stored client.Object, patch map[string]any) error {
	uid, _, _ := unstructured.NestedString(patch, "metadata", "uid")
	version, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion")
	if uid != "" && uid != string(stored.GetUID()) || version != "" && version != stored.GetResourceVersion() {
		return errors.New("it is for another version")
	}
	return nil
}

// merge applies a JSON merge patch (RFC 7396).
func merge(to, patch map[string]any) {
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(to, key)
		case isMap:
			into, ok := to[key].(map[string]any)
			if !ok {
				into = map[string]any{}
			}
			merge(into, below)
			to[key] = into
		default:
			to[key] = value
		}
	}
}

// Delete implements client.Writer. What has a finalizer stays until others take that off.
func (w *world) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	key := client.ObjectKeyFromObject(object)
	kind, stored, err := w.find(object, key)
	if err != nil {
		return err
	}
	if wanted := options.Preconditions; wanted != nil && (wanted.UID != nil && *wanted.UID != stored.GetUID() ||
		wanted.ResourceVersion != nil && *wanted.ResourceVersion != stored.GetResourceVersion()) {
		return apierrors.NewConflict(groupOf(kind), key.Name, errAnother)
	}
	if len(stored.GetFinalizers()) == 0 {
		w.remove(kind, key)
	} else if stored.GetDeletionTimestamp().IsZero() {
		going, _ := stored.DeepCopyObject().(client.Object)
		now := metav1.NewTime(time.Now()).Rfc3339Copy()
		going.SetDeletionTimestamp(&now)
		going.SetResourceVersion(w.next())
		w.put(kind, going)
	}
	return w.note("delete", kind, "", key, w.does)
}

// Status implements client.Client.
func (w *world) Status() client.SubResourceWriter { return statuses{world: w} }

// statuses writes conditions of CAPI clusters. The methods that are left out are not used.
type statuses struct {
	client.SubResourceWriter

	world *world
}

// Apply implements client.SubResourceWriter.
func (s statuses) Apply(_ context.Context, apply runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	raw, err := json.Marshal(apply)
	if err != nil {
		return err
	}
	wanted := &clusterv1.Cluster{}
	if err := json.Unmarshal(raw, wanted); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(wanted)
	kind, stored, err := s.world.find(wanted, key)
	if err != nil {
		return err
	}
	after, ok := stored.DeepCopyObject().(*clusterv1.Cluster)
	if !ok || stored.GetUID() != wanted.UID {
		return apierrors.NewConflict(groupOf(kind), key.Name, errAnother)
	}
	does := []string{}
	for _, condition := range wanted.Status.Conditions {
		meta.SetStatusCondition(&after.Status.Conditions, condition)
		does = append(does, fmt.Sprintf("CAPI cluster %s: set condition %s to %s, %s",
			key, condition.Type, condition.Status, condition.Reason))
	}
	if len(does) == 0 {
		does = []string{s.world.does}
	}
	after.SetResourceVersion(s.world.next())
	s.world.put(kind, after)
	return s.world.note("patch", kind, "status", key, strings.Join(does, "; "))
}

// What the controller does not do.

// Apply implements client.Writer.
func (*world) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.ErrUnsupported
}

// Update implements client.Writer.
func (*world) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errors.ErrUnsupported
}

// DeleteAllOf implements client.Writer.
func (*world) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.ErrUnsupported
}

// SubResource implements client.Client.
func (*world) SubResource(string) client.SubResourceClient { return nil }

// Scheme implements client.Client.
func (w *world) Scheme() *runtime.Scheme { return w.scheme }

// RESTMapper implements client.Client.
func (w *world) RESTMapper() meta.RESTMapper { return w.mapper }

// GroupVersionKindFor implements client.Client.
func (w *world) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return w.kindOf(object)
}

// IsObjectNamespaced implements client.Client.
func (w *world) IsObjectNamespaced(object runtime.Object) (bool, error) {
	kind, err := w.kindOf(object)
	if err != nil {
		return false, err
	}
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace, err
}
