// Package drain has watches leave nothing behind when they are stopped.
package drain

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// Watch returns a watch that takes what is still on its way when it is stopped. watch.Filter hands on each event for as
// long as that takes: when nobody receives any more, its goroutine stays for ever (kubernetes/kubernetes#113254). The
// informers of metadata of controller-runtime v0.24.1 have one each.
func Watch(of watch.Interface) watch.Interface { return drained{of} }

// Watches does so for all watches of an informer.
func Watches(of toolscache.ListerWatcher) toolscache.ListerWatcher {
	all := toolscache.ToListerWatcherWithContext(of)
	// Whether what is there at first can be streamed is up to the client.
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: all.ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := all.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return Watch(events), nil
		},
	}, of)
}

type drained struct{ watch.Interface }

// Stop implements watch.Interface.
func (d drained) Stop() {
	d.Interface.Stop()
	go func() {
		for range d.ResultChan() { // until it is closed
		}
	}()
}
