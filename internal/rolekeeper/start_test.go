package rolekeeper

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lateCache is a cache that starts after it was asked for informers. Until then it refuses to be read, as that of
// controller-runtime does.
type lateCache struct {
	informertest.FakeInformers
	client.Reader

	started chan struct{}
}

func (c *lateCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.started:
		return true
	}
}

// Get implements client.Reader.
func (c *lateCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	select {
	case <-c.started:
		return c.Reader.Get(ctx, key, object, opts...)
	default:
		return &cache.ErrCacheNotStarted{}
	}
}

// List implements client.Reader.
func (c *lateCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, list, opts...)
}

// The cache and the controller are started beside each other. On a busy machine the controller is first.
func TestACacheThatStartsLateIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metadata := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(metadata); err != nil {
			t.Fatal(err)
		}
		c := world(t, false, false)
		late := &lateCache{FakeInformers: informertest.FakeInformers{Scheme: metadata}, Reader: c, started: make(chan struct{})}
		r := keeper(t, c, true, tenant)
		r.Bindings, r.Lost = late, func() { t.Error("the RoleBinding is there") }
		done := make(chan error, 1)
		go func() { done <- r.follow(t.Context(), late) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		close(late.started)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
