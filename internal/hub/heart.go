package hub

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// follow watches who a management cluster is, until the context ends: the UID of its namespace kube-system. It calls seen with the UID, and answered
// whenever the API server answers, with nil, or does not. What is tried again is paced by the watch, which never pauses for longer than half a minute.
func follow(ctx context.Context, config *rest.Config, seen func(types.UID), answered func(error)) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client of the management cluster: %w", err)
	}
	only := func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + metav1.NamespaceSystem }
	noted := func(err error) {
		// One whose version is too old is listed again: it answers.
		if ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			answered(err)
		}
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			asking, done := context.WithTimeout(ctx, answerWithin)
			defer done()
			list, err := clients.CoreV1().Namespaces().List(asking, options)
			noted(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			events, err := clients.CoreV1().Namespaces().Watch(ctx, options)
			noted(err)
			return events, err
		},
	}, &corev1.Namespace{}, 0, nil)
	note := func(object any) {
		if namespace, ok := object.(*corev1.Namespace); ok {
			seen(namespace.UID)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }})
	if err != nil {
		return fmt.Errorf("following the management cluster: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}
