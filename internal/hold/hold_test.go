package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/scheme"
)

const finalizer = "archelon.io/rancher-import"

func cluster(namespace, name string, finalizers ...string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Finalizers: finalizers}}
}

// created returns the metadata of something that was created for a cluster.
func created(namespace, of string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: of + "-capi", Finalizers: finalizers, Labels: map[string]string{
		"archelon.io/capi-cluster-uid": "uid-" + of, "cluster-api.cattle.io/capi-cluster-owner-ns": "tenant",
	}}
}

func world(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
}

// closed returns a client that may not list in a namespace.
func closed(api client.WithWatch, namespace string) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := client.ListOptions{}
			if o.ApplyOptions(opts); namespace != "" && o.Namespace == namespace {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "", errors.New("no"))
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// What was created is visited first, and nothing that is not held.
func TestVisit(t *testing.T) {
	objects := []client.Object{
		cluster("tenant", "held", finalizer, "somebody.else/s"), cluster("tenant", "free"), cluster("tenant", "released", "somebody.else/s"), cluster("other", "far", finalizer),
		&provisioningv1.Cluster{ObjectMeta: created("tenant", "held", finalizer)}, &provisioningv1.Cluster{ObjectMeta: created("tenant", "free")},
		&provisioningv1.Cluster{ObjectMeta: created("tenant", "released", finalizer)}, &provisioningv1.Cluster{ObjectMeta: created("other", "far", finalizer)},
		&managementv3.Cluster{ObjectMeta: created("", "held", finalizer)}, &managementv3.Cluster{ObjectMeta: created("", "gone", finalizer)},
		&managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "local", Finalizers: []string{finalizer}}},
	}
	elsewhere := &managementv3.Cluster{ObjectMeta: created("", "elsewhere", finalizer)}
	elsewhere.Labels["cluster-api.cattle.io/capi-cluster-owner-ns"] = "other"
	objects = append(objects, elsewhere)
	for name, tc := range map[string]struct {
		reason     string
		namespaces []string
		createdFor string
		forbidden  string
		fail       string
		want       []string
		errs       int
	}{
		"Everywhere": {
			reason: "all is visited, whether its object is there or not",
			want: []string{
				"created far-capi for far", "created held-capi for held", "created released-capi for released", "created elsewhere-capi for nothing",
				"created gone-capi for nothing", "created held-capi for held", "object far", "object held",
			},
		},
		"OneNamespace": {
			reason: "what has no namespace is visited whatever it is for", namespaces: []string{"tenant"},
			want: []string{
				"created held-capi for held", "created released-capi for released", "created elsewhere-capi for nothing", "created gone-capi for nothing",
				"created held-capi for held", "object held",
			},
		},
		"CreatedFor": {
			reason: "unless it is to be for one namespace", namespaces: []string{"tenant"}, createdFor: "tenant",
			want: []string{
				"created held-capi for held", "created released-capi for released", "created gone-capi for nothing", "created held-capi for held", "object held",
			},
		},
		"Forbidden": {reason: "there is nothing where nobody may look", namespaces: []string{"other", "tenant"}, createdFor: "tenant", forbidden: "tenant", want: []string{
			"created far-capi for far", "created gone-capi for nothing", "created held-capi for nothing", "object far",
		}},
		"Fails": {reason: "an object is not released before what was created for it", namespaces: []string{"tenant"}, createdFor: "tenant", fail: "gone-capi", errs: 1, want: []string{
			"created held-capi for held", "created released-capi for released", "created gone-capi for nothing", "created held-capi for held",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lister := Lister{Holdings: All(), Reader: closed(world(t, objects...), tc.forbidden), Namespaces: tc.namespaces, CreatedFor: tc.createdFor, Forbidden: func(_ context.Context, namespace string, err error) error {
				if namespace != tc.forbidden {
					return err
				}
				return nil
			}}
			var got []string
			visit := func(format string, one *Object, args ...any) error {
				got = append(got, fmt.Sprintf(format, append([]any{one.Name}, args...)...))
				if one.Name == tc.fail {
					return errors.New("fails")
				}
				return nil
			}
			errs := lister.Visit(t.Context(), Visitor{
				Created: func(_ Holding, one, object *Object) error {
					owner := "nothing"
					if object != nil {
						owner = object.Name
					}
					return visit("created %s for %s", one, owner)
				},
				Held: func(_ Holding, one *Object) error { return visit("object %s", one) },
			})
			if diff := cmp.Diff(tc.want, got); diff != "" || len(errs) != tc.errs {
				t.Errorf("%s: %v, visited (-want +got):\n%s", tc.reason, errs, diff)
			}
		})
	}
}

func TestTakeAndDrop(t *testing.T) {
	object := cluster("tenant", "a", "somebody.else/s")
	object.Annotations = map[string]string{"note": "mine"}
	api := world(t, object)
	holding := Imports()
	change := func(f func()) {
		t.Helper()
		if err := Change(t.Context(), api, object, f); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
	}
	want := func(reason string, finalizers []string, annotations map[string]string) {
		t.Helper()
		if !slices.Equal(object.Finalizers, finalizers) || !cmp.Equal(object.Annotations, annotations) {
			t.Errorf("%s: got %v, %v", reason, object.Finalizers, object.Annotations)
		}
	}
	take := func() { holding.Take(object, "ns/one", map[string]string{"archelon.io/rancher-cluster": "v3/c-abcde"}) }
	change(take)
	taken := map[string]string{"note": "mine", "archelon.io/instance": "ns/one", "archelon.io/rancher-cluster": "v3/c-abcde"}
	want("it is held for the instance", []string{"somebody.else/s", finalizer}, taken)
	version := object.ResourceVersion
	change(take)
	if object.ResourceVersion != version {
		t.Error("what is held already is written again")
	}
	change(func() { holding.Drop(object, false) })
	want("what was created stays, and its name", []string{"somebody.else/s"}, map[string]string{"note": "mine", "archelon.io/rancher-cluster": "v3/c-abcde"})
	change(take)
	change(func() { holding.Drop(object, true) })
	want("nothing stays", []string{"somebody.else/s"}, map[string]string{"note": "mine"})
}

// Another instance may have taken the object over since it was read.
func TestChangeOfWhatHasChanged(t *testing.T) {
	api := world(t, cluster("tenant", "a", finalizer))
	old, current := cluster("tenant", "a"), cluster("tenant", "a")
	for _, copied := range []*clusterv1.Cluster{old, current} {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(copied), copied); err != nil {
			t.Fatal(err)
		}
	}
	if err := Change(t.Context(), api, current, func() { current.Labels = map[string]string{"a": "b"} }); err != nil {
		t.Fatal(err)
	}
	drop := func() { Import.Remove(old) }
	if err := Release(t.Context(), api, old, drop); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := Change(t.Context(), api, current, func() { Import.Remove(current) }); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	Import.Add(old)
	if err := Release(t.Context(), api, old, drop); err != nil {
		t.Errorf("got %v, want what is gone to be released", err)
	}
}
