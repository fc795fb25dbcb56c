package rolekeeper

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

// claims reports whether the namespace has HostClaims left, or something else that their controllers hold. An event
// wakes the keeper then. Without feature host-claim there are no permissions for that, and nothing is held; and without
// the CRD there are no claims.
func (r *Reconciler) claims(ctx context.Context, namespace string) (bool, error) {
	unmarked := slices.DeleteFunc(slices.Clone(r.Holdings), func(h hold.Holding) bool { return !h.Unmarked })
	if len(unmarked) == 0 {
		return false, nil
	}
	// It begins before the look, so that nothing ends between the two unseen.
	if err := r.await(namespace); err != nil { //nolint:contextcheck // the watches outlive the run
		return !absent(err), ignoreAbsent(err)
	}
	left := metadataList(metal3v1.GroupVersion.WithKind("HostClaimList"))
	err := r.APIReader.List(ctx, left, client.InNamespace(namespace), client.Limit(1))
	if err != nil || len(left.Items) > 0 {
		return !absent(err), ignoreAbsent(err)
	}
	held, err := hold.Lister{
		Reader: r.APIReader, Holdings: unmarked, Namespaces: []string{namespace},
		Forbidden: func(context.Context, string, error) error { return nil },
	}.Objects(ctx)
	if err == nil && len(held) == 0 {
		r.awaited.end(namespace)
	}
	return len(held) > 0, err
}

// absent reports whether an API server has no claims to show, or none for this instance.
func absent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

func ignoreAbsent(err error) error {
	if absent(err) {
		return nil
	}
	return err
}

func metadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	return list
}

// awaited are the namespaces in deletion that are watched until nothing is left of claims in them. These are few, and
// for some minutes: a cache of all claims and Secrets of the scope would be there all the time.
type awaited struct {
	mu    sync.Mutex
	ends  map[string]func()
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	//nolint:containedctx // it is that of the controller, which watches end with
	ctx context.Context
}

// source takes the queue of the controller.
func (a *awaited) source() source.Func {
	return func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ctx, a.queue, a.ends = ctx, queue, map[string]func(){}
		return nil
	}
}

// end ends what watches a namespace.
func (a *awaited) end(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := a.ends[namespace]; end != nil {
		end()
		delete(a.ends, namespace)
	}
}

// await has the keeper look at a namespace again when a claim there goes, or a Secret changes that one may have used.
func (r *Reconciler) await(namespace string) error {
	a := &r.awaited
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ends[namespace] != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(a.ctx)
	for _, kind := range []schema.GroupVersionKind{
		metal3v1.GroupVersion.WithKind("HostClaimList"), corev1.SchemeGroupVersion.WithKind("SecretList"),
	} {
		events, err := r.Watcher.Watch(ctx, metadataList(kind), client.InNamespace(namespace))
		if err != nil {
			cancel()
			return err
		}
		go a.follow(ctx, events, namespace)
	}
	a.ends[namespace] = cancel
	return nil
}

// follow looks at a namespace after each event, until the watch ends. API servers end each at some time. The next look
// begins another one then.
func (a *awaited) follow(ctx context.Context, events watch.Interface, namespace string) {
	defer events.Stop()
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: namespace}}
	for event := range events.ResultChan() {
		if event.Type == watch.Deleted || event.Type == watch.Modified {
			a.queue.Add(request)
		}
	}
	if ctx.Err() == nil {
		a.end(namespace)
		a.queue.AddRateLimited(request)
	}
}
