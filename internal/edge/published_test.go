package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// failing returns a client whose requests all end with an error.
func failing(err error) client.Client {
	return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err },
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return err
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return err },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return err },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return err
		},
	})
}

func TestPublished(t *testing.T) {
	resource := schema.GroupResource{Group: "management.cattle.io", Resource: "clusters"}
	account := errors.New(`User "system:serviceaccount:archelon-system:edge-1" cannot delete resource "clusters"`)
	away := &url.Error{Op: "Delete", URL: "https://rancher.example.com:6443/apis", Err: errors.New("connection refused")}
	notHeld := &url.Error{Op: "Patch", URL: "https://rancher.example.com:6443/apis", Err: errors.New("another Archelon")}
	gateway := apierrors.NewGenericServerResponse(
		http.StatusBadGateway, "get", resource, "c-x7k2p", "nginx at rancher.example.com", 0, true)
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"NoConnection": {"the address is not published", away, noAnswer},
		"NoSeat":       {"an outage is nobody's fault", notHeld, noAnswer},
		"TooSlow":      {"no answer", context.DeadlineExceeded, noAnswer},
		"Gateway":      {"what stands before Rancher may say anything", gateway, noAnswer},
		"Forbidden":    {"the account is not published", apierrors.NewForbidden(resource, "c-x7k2p", account), refusal},
		"Unauthorized": {"credentials are refused", apierrors.NewUnauthorized("token of edge-1"), refusal},
		"NotFound":     {"an answer about the object", apierrors.NewNotFound(resource, "c-x7k2p"), "not found"},
		"Webhook":      {"as well", apierrors.NewInternalError(errors.New("failed calling webhook")), "calling webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			c, object := Published(failing(tc.err)), &corev1.ConfigMap{}
			for verb, got := range map[string]error{
				"get":    c.Get(t.Context(), client.ObjectKey{}, object),
				"list":   c.List(t.Context(), &corev1.ConfigMapList{}),
				"create": c.Create(t.Context(), object),
				"update": c.Update(t.Context(), object),
				"patch":  c.Patch(t.Context(), object, client.MergeFrom(object)),
				"delete": c.Delete(t.Context(), object),
				"read":   PublishedReader(failing(tc.err)).Get(t.Context(), client.ObjectKey{}, object),
			} {
				text := fmt.Sprint(got)
				if !strings.Contains(text, tc.want) || strings.Contains(text, "rancher.example.com") ||
					strings.Contains(text, "edge-1") {
					t.Errorf("%s: %s: %s", tc.reason, verb, text)
				}
				if !errors.Is(got, tc.err) {
					t.Errorf("%s: the cause is lost", verb)
				}
			}
		})
	}
	if err := Published(failing(nil)).Delete(t.Context(), &corev1.ConfigMap{}); err != nil {
		t.Error(err)
	}
}
