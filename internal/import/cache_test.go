package importer

import (
	"context"
	"net/http"
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
)

// testCache is the cache of the manager with its indexes, without an API server: it holds what it was
// given, and what is put into it.
type testCache struct {
	cache.Cache
	t *testing.T
}

// noStream lists, and does not stream what is there at first.
type noStream struct{}

func (noStream) IsWatchListSemanticsUnSupported() bool { return true }

func newTestCache(t *testing.T, objects ...client.Object) testCache {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	held, err := cache.New(&rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{
		Scheme: known, Mapper: scheme.Mapper(), HTTPClient: &http.Client{Timeout: time.Second},
		NewInformer: func(_ toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			from := &toolscache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
					var found []runtime.Object
					for _, object := range objects {
						if sameType(object, example) {
							found = append(found, object)
						}
					}
					return list, meta.SetList(list, found)
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
			}
			return toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(from, noStream{}), example, resync, indexers)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := testCache{Cache: held, t: t}
	for name, index := range clusterIndexes(Rules{Active: namingV3{}}) {
		if err := held.IndexField(t.Context(), &clusterv1.Cluster{}, name, index); err != nil {
			t.Fatal(err)
		}
	}
	for _, record := range []client.Object{&managementv3.Cluster{}, &provisioningv1.Cluster{}} {
		if err := held.IndexField(t.Context(), record, ownerIndex, ownerKeys); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = held.Start(t.Context()) }() // It ends with the test.
	if !held.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not synced")
	}
	return c
}

func sameType(object client.Object, example runtime.Object) bool {
	switch example := example.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return object.GetObjectKind().GroupVersionKind() == example.GetObjectKind().GroupVersionKind()
	case *clusterv1.Cluster:
		_, ok := object.(*clusterv1.Cluster)
		return ok
	case *managementv3.Cluster:
		_, ok := object.(*managementv3.Cluster)
		return ok
	case *provisioningv1.Cluster:
		_, ok := object.(*provisioningv1.Cluster)
		return ok
	case *managementv3.Setting:
		_, ok := object.(*managementv3.Setting)
		return ok
	}
	return false
}

// put has the cache hold another version of an object.
func (c testCache) put(ctx context.Context, object client.Object) {
	c.t.Helper()
	informer, err := c.GetInformer(ctx, object)
	if err != nil {
		c.t.Fatal(err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		c.t.Fatalf("got a %T", informer)
	}
	if err := shared.GetStore().Update(object); err != nil {
		c.t.Fatal(err)
	}
}
