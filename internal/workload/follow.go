package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

const (
	// maxListBytes bounds a list of metadata, maxWatchBytes what one watch receives: then it is begun again where it was.
	maxListBytes  = 8 << 20
	maxWatchBytes = 8 << 20
	// askedWatch is how long a watch is asked for at least, and at most twice as long. An API server looks at credentials
	// and permissions only when a watch begins, so that is how long it takes until a revocation is noticed. A watch goes
	// on where the one before has ended, and costs one request.
	askedWatch = time.Minute
	// maxWatch is how long a watch lasts at most, whatever the server was asked for.
	maxWatch = 15 * time.Minute
	// maxFollowed is how many objects of one resource are followed.
	maxFollowed = 10_000
)

// ErrFollowsTooMuch is that a server has more objects than are followed of one.
var ErrFollowsTooMuch = errors.New("the server has more objects than are followed")

// Following says what to follow.
type Following struct {
	// Resources are those whose objects are followed.
	Resources []schema.GroupVersionResource
	// Namespace is where they are, Label one that they have.
	Namespace, Label string
	// Changed is called with the value of the label of an object that is there, comes, changes or goes.
	Changed func(value string)
	// Answered is called whenever the server has answered a request for a resource, with nil, or a Problem if it did not,
	// or refused.
	Answered func(of schema.GroupVersionResource, err error)
}

// Follow watches objects until the context ends. Of the objects it keeps nothing but their names and the label,
// whatever a server sends. What fails is tried again, later each time: up to half a minute. It ends with
// ErrFollowsTooMuch, and a Problem that says so, if there are too many.
func (c *Client) Follow(ctx context.Context, f Following) error {
	config := rest.CopyConfig(c.config)
	config.NextProtos = nil // With HTTP/2 a connection that went silent is noticed.
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return problem.Wait(kubeconfig.InvalidReason, "The kubeconfig holds certificates that cannot be used. Correct the Secret")
	}
	transport := NewTransport(config, tlsConfig, c.dialTimeout)
	transport.ResponseHeaderTimeout = c.timeout
	defer transport.CloseIdleConnections()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	var informers []toolscache.SharedIndexInformer
	for _, resource := range f.Resources {
		one := &follower{
			client: c, what: "watching " + resource.Resource, base: transport,
			answered: func(err error) { f.Answered(resource, err) }, end: end,
		}
		wrapped, err := rest.HTTPWrappersForConfig(config, one)
		if err != nil {
			return problem.Wait(kubeconfig.InvalidReason, "The kubeconfig mixes a token with a user name and password. Keep one of them")
		}
		api, err := metadata.NewForConfigAndClient(
			metadata.ConfigFor(config), &http.Client{Transport: wrapped, CheckRedirect: refuseRedirect},
		)
		if err != nil {
			return errors.New("the client of the workload cluster cannot be made from its kubeconfig")
		}
		informers = append(informers, one.informer(api.Resource(resource).Namespace(f.Namespace), f))
	}
	for _, informer := range informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrFollowsTooMuch) {
		return err
	}
	return nil
}

// follower follows one resource. It is the transport of its requests, and so knows what becomes of them.
type follower struct {
	client   *Client
	what     string
	base     http.RoundTripper
	answered func(error)
	// followed is how many objects there are. With too many, it ends.
	followed atomic.Int64
	end      context.CancelCauseFunc
}

func (f *follower) informer(of metadata.ResourceInterface, all Following) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			// Its answer is bounded as one. A server that goes on with further pages would be bounded by nothing.
			options.LabelSelector, options.Limit, options.Continue = all.Label, 0, ""
			list, err := of.List(ctx, options)
			if err != nil {
				return nil, err
			}
			list.Continue = ""
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = all.Label
			options.TimeoutSeconds = new(int64(wait.Jitter(askedWatch, 1).Seconds()))
			return of.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, 0, nil)
	// They fail for an informer that runs already.
	_ = informer.SetTransform(keepLabel(all.Label))
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		f.refused(err)
	})
	changed := func(object any) {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if found, ok := object.(*metav1.PartialObjectMetadata); ok && found.Labels[all.Label] != "" {
			all.Changed(found.Labels[all.Label])
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if f.followed.Add(1) > maxFollowed {
				f.end(fmt.Errorf("%w: %w", ErrFollowsTooMuch, problem.Fail(archelonv1.WorkloadServerErrorReason,
					"%s failed: the namespace has more than %d objects. Use several namespaces", f.what, maxFollowed)))
			}
			changed(object)
		},
		UpdateFunc: func(_, after any) { changed(after) },
		DeleteFunc: func(object any) {
			f.followed.Add(-1)
			changed(object)
		},
	})
	return informer
}

// refused is told what ended a list or a watch. What the transport has seen was told by it.
func (f *follower) refused(err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.answered(f.client.explain(err, f.what))
}

// What an API server lets a label, and a name, be at most.
const (
	maxLabelValue = 63
	maxName       = 253
)

// keepLabel leaves of metadata what tells one object, and one version of it, from another, and one label. It copies
// them: a part of a string keeps all of it.
func keepLabel(label string) toolscache.TransformFunc {
	return func(object any) (any, error) {
		found, ok := object.(*metav1.PartialObjectMetadata)
		if !ok {
			return object, nil
		}
		kept := metav1.ObjectMeta{
			Namespace: head(found.Namespace), Name: head(found.Name), ResourceVersion: head(found.ResourceVersion),
		}
		if value := found.Labels[label]; len(value) <= maxLabelValue {
			kept.Labels = map[string]string{label: strings.Clone(value)}
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: kept}, nil
	}
}

// head is a text, as long as a name can be.
func head(text string) string { return strings.Clone(text[:min(len(text), maxName)]) }

// RoundTrip implements http.RoundTripper.
func (f *follower) RoundTrip(req *http.Request) (*http.Response, error) {
	lasts, most := f.client.timeout, int64(maxListBytes)
	watches := req.URL.Query().Get("watch") != ""
	if watches {
		lasts, most = maxWatch, maxWatchBytes
	}
	caller := req.Context()
	ctx, cancel := context.WithTimeout(caller, lasts)
	resp, err := f.base.RoundTrip((&answerTransport{host: f.client.host}).address(req.WithContext(ctx)))
	if err == nil && !watches {
		err = buffer(resp, most)
	}
	if err != nil {
		cancel()
		if caller.Err() == nil {
			f.answered(f.client.explain(&url.Error{Op: req.Method, Err: err}, f.what))
		}
		return nil, &exchangeError{cause: err}
	}
	// It would have the client pause for as long as a stranger says.
	resp.Header.Del("Retry-After")
	resp.StatusCode = knownCode(resp.StatusCode)
	switch {
	case resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
		f.answered(problem.Fail(archelonv1.WorkloadServerErrorReason,
			"%s failed: the API server of the workload cluster has an error (HTTP status %d). Check its log", f.what, resp.StatusCode))
	case resp.StatusCode < http.StatusMultipleChoices:
		f.answered(nil)
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: most, done: cancel}
	return resp, nil
}

// buffer reads an answer to its end, within a limit.
func buffer(resp *http.Response, most int64) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, most))
	_ = resp.Body.Close() // it was read
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

// bounded is a body that ends after a number of bytes, as if the server had ended it.
type bounded struct {
	io.ReadCloser

	left int64
	done context.CancelFunc
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

// Close implements io.Closer.
func (b *bounded) Close() error {
	b.done()
	return b.ReadCloser.Close()
}
