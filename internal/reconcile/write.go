package reconcile

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overtaken reports whether a write failed because the object has changed, or is gone. The event of that wakes the
// controller, if it has not done so already.
func Overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// IgnoreOvertaken returns no error for one that says that a write was overtaken.
func IgnoreOvertaken(err error) error {
	if Overtaken(err) {
		return nil
	}
	return err
}

var errOld = errors.New("it has changed")

// Outdated is what an API server says to a write that is based on an old version. The resource is as in a path of the
// API, for example "secrets".
func Outdated(resource, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errOld)
}

// Locked is a patch that fails if the API server does not have the version before.
func Locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Deleter deletes objects.
type Deleter interface {
	Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error
}

// DeleteSeen deletes the version of an object that was seen, and no other one. It does not fail if there is none.
func DeleteSeen(ctx context.Context, by Deleter, seen client.Object) error {
	uid, version := seen.GetUID(), seen.GetResourceVersion()
	return client.IgnoreNotFound(by.Delete(ctx, seen, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}
