package setup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

// mostKept is how many bytes of JSON a cache may keep of an object whose metadata has megabytes.
const mostKept = 160 << 10

// unbounded are the kinds whose metadata caches keep as it is, by their controllers, and why that may be.
var unbounded = map[string]string{
	"agent-manifest Setting":                        "It is that of the import.",
	"rancher-import Setting":                        "Rancher's settings have no namespace: administrators write them.",
	"role-keeper RoleBinding":                       "There is one of its name in a namespace.",
	"oci-credential-translation OCIClusterIdentity": "It is that of the controller of identities, which reduces it.",
	"hostclaim-baremetal BareMetalHost":             "Administrators write hosts, and claims select them by their labels.",
	"hostclaim-machines BareMetalHost":              "The controller created them.",
}

// TestCachesAreBounded takes each kind that any controller receives. A new one needs a transform, or a line above.
func TestCachesAreBounded(t *testing.T) {
	for _, selecting := range []string{"", "tenants=true"} {
		opts := &options.Options{
			Import: true, TurtlesNamespaces: []string{"turtles"}, NamespaceSelector: selecting, ImportSelector: "example.com/label-0003",
			Identity: options.Identity{SecretNamespaces: []string{"secrets"}},
		}
		opts.Credentials.Namespace = "identities"
		common, err := shared(shard.Scope{}, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range (&parts{opts: opts}).controllers() {
			for _, watch := range c.Watches(shard.Scope{}) {
				kind := kindOf(t, c, watch.Object)
				if unbounded[c.Name+" "+kind.Kind] != "" {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %v", c.Name, kind.Kind, watch.Own)+selecting, func(t *testing.T) {
					checkBound(t, transformOf(t, c, watch, common), watch.Object, limitOf(c, kind.Kind, selecting != "" && !watch.Own))
				})
			}
		}
	}
}

// limitOf is how much a cache may keep of an object of a kind. Namespaces are selected by their labels, which
// administrators write.
func limitOf(c controller.Controller, kind string, selecting bool) int {
	if kind == "Namespace" && (selecting || !strings.HasPrefix(c.Name, "rancher-import")) {
		return mostKept + hugeLabels
	}
	return mostKept
}

func kindOf(t *testing.T, c controller.Controller, object client.Object) schema.GroupVersionKind {
	t.Helper()
	s, err := scheme.New()
	if c.Scheme != nil && err == nil {
		if own, ownErr := c.Scheme(); ownErr == nil {
			if kind, kindErr := apiutil.GVKForObject(object, own); kindErr == nil {
				return kind
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	kind, err := apiutil.GVKForObject(object, s)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// transformOf returns what a cache does with the objects of a watch.
func transformOf(
	t *testing.T, c controller.Controller, watch controller.Watch, common map[client.Object]cache.ByObject,
) toolscache.TransformFunc {
	t.Helper()
	transform := watch.By.Transform
	if !watch.Own && transform == nil {
		transform = sharedBy(t, c, common, kindOf(t, c, watch.Object)).Transform
	}
	if transform == nil {
		t.Fatal("nothing reduces it")
	}
	return transform
}

// sharedBy returns how the shared cache has a kind: as internal/setup says, or as another controller does.
func sharedBy(t *testing.T, c controller.Controller, common map[client.Object]cache.ByObject, kind schema.GroupVersionKind) cache.ByObject {
	t.Helper()
	for object, by := range common {
		if kindOf(t, c, object) == kind {
			return by
		}
	}
	for _, other := range Controllers() {
		for _, watch := range other.Watches(shard.Scope{}) {
			if !watch.Own && watch.By.Transform != nil && kindOf(t, other, watch.Object) == kind {
				return watch.By
			}
		}
	}
	return cache.ByObject{}
}

// hugeLabels is how many bytes the labels have.
const hugeLabels = 1 << 20

// fill gives an object as much metadata as somebody can write who may change it. The API server limits annotations to
// 256 KiB, and the object to 1.5 MiB.
func fill(object client.Object) {
	labels, annotations := map[string]string{}, map[string]string{}
	for i := 0; len(labels)*350 < hugeLabels; i++ {
		labels[fmt.Sprintf("example.com/label-%04d-%s", i, strings.Repeat("x", 250))] = strings.Repeat("v", 63)
	}
	for i := range 200 {
		annotations[fmt.Sprintf("example.com/annotation-%03d-%s", i, strings.Repeat("x", 200))] = strings.Repeat("v", 300)
		annotations[fmt.Sprintf("x.metal3.io/annotation-%03d-%s", i, strings.Repeat("x", 200))] = strings.Repeat("v", 300)
		annotations[fmt.Sprintf("archelon.io/annotation-%03d", i)] = strings.Repeat("v", 600)
	}
	var finalizers []string
	var owners []metav1.OwnerReference
	for i := range 2000 {
		finalizers = append(finalizers, fmt.Sprintf("example.com/finalizer-%04d-%s", i, strings.Repeat("x", 200)))
		owners = append(owners, metav1.OwnerReference{
			APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster", Name: fmt.Sprintf("owner-%04d-%s", i, strings.Repeat("x", 200)),
			UID: types.UID(fmt.Sprintf("uid-%04d", i)),
		})
	}
	object.SetNamespace("tenant")
	object.SetName("prod")
	object.SetUID("uid-1")
	object.SetResourceVersion("7")
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	object.SetFinalizers(finalizers)
	object.SetOwnerReferences(owners)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"` + strings.Repeat("x", 100<<10) + `":{}}}`)}})
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
}

func checkBound(t *testing.T, transform toolscache.TransformFunc, of client.Object, limit int) {
	t.Helper()
	object, _ := of.DeepCopyObject().(client.Object)
	fill(object)
	reduced, err := transform(object)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := reduced.(client.Object)
	if !ok || kept.GetName() != "prod" || kept.GetResourceVersion() != "7" || kept.GetUID() != "uid-1" {
		t.Fatalf("it returned a %T of another object", reduced)
	}
	once := size(t, kept)
	if once > limit {
		t.Errorf("it keeps %d KiB of JSON: labels %d, annotations %d, finalizers %d, owners %d; want %d KiB", once>>10, size(t, kept.GetLabels())>>10,
			size(t, kept.GetAnnotations())>>10, size(t, kept.GetFinalizers())>>10, size(t, kept.GetOwnerReferences())>>10, limit>>10)
	}
	// An informer may call it on what it returned.
	again, err := transform(kept.DeepCopyObject())
	if twice := size(t, again); err != nil || twice != once {
		t.Errorf("called again, it keeps %d bytes of %d: %v", twice, once, err)
	}
}

func size(t *testing.T, what any) int {
	t.Helper()
	raw, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}
