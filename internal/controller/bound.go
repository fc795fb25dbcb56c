package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// The API server limits the annotations of an object to 256 KiB. Labels, finalizers and owner references are limited by
// the size of the whole object alone, which is more than 1 MiB. What is read of them as a whole is bounded here. A copy
// that was bounded is still larger than the bound, so a reader can tell that something was left out, and never takes
// that for absent.
const (
	// MaxLabels is how many bytes the keys and values of labels may have that are read as a whole.
	MaxLabels = 16 << 10
	// MaxFinalizers is the same for finalizers, and MaxOwners for owner references.
	MaxFinalizers = 4 << 10
	MaxOwners     = 8 << 10
)

// Exceeds reports whether labels or annotations are larger than a bound, whether they were bounded or not.
func Exceeds(pairs map[string]string, most int) bool {
	for key, value := range pairs {
		most -= len(key) + len(value)
	}
	return most < 0
}

// Bound returns labels or annotations as they are, or as many of them, in the order of their keys, as exceed the bound.
// Those that always counts are among them, wherever they are in that order.
func Bound(pairs map[string]string, most int, always func(key string) bool) map[string]string {
	if !Exceeds(pairs, most) {
		return pairs
	}
	kept := map[string]string{} // A map that has shrunk takes as much memory as before.
	for key, value := range pairs {
		if always(key) {
			kept[key] = value
			most -= len(key) + len(value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if most < 0 {
			break
		}
		if !always(key) {
			kept[key] = pairs[key]
			most -= len(key) + len(pairs[key])
		}
	}
	return kept
}

// OnlyLabels returns the labels of some keys.
func OnlyLabels(labels map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// BoundFinalizers returns finalizers as they are, or as many of the first as exceed the bound, and those that are read.
// Finalizers are written as a whole, so a writer has to call WholeFinalizers before.
func BoundFinalizers(finalizers []string) []string {
	if !exceedsFinalizers(finalizers) {
		return finalizers
	}
	var kept []string
	most := MaxFinalizers
	for _, finalizer := range finalizers {
		if most >= 0 || slices.Contains(readFinalizers(), finalizer) {
			kept = append(kept, finalizer)
		}
		most -= len(finalizer)
	}
	return slices.Clip(kept)
}

func exceedsFinalizers(finalizers []string) bool {
	most := MaxFinalizers
	for _, finalizer := range finalizers {
		most -= len(finalizer)
	}
	return most < 0
}

// readFinalizers are those that are looked for.
func readFinalizers() []string {
	return []string{
		archelonv1.ImportFinalizer, archelonv1.RoleFinalizer, archelonv1.TurtlesFinalizer,
		metal3v1.BareMetalFinalizer, metal3v1.RemoteFinalizer, metal3v1.CredentialsFinalizer,
	}
}

// WholeFinalizers prepares a patch of two versions of an object, of which the first comes from a cache. If the cache
// has left finalizers out, it reads them into whole and puts them into both versions, which differ as before. It fails
// with a conflict if the object has changed since.
func WholeFinalizers(ctx context.Context, live client.Reader, whole, before, after client.Object) error {
	if !exceedsFinalizers(before.GetFinalizers()) || slices.Equal(before.GetFinalizers(), after.GetFinalizers()) {
		return nil
	}
	if err := live.Get(ctx, client.ObjectKeyFromObject(before), whole); err != nil {
		return fmt.Errorf("reading the finalizers of %s: %w", before.GetName(), err)
	}
	if whole.GetUID() != before.GetUID() || whole.GetResourceVersion() != before.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, before.GetName(), errChanged)
	}
	was, is := before.GetFinalizers(), after.GetFinalizers()
	finalizers := slices.DeleteFunc(slices.Clone(whole.GetFinalizers()), func(f string) bool {
		return slices.Contains(was, f) && !slices.Contains(is, f)
	})
	for _, f := range is {
		if !slices.Contains(finalizers, f) {
			finalizers = append(finalizers, f)
		}
	}
	before.SetFinalizers(whole.GetFinalizers())
	after.SetFinalizers(finalizers)
	return nil
}

var errChanged = errors.New("it has changed since it was read")

// BoundOwners returns the owner references that a reader may look for, as many of the first as exceed the bound.
func BoundOwners(owners []metav1.OwnerReference, reads func(metav1.OwnerReference) bool) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	most := MaxOwners
	for _, owner := range owners {
		size := len(owner.APIVersion) + len(owner.Kind) + len(owner.Name) + len(owner.UID)
		if most < 0 || size > MaxOwners || !reads(owner) {
			continue
		}
		kept = append(kept, owner)
		most -= size
	}
	return slices.Clip(kept)
}

// Head returns the beginning of a text, without what follows in memory.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:most]), "")
}
