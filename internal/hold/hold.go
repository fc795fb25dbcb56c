// Package hold is how an instance holds objects: a finalizer of ours says that there is something to undo before an
// object may go, and marks, which are annotations and labels, say whose it is. Controllers take and release objects by
// it. The uninstallation and the withdrawal of permissions release what any controller holds, and know no controller
// for that: a new one is listed in All.
package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// FieldOwner is the field manager of what is written to objects in the management cluster.
const FieldOwner = "archelon"

// Finalizer is one of ours, or of a peer.
type Finalizer string

const (
	// Import holds CAPI clusters that may have a Rancher cluster, and the Rancher clusters that were created for them.
	Import Finalizer = archelonv1.ImportFinalizer
	// Role holds the RoleBindings that give namespaces to an isolated instance.
	Role Finalizer = archelonv1.RoleFinalizer
	// BareMetal holds HostClaims that may have a host.
	BareMetal Finalizer = metal3v1.BareMetalFinalizer
	// Remote holds HostClaims that may have a claim in another cluster stand for them.
	Remote Finalizer = metal3v1.RemoteFinalizer
	// Credentials holds Secrets with the kubeconfigs of these.
	Credentials Finalizer = metal3v1.CredentialsFinalizer
)

// On reports whether the finalizer is on an object.
func (f Finalizer) On(object client.Object) bool {
	return controllerutil.ContainsFinalizer(object, string(f))
}

// Add puts the finalizer on an object.
func (f Finalizer) Add(object client.Object) { controllerutil.AddFinalizer(object, string(f)) }

// Remove takes the finalizer off an object.
func (f Finalizer) Remove(object client.Object) { controllerutil.RemoveFinalizer(object, string(f)) }

// Holding is what one controller holds: objects of others, and what it created for them. Its finalizer is on both.
type Holding struct {
	Finalizer Finalizer
	// Kind is that of the objects of others. Annotation InstanceAnnotation names the instance that works on one, Marks
	// are annotations that name what was created for it.
	Kind  schema.GroupVersionKind
	Marks []string
	// Unmarked objects name no instance: they are held by the one that works in their namespace.
	Unmarked bool
	// Beside are the kinds of what was created in the namespaces of these objects, Apart those without a namespace.
	Beside, Apart []schema.GroupVersionKind
	// UIDLabel on what was created has the UID of the object that it was created for, NamespaceLabel its namespace.
	UIDLabel, NamespaceLabel string
	// Origin is the management cluster that what is apart carries, because that is in another cluster, with those of
	// others. Empty where it is not.
	Origin types.UID
}

// From returns the holdings of a management cluster whose Rancher is in another cluster, where nothing is beside an
// object; as they are if the origin is empty.
func From(origin types.UID, holdings []Holding) []Holding {
	if origin == "" {
		return holdings
	}
	for i := range holdings {
		holdings[i].Origin, holdings[i].Beside = origin, nil
	}
	return holdings
}

// Origin selects the Rancher clusters of one management cluster: those that carry its UID or, where Rancher is
// in it, those that carry none.
func Origin(origin types.UID) labels.Requirement {
	operator, values := selection.DoesNotExist, []string(nil)
	if origin != "" {
		operator, values = selection.Equals, []string{string(origin)}
	}
	requirement, err := labels.NewRequirement(archelonv1.ManagementClusterLabel, operator, values)
	if err != nil {
		panic(err) // The key is a constant, and a UID is a valid value.
	}
	return *requirement
}

// Kinds returns all kinds that may carry the finalizer.
func (h Holding) Kinds() []schema.GroupVersionKind {
	return slices.Concat([]schema.GroupVersionKind{h.Kind}, h.Beside, h.Apart)
}

// All returns what the controllers hold.
func All() []Holding { return append([]Holding{Imports()}, Claims()...) }

// Claims returns what the controllers of HostClaims hold. A host is not held: it stays as it is when its claim is
// released. Claims come first: a Secret is held as long as one uses it.
func Claims() []Holding {
	claim := metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind)
	return []Holding{
		{Finalizer: BareMetal, Kind: claim, Unmarked: true}, {Finalizer: Remote, Kind: claim, Unmarked: true},
		{Finalizer: Credentials, Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Unmarked: true},
	}
}

// Imports returns what the import holds.
func Imports() Holding {
	return Holding{
		Finalizer:      Import,
		Kind:           clusterv1.GroupVersion.WithKind("Cluster"),
		Marks:          []string{archelonv1.RecordAnnotation},
		Beside:         []schema.GroupVersionKind{provisioningv1.SchemeGroupVersion.WithKind("Cluster")},
		Apart:          []schema.GroupVersionKind{managementv3.SchemeGroupVersion.WithKind("Cluster")},
		UIDLabel:       archelonv1.OwnerUIDLabel,
		NamespaceLabel: archelonv1.OwnerNamespaceLabel,
	}
}

// Take holds an object for an instance, with marks that name what is created for it.
func (h Holding) Take(object client.Object, instance string, marks map[string]string) {
	h.Finalizer.Add(object)
	annotations.AddAnnotations(object, marks)
	annotations.AddAnnotations(object, map[string]string{archelonv1.InstanceAnnotation: instance})
}

