package workload

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Typed reads and writes objects of kinds of a scheme. All its requests are bounded as those of the Client. That an
// object is not there, is there already, or has changed, is an error of apimachinery's kind, without the server's text;
// all else is a Problem.
type Typed struct {
	client *Client
	api    client.Client
}

// Typed returns a client of kinds of a scheme, whose resources are known beforehand.
func (c *Client) Typed(scheme *runtime.Scheme, kinds meta.RESTMapper) (*Typed, error) {
	api, err := client.New(c.config, client.Options{HTTPClient: c.http, Scheme: scheme, Mapper: kinds})
	if err != nil {
		return nil, errors.New("the client of the workload cluster cannot be made from its kubeconfig")
	}
	return &Typed{client: c, api: api}, nil
}

// Get implements client.Reader.
func (t *Typed) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return t.do(ctx, "getting", into, key.Name, func(ctx context.Context) error { return t.api.Get(ctx, key, into, opts...) })
}

// List implements client.Reader.
func (t *Typed) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return t.do(ctx, "listing", into, "", func(ctx context.Context) error { return t.api.List(ctx, into, opts...) })
}

// Create creates an object.
func (t *Typed) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	return t.do(ctx, "creating", object, object.GetName(), func(ctx context.Context) error {
		return t.api.Create(ctx, object, opts...)
	})
}

// Patch patches an object.
func (t *Typed) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return t.do(ctx, "changing", object, object.GetName(), func(ctx context.Context) error {
		return t.api.Patch(ctx, object, patch, opts...)
	})
}

// Delete deletes an object.
func (t *Typed) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	return t.do(ctx, "deleting", object, object.GetName(), func(ctx context.Context) error {
		return t.api.Delete(ctx, object, opts...)
	})
}

var errChanged = errors.New("it has changed")

func (t *Typed) do(
	ctx context.Context, action string, object runtime.Object, name string, request func(context.Context) error,
) error {
	gvk, err := t.api.GroupVersionKindFor(object)
	if err != nil {
		return fmt.Errorf("%s %T: %w", action, object, err)
	}
	kind := schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}
	var known error
	err = t.client.call(ctx, action+" "+gvk.Kind+" "+name, func(ctx context.Context) error {
		err := request(ctx)
		switch {
		case apierrors.IsNotFound(err) && isOf(err, name):
			known = apierrors.NewNotFound(kind, name)
		case apierrors.IsAlreadyExists(err):
			known = apierrors.NewAlreadyExists(kind, name)
		case apierrors.IsConflict(err):
			known = apierrors.NewConflict(kind, name, errChanged)
		default:
			return err
		}
		return nil
	})
	if known != nil {
		return known
	}
	return err
}

// isOf reports whether an API server says of an object that it is not there, and not of a namespace or of a kind.
func isOf(err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || status.Status().Details.Name != name {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false // It is the page of a server that does not know the path.
		}
	}
	return status.Status().Details.Kind != "namespaces"
}
