package setup

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	importer "github.com/archelon-io/archelon/internal/import"
)

// newInformer builds the informers of the manager's cache. Of Secrets it passes on what holds a kubeconfig: CAPI gives the same label and the same
// type to the Secrets of a cluster's authorities and to the bootstrap data of each of its machines, and no selector knows the end of a name. So
// the API server sends the metadata of all of them, and here they are dropped as they come, before anything keeps them.
func newInformer(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if secret, ok := example.(*metav1.PartialObjectMetadata); ok && secret.Kind == "Secret" {
		from = kubeconfigs(from)
	}
	return toolscache.NewSharedIndexInformer(from, example, resync, indexers)
}

// kubeconfigs returns what lists and watches those of the Secrets that hold the kubeconfig of a cluster.
func kubeconfigs(from toolscache.ListerWatcher) toolscache.ListerWatcher {
	all := toolscache.ToListerWatcherWithContext(from)
	kept := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := all.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			var found []runtime.Object
			err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
				if holdsKubeconfig(item) {
					found = append(found, item)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			return list, meta.SetList(list, found)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := all.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
				switch event.Type {
				case watch.Added, watch.Modified, watch.Deleted:
					return event, holdsKubeconfig(event.Object)
				default: // Bookmarks and errors are for the informer itself.
					return event, true
				}
			}), nil
		},
	}
	// Whether what is there at first can be streamed is up to the client.
	return toolscache.ToListWatcherWithWatchListSemantics(kept, from)
}

func holdsKubeconfig(secret runtime.Object) bool {
	object, err := meta.Accessor(secret)
	if err != nil {
		return true // The informer says what is wrong with it.
	}
	_, ok := importer.ClusterOfSecret(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	return ok
}