// Drop ends the hold on an object. The marks that name what was created for it go too if nothing of that stays.
func (h Holding) Drop(object client.Object, nothingStays bool) {
	h.Finalizer.Remove(object)
	marks := object.GetAnnotations()
	delete(marks, archelonv1.InstanceAnnotation)
	for _, mark := range h.Marks {
		if nothingStays {
			delete(marks, mark)
		}
	}
	object.SetAnnotations(marks)
}

// Change writes what change does to the metadata of an object, if that is the copy that the API server has: a patch of
// a list replaces all of it, and what another instance has taken over since is not to be touched. What changes nothing
// is not written.
func Change(ctx context.Context, c client.Client, object client.Object, change func()) error {
	before, _ := object.DeepCopyObject().(client.Object)
	change()
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	locked := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return c.Patch(ctx, object, locked, client.FieldOwner(FieldOwner))
}

// Release is Change for an object that nobody needs to be there any more.
func Release(ctx context.Context, c client.Client, object client.Object, change func()) error {
	kind, key := object.GetObjectKind().GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(object)
	if err := Change(ctx, c, object, change); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("letting %s %s go: %w", kind, key, err)
	}
	return nil
}

// Object is what is read of an object.
type Object = metav1.PartialObjectMetadata

// Lister lists what is held in some namespaces.
type Lister struct {
	// Reader reads from the API server: caches do not have what has left the scope.
	Reader client.Reader
	// Holdings are what it looks for.
	Holdings []Holding
	// Namespaces are where it looks, everywhere if there are none.
	Namespaces []string
	// CreatedFor is the namespace that the label of something without a namespace has to name; any if empty.
	CreatedFor string
	// Forbidden returns what a missing permission in a namespace means, which is empty for all: nil if nothing is held
	// there.
	Forbidden func(ctx context.Context, namespace string, err error) error
}

// Objects returns the objects of others that are held.
func (l Lister) Objects(ctx context.Context) ([]Object, error) {
	var found []Object
	for _, h := range l.Holdings {
		objects, err := l.list(ctx, []schema.GroupVersionKind{h.Kind}, l.Namespaces, h.Finalizer.On)
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

// Visitor is told of what is held.
type Visitor struct {
	// Created is called for what was created, with the object that it was created for, nil if that is gone.
	Created func(h Holding, created, object *Object) error
	// Held is called for an object of others.
	Held func(h Holding, object *Object) error
}

// Visit has the visitor release what is held, what was created first: an object that is released may be gone at once,
// and what was created for it must not be held then. So objects are left out if something failed before.
func (l Lister) Visit(ctx context.Context, v Visitor) []error {
	var errs []error
	for _, h := range l.Holdings {
		errs = append(errs, l.visit(ctx, h, v)...)
	}
	return errs
}

func (l Lister) visit(ctx context.Context, h Holding, v Visitor) (errs []error) {
	labelled, apart := client.HasLabels{h.UIDLabel}, client.MatchingLabels{}
	if l.CreatedFor != "" {
		apart[h.NamespaceLabel] = l.CreatedFor
	}
	every := func(client.Object) bool { return true }
	wanted := every
	if len(h.Beside)+len(h.Apart) == 0 {
		wanted = h.Finalizer.On // Nothing asks for the others.
	}
	objects, err := l.list(ctx, []schema.GroupVersionKind{h.Kind}, l.Namespaces, wanted)
	inside, err2 := l.list(ctx, h.Beside, l.Namespaces, every, labelled)
	origin := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(Origin(h.Origin))}
	outside, err3 := l.list(ctx, h.Apart, nil, every, origin, labelled, apart)
	if err := errors.Join(err, err2, err3); err != nil {
		return []error{err}
	}
	byUID := map[string]*Object{}
	for i := range objects {
		byUID[string(objects[i].UID)] = &objects[i]
	}
	for _, one := range slices.Concat(inside, outside) {
		if h.Finalizer.On(&one) {
			errs = append(errs, v.Created(h, &one, byUID[one.Labels[h.UIDLabel]]))
		}
	}
	if errors.Join(errs...) == nil {
		for i := range objects {
			if h.Finalizer.On(&objects[i]) {
				errs = append(errs, v.Held(h, &objects[i]))
			}
		}
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// page is how many objects are read at once. A cluster can have many Secrets.
const page = 500

// list returns the wanted objects of some kinds. A kind that does not exist has none.
func (l Lister) list(
	ctx context.Context, kinds []schema.GroupVersionKind, namespaces []string, wanted func(client.Object) bool,
	options ...client.ListOption,
) ([]Object, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var found []Object
	for _, kind := range kinds {
		for _, namespace := range namespaces {
			objects, err := l.within(ctx, kind, namespace, wanted, options)
			if err != nil {
				return nil, fmt.Errorf("listing %s.%s: %w", kind.Kind, kind.Group, err)
			}
			found = append(found, objects...)
		}
	}
	return found, nil
}

func (l Lister) within(
	ctx context.Context, kind schema.GroupVersionKind, namespace string, wanted func(client.Object) bool,
	options []client.ListOption,
) ([]Object, error) {
	var found []Object
	for next := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := l.Reader.List(ctx, list, append(
			slices.Clone(options), client.InNamespace(namespace), client.Limit(page), client.Continue(next),
		)...)
		if apierrors.IsForbidden(err) {
			err = l.Forbidden(ctx, namespace, err)
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		for i := range list.Items {
			if wanted(&list.Items[i]) {
				found = append(found, list.Items[i])
			}
		}
		if next = list.Continue; next == "" {
			return found, nil
		}
	}
}
