package remote

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// cached has Secrets as the cache keeps them, and the claims that use them.
type cached struct {
	client.Reader

	claims []metal3v1.HostClaim
}

// Get implements client.Reader.
func (c cached) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := c.Reader.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	_, err := keepFinalizers(object)
	return err
}

// List implements client.Reader.
func (c cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if claims, ok := list.(*metal3v1.HostClaimList); ok {
		claims.Items = c.claims
	}
	return nil
}

// A list is patched as a whole, and the cache does not have all of one that is very long.
func TestHolderTakesNoFinalizersOfOthers(t *testing.T) {
	user := metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{metal3v1.RemoteFinalizer}}}
	for _, others := range []int{1, 200} {
		for name, tc := range map[string]struct {
			claims []metal3v1.HostClaim
			held   bool
		}{"in use": {[]metal3v1.HostClaim{user}, false}, "not in use any more": {nil, true}} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}}
			for i := range others {
				secret.Finalizers = append(secret.Finalizers, fmt.Sprintf("example.com/%d", i))
			}
			want := slices.Clone(secret.Finalizers)
			if tc.held {
				secret.Finalizers = append(secret.Finalizers, metal3v1.CredentialsFinalizer)
			} else {
				want = append(want, metal3v1.CredentialsFinalizer)
			}
			c := fake.NewClientBuilder().WithScheme(simScheme()).WithObjects(secret).Build()
			key := types.NamespacedName{Namespace: "team", Name: "s"}
			h := &Holder{Client: c, Read: Readers{Secrets: cached{Reader: c}, Claims: cached{claims: tc.claims}, Live: c}}
			if _, err := h.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), key, secret); err != nil || !slices.Equal(secret.Finalizers, want) {
				t.Errorf("a Secret with %d finalizers of others that is %s has %d, %v, want %d", others, name, len(secret.Finalizers), err, len(want))
			}
		}
	}
}
