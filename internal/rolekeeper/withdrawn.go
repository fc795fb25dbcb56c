package rolekeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unbound are the namespaces whose RoleBinding this process has seen go. An API server may still grant for a moment
// what is gone, and the process ends a while later, when that is certain: until then it takes nothing there. A process
// that starts after that is refused.
type unbound struct {
	mu    sync.Mutex
	names map[string]bool
}

func (u *unbound) add(namespace string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[string]bool{}
	}
	u.names[namespace] = true
}

func (u *unbound) has(namespace string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[namespace]
}

// listeners are told of namespaces.
type listeners struct {
	mu   sync.Mutex
	tell []func(namespace string)
}

func (l *listeners) add(tell func(namespace string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = append(l.tell, tell)
}

func (l *listeners) all(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tell := range l.tell {
		tell(namespace)
	}
}

// Returned has a function called with each namespace in which there is a RoleBinding again, also with those in which
// there is one from the start.
func (r *Reconciler) Returned(tell func(namespace string)) { r.returned.add(tell) }

// tell tells of a RoleBinding that is not being deleted.
func (r *Reconciler) tell(binding any) {
	if is, ok := binding.(*metav1.PartialObjectMetadata); ok && !deleting(is) {
		r.returned.all(is.Namespace)
	}
}

// follow notes each RoleBinding that goes, in every replica: one that leads next has let nothing go itself. One may
// have gone between the questions of the instance and the watch, of which no event tells.
func (r *Reconciler) follow(ctx context.Context, bindings cache.Cache) error {
	informer, err := bindings.GetInformer(ctx, bindingMetadata())
	if err != nil {
		return err
	}
	// The cache starts beside this, and can be the later of both. Until then it refuses to be read.
	if !bindings.WaitForCacheSync(ctx) {
		return errors.New("the cache has stopped before it had them")
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: r.tell,
		UpdateFunc: func(before, after any) {
			// One that was deleted and created again between two events.
			if was, ok := before.(*metav1.PartialObjectMetadata); ok && deleting(was) {
				r.tell(after)
			}
		},
		DeleteFunc: func(binding any) {
			if key, err := toolscache.DeletionHandlingObjectToName(binding); err == nil && r.Scope.Owns(key.Namespace) {
				r.unbound.add(key.Namespace)
				r.Lost()
			}
		},
	})
	if err != nil {
		return err
	}
	for _, namespace := range r.Scope.Included() {
		err := r.Bindings.Get(ctx, client.ObjectKey{Namespace: namespace, Name: roleBinding}, bindingMetadata())
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil {
			r.Lost()
		}
	}
	return nil
}

// Unbound reports whether this process has seen the RoleBinding of a namespace go, and no other one come.
func (r *Reconciler) Unbound(namespace string) bool {
	err := r.Bindings.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: roleBinding}, bindingMetadata()) // from a cache
	return apierrors.IsNotFound(err) && r.unbound.has(namespace)
}

// Withdrawn reports whether the permissions in a namespace are being taken away, or were, although the
// namespace stays. The instance holds nothing there any more, and must not take anything again. It may when
// there is a RoleBinding again.
func (r *Reconciler) Withdrawn(ctx context.Context, name string) (bool, error) {
	binding := bindingMetadata()
	err := r.Bindings.Get(ctx, client.ObjectKey{Namespace: name, Name: roleBinding}, binding)
	switch {
	case apierrors.IsNotFound(err):
		return r.unbound.has(name), nil
	case err != nil:
		return false, fmt.Errorf("getting RoleBinding %s: %w", roleBinding, err)
	case !deleting(binding):
		return false, nil
	}
	// One of another instance says nothing about the permissions of this one, which has them otherwise then.
	if may, err := r.may(ctx, name); err != nil || !may {
		return false, err
	}
	ending, err := r.ending(ctx, name)
	return !ending, err
}
