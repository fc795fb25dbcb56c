package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

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

// watchFor bounds the watch over a management cluster. Who has begun to watch is not asked again what it may do, and
// what stands in between may keep a connection alive that leads nowhere: only a new request shows that.
const watchFor = time.Minute

// follow watches who a management cluster is, until the context ends: the UID of its namespace kube-system. It calls
// seen with the UID, and answered whenever the API server answers, with nil, or does not within a time. What is tried
// again is paced by the watch, which never pauses for longer than half a minute. A connection on which nothing comes
// any more is noticed by the pings of client-go's HTTP/2, in 45 seconds.
func follow(ctx context.Context, config *rest.Config, within time.Duration, seen func(types.UID), answered func(error)) error {
	config = rest.CopyConfig(config)
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return &exchange{base: base, within: within} })
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client of the management cluster: %w", err)
	}
	only := func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + metav1.NamespaceSystem }
	noted := func(err error) {
		if silent, ok := errors.AsType[*silence](err); ok {
			err = silent.cause
		}
		// One whose version is too old is listed again: it answers.
		if ctx.Err() == nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			answered(err)
		}
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			list, err := clients.CoreV1().Namespaces().List(ctx, options)
			noted(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			options.TimeoutSeconds = new(int64(watchFor / time.Second))
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

// errOtherCluster is that another management cluster answers.
var errOtherCluster = errors.New("another management cluster answers")

// Confirm asks a management cluster whether it still is the one with the UID. Between the answer that an import was
// decided by and its first request, another API server may have come to answer.
func Confirm(ctx context.Context, config *rest.Config, uid types.UID) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client of the management cluster: %w", err)
	}
	found, err := clients.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + metav1.NamespaceSystem})
	if err != nil {
		return err
	}
	if len(found.Items) != 1 || found.Items[0].UID != uid {
		return errOtherCluster
	}
	return nil
}

// exchange has requests answered within a time. client-go repeats a request for ten seconds after a reset, and takes a
// watch that cannot begin, because the connection ends or nothing comes, for one without events: nobody would notice.
// So it is not shown why there was no answer.
type exchange struct {
	base   http.RoundTripper
	within time.Duration
}

// RoundTrip implements http.RoundTripper.
func (e *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	late := time.AfterFunc(e.within, cancel)
	answer, err := e.base.RoundTrip(req.WithContext(ctx))
	inTime := late.Stop()
	if err == nil && inTime {
		answer.Body = &body{answer.Body, cancel}
		return answer, nil
	}
	cancel()
	if err == nil { // It came as the time ran out, and cannot be read any more.
		_ = answer.Body.Close()
	}
	if !inTime {
		err = errNoAnswer
	}
	return nil, &silence{err}
}

// body is that of an answer.
type body struct {
	io.ReadCloser

	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// silence is that there was no answer.
type silence struct{ cause error }

// Error implements error.
func (*silence) Error() string { return "the management cluster did not answer" }
