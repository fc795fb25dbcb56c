package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/archelon-io/archelon/providers/capi/drain"
)

// Only returns what lists and watches those objects alone that are to be kept, where no selector can say so, or the
// server is not trusted to follow it. The others are dropped as they come, before anything keeps them.
func Only(from toolscache.ListerWatcher, keep func(runtime.Object) bool) toolscache.ListerWatcher {
	all := toolscache.ToListerWatcherWithContext(from)
	kept := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := all.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			var found []runtime.Object
			err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
				if keep(item) {
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
			return drain.Watch(watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
				switch event.Type {
				case watch.Added, watch.Modified, watch.Deleted:
					return event, keep(event.Object)
				default: // Bookmarks and errors are for the informer itself.
					return event, true
				}
			})), nil
		},
	}
	// Whether what is there at first can be streamed is up to the client.
	return toolscache.ToListWatcherWithWatchListSemantics(kept, from)
}
