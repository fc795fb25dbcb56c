package status

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// teller prints what has changed since it was printed.
type teller struct {
	opts    Options
	printer *printer
	// shown are the clusters as they were last, by their keys, whether they are asked for or not.
	shown map[string]Cluster
}

// tell prints a cluster that has changed, if it is asked for, or was before.
func (t *teller) tell(cluster Cluster) error {
	was, known := t.shown[key(cluster)]
	if equality.Semantic.DeepEqual(cluster, was) || cluster.Deleted && !known {
		return nil
	}
	if t.shown[key(cluster)] = cluster; cluster.Deleted {
		delete(t.shown, key(cluster))
	}
	if t.opts.shows(cluster) || known && t.opts.shows(was) {
		return t.printer.one(cluster)
	}
	return nil
}

// follow tells of changes from a version on, until the context ends: that of the list, so nothing is missed in between.
// Where the API server does not have that version any more, another list says what has changed.
func (t *teller) follow(ctx context.Context, c client.WithWatch, which *client.ListOptions, version string) error {
	for {
		err := t.watch(ctx, c, which, version)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Somebody has ended it.
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return fmt.Errorf("watching CAPI clusters is not permitted; ask for the permission to watch clusters.cluster.x-k8s.io: %w", err)
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
		if version, err = t.catchUp(ctx, c, which); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // Somebody has ended it.
			}
			return explain(err)
		}
	}
}

// watch tells of changes from a version on. It returns why it cannot go on.
func (t *teller) watch(ctx context.Context, c client.WithWatch, which *client.ListOptions, version string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	from := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		which := *which
		which.Raw = &options
		return c.Watch(ctx, &clusterv1.ClusterList{}, &which)
	}}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, from)
	if err != nil {
		return err
	}
	for event := range watcher.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		if object, ok := event.Object.(*clusterv1.Cluster); ok {
			cluster := Of(object)
			cluster.Deleted = event.Type == watch.Deleted
			if err := t.tell(cluster); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// catchUp tells of what differs from what was known, and returns the version of that.
func (t *teller) catchUp(ctx context.Context, c client.WithWatch, which *client.ListOptions) (string, error) {
	found := &clusterv1.ClusterList{}
	if err := c.List(ctx, found, which); err != nil {
		return "", err
	}
	there := map[string]bool{}
	var changed []Cluster
	for i := range found.Items {
		cluster := Of(&found.Items[i])
		there[key(cluster)] = true
		changed = append(changed, cluster)
	}
	for name, cluster := range t.shown {
		if !there[name] {
			cluster.Deleted = true
			changed = append(changed, cluster)
		}
	}
	slices.SortFunc(changed, compare)
	for _, cluster := range changed {
		if err := t.tell(cluster); err != nil {
			return "", err
		}
	}
	return found.ResourceVersion, nil
}
