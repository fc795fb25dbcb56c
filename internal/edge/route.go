package edge

import (
	"context"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Route returns a client for what goes through objects of both clusters, as releasing what is held does: it reads,
// patches and deletes Rancher's kinds in Rancher's cluster and all others in the management cluster. Everything else it
// does in the management cluster.
func Route(management, rancher client.Client) client.Client {
	return &route{Client: management, rancher: rancher}
}

// RouteReader is Route for reads.
func RouteReader(management, rancher client.Reader, scheme *runtime.Scheme) client.Reader {
	return &routeReader{management: management, rancher: rancher, scheme: scheme}
}

type route struct {
	client.Client

	rancher client.Client
}

func (r *route) of(object runtime.Object) client.Client {
	if ofRancher(object, r.Scheme()) {
		return r.rancher
	}
	return r.Client
}

// Get implements client.Reader.
func (r *route) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return r.of(object).Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (r *route) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.of(list).List(ctx, list, options...)
}

// Patch implements client.Writer.
func (r *route) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return r.of(object).Patch(ctx, object, patch, options...)
}

// Delete implements client.Writer.
func (r *route) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return r.of(object).Delete(ctx, object, options...)
}

type routeReader struct {
	management, rancher client.Reader
	scheme              *runtime.Scheme
}

func (r *routeReader) of(object runtime.Object) client.Reader {
	if ofRancher(object, r.scheme) {
		return r.rancher
	}
	return r.management
}

// Get implements client.Reader.
func (r *routeReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return r.of(object).Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (r *routeReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.of(list).List(ctx, list, options...)
}

// ofRancher reports whether an object is in Rancher's cluster. What has no kind fails where it is used.
func ofRancher(object runtime.Object, scheme *runtime.Scheme) bool {
	kind, err := apiutil.GVKForObject(object, scheme)
	return err == nil && (kind.Group == managementv3.GroupName || kind.Group == provisioningv1.GroupName)
}
