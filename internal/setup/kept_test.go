package setup

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/shard"
)

// swell has an object have as much metadata as an API server stores, under keys that are read and others.
func swell(object client.Object, domain string) client.Object {
	labels, annotations, finalizers := map[string]string{}, map[string]string{}, []string{}
	var owners []metav1.OwnerReference
	var managed []metav1.ManagedFieldsEntry
	for i := range 1000 {
		key := fmt.Sprintf("%s/%d", domain, i)
		labels[key], annotations[key] = strings.Repeat("v", 63), strings.Repeat("v", 250)
		finalizers = append(finalizers, key)
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Metal3Machine", Name: strings.Repeat("n", 250), UID: types.UID(key)})
		managed = append(managed, metav1.ManagedFieldsEntry{Manager: key, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)})
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	object.SetFinalizers(finalizers)
	object.SetOwnerReferences(owners)
	object.SetManagedFields(managed)
	object.SetNamespace("team")
	object.SetName("x")
	if machine, ok := object.(*unstructured.Unstructured); ok {
		values := map[string]any{}
		for key, value := range annotations {
			values[key] = value
		}
		machine.Object["spec"] = map[string]any{
			"failureDomain": strings.Repeat("v", 1<<20), "hostSelector": map[string]any{"matchLabels": values}, "args": values, "image": values,
		}
		machine.Object["status"] = map[string]any{"addresses": values}
	}
	return object
}

// Whoever may write HostClaims, Secrets and Metal3Machines in one namespace must not fill the memory of all.
func TestWhatTenantsWriteIsNotKeptWhole(t *testing.T) {
	all := Controllers()
	common, err := cacheOptions(all, shard.Scope{}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range all {
		if !strings.HasPrefix(c.Name, "hostclaim-") {
			continue
		}
		own := ownOptions(c, shard.Scope{}, 0)
		for _, watch := range c.Watches(shard.Scope{}) {
			options := common
			if watch.Own {
				options = own
			}
			for _, domain := range []string{"example.com", "x.metal3.io"} {
				seen++
				checkKept(t, c.Name, watch.Object, transformOf(options, watch.Object), domain)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d kinds were looked at", seen)
	}
}

// checkKept has a cache of a controller keep a large object.
func checkKept(t *testing.T, by string, of client.Object, keep func(any) (any, error), domain string) {
	t.Helper()
	const bound = 20 << 10
	// All labels of these are read: claims select hosts by them, policies Namespaces, and the import copies those of
	// Clusters.
	labelled := []string{"BareMetalHost", "Namespace", "Cluster"}
	object, _ := of.DeepCopyObject().(client.Object)
	before := size(t, swell(object, domain))
	kept, err := keep(object)
	if err != nil {
		t.Fatal(err)
	}
	is, _ := kept.(client.Object)
	kind := is.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(is).Elem().Name()
	}
	if len(is.GetManagedFields()) > 0 {
		t.Errorf("%s: a %s keeps its managedFields", by, kind)
	}
	if after := size(t, is); after > bound && !slices.Contains(labelled, kind) {
		t.Errorf("%s: of a %s of %d KiB with keys of %s, %d KiB are kept", by, kind, before>>10, domain, after>>10)
	}
	if is.GetName() != "x" || is.GetNamespace() != "team" {
		t.Errorf("%s: a %s has lost its name", by, kind)
	}
}

func size(t *testing.T, object client.Object) int {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// transformOf returns what a cache does with an object of a kind.
func transformOf(options cache.Options, object client.Object) func(any) (any, error) {
	for other, by := range options.ByObject {
		same := reflect.TypeOf(other) == reflect.TypeOf(object) &&
			other.GetObjectKind().GroupVersionKind() == object.GetObjectKind().GroupVersionKind()
		if same && by.Transform != nil {
			return by.Transform
		}
	}
	return options.DefaultTransform
}
