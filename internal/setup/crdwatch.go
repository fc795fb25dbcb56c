package setup

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/internal/controller"
)

// crdWatches follows CRDs of a cluster, each by its name: a cluster with Rancher has hundreds of others, of some
// megabytes. Several controllers need the same one, so it is watched once for all of them, as long as one needs it.
type crdWatches struct {
	crds apiextensionsclient.CustomResourceDefinitionInterface

	mu     sync.Mutex
	byName map[string]*crdWatch
}

// crdWatch is the watch of one.
type crdWatch struct {
	cancel context.CancelFunc
	// latest is what the API server has said, nil before.
	latest *crdState
	// followers hear of each change; of several at once they hear of the last one.
	followers map[chan crdState]bool
}

// crdState is a CRD, nil if there is none, or why it is not known any more.
type crdState struct {
	crd *apiextensionsv1.CustomResourceDefinition
	err error
}

func newCRDWatches(of cluster.Cluster) (*crdWatches, error) {
	client, err := apiextensionsclient.NewForConfigAndClient(of.GetConfig(), of.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("building a client for CRDs: %w", err)
	}
	return watchesOn(client.CustomResourceDefinitions()), nil
}

func watchesOn(crds apiextensionsclient.CustomResourceDefinitionInterface) *crdWatches {
	return &crdWatches{crds: crds, byName: map[string]*crdWatch{}}
}

// until follows one CRD, nil if there is none, until a condition is met, or the context ends.
func (w *crdWatches) until(ctx context.Context, name string, met func(found *apiextensionsv1.CustomResourceDefinition, first bool) bool) error {
	states, leave := w.follow(ctx, name)
	defer leave()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case state := <-states:
			if state.err != nil || met(state.crd, first) {
				return state.err
			}
		}
	}
}

// follow begins to follow a CRD. The watch ends when the last follower leaves.
func (w *crdWatches) follow(ctx context.Context, name string) (states <-chan crdState, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.byName[name]
	if followed == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // It outlives the first one.
		followed = &crdWatch{cancel: cancel, followers: map[chan crdState]bool{}}
		w.byName[name] = followed
		go w.watch(ctx, name, followed)
	}
	mine := make(chan crdState, 1)
	followed.followers[mine] = true
	if followed.latest != nil {
		mine <- *followed.latest
	}
	return mine, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(followed.followers, mine); len(followed.followers) > 0 {
			return
		}
		followed.cancel()
		if w.byName[name] == followed {
			delete(w.byName, name)
		}
	}
}

// watch tells the followers of a CRD what becomes of it.
func (w *crdWatches) watch(ctx context.Context, name string, followed *crdWatch) {
	tell := func(state crdState) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if followed.latest = &state; state.err != nil && w.byName[name] == followed {
			delete(w.byName, name) // Whoever comes now begins anew.
		}
		for follower := range followed.followers {
			select {
			case <-follower: // It has not heard of the one before.
			default:
			}
			follower <- state
		}
	}
	only := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = controller.Named(name).String()
		return options
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return w.crds.List(ctx, only(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return w.crds.Watch(ctx, only(options))
		},
	}
	_, err := watchtools.UntilWithSync(ctx, lw, &apiextensionsv1.CustomResourceDefinition{}, func(store cache.Store) (bool, error) {
		var found *apiextensionsv1.CustomResourceDefinition
		for _, object := range store.List() {
			found, _ = object.(*apiextensionsv1.CustomResourceDefinition)
		}
		tell(crdState{crd: found})
		return false, nil
	}, func(event watch.Event) (bool, error) {
		found, _ := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		if event.Type == watch.Deleted {
			found = nil
		}
		tell(crdState{crd: found})
		return false, nil
	})
	if ctx.Err() == nil && err != nil {
		tell(crdState{err: err})
	}
}
