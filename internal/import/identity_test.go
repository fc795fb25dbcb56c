package importer

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The management cluster is asked once who it is, until it has said so.
func TestIdentityIsReadOnce(t *testing.T) {
	broken, requests := errors.New("etcd is down"), 0
	kube := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u"}}
	reader := fake.NewClientBuilder().WithObjects(kube).
		WithIndex(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}, "metadata.name",
			func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if requests++; requests == 1 {
					return broken
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
	i := &identity{}
	if _, err := i.of(t.Context(), reader); !errors.Is(err, broken) {
		t.Errorf("a failure is hidden: %v", err)
	}
	for range 3 {
		if uid, err := i.of(t.Context(), reader); err != nil || uid != "u" {
			t.Errorf("got %q, %v", uid, err)
		}
	}
	if requests != 2 {
		t.Errorf("%d requests, want one that fails and one more", requests)
	}
}
