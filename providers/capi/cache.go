package capi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/providers/capi/drain"
)

// Kinds that could not be found are looked for again after a while: a CRD may come.
const (
	findAgain    = 2 * time.Second
	findAgainMax = 30 * time.Second
)

// boundedCache is the cache of a cluster that holds nobody up. Informers are there at once and are filled in the
// background; reads wait for them, for a while.
type boundedCache struct {
	crcache.Cache

	ctx    context.Context //nolint:containedctx // it is that of the cluster, whose informers are looked for until it ends
	scheme *runtime.Scheme
	read   time.Duration
	// mapper knows the resources of kinds that were found.
	mapper meta.RESTMapper
	// wrong is told what is wrong with a kind, and nothing when it is right; changed, that all of a kind was received.
	wrong   func(kind, reason string)
	changed func()

	mu        sync.Mutex
	informers map[informerKey]*informer
	searching sync.WaitGroup
}

// informerKey tells informers apart: a kind may be received in several forms.
type informerKey struct {
	kind schema.GroupVersionKind
	form string
}

// GetInformer implements crcache.Cache. It never waits, whatever the options are: HasSynced tells.
func (c *boundedCache) GetInformer(
	_ context.Context, object client.Object, _ ...crcache.InformerGetOption,
) (crcache.Informer, error) {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return nil, err
	}
	key := informerKey{kind, formOf(object)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.informers[key]; ok {
		return found, nil
	}
	if c.ctx.Err() != nil {
		return nil, errors.New("the cluster is disengaged")
	}
	created := newInformer(kind)
	c.informers[key] = created
	example, _ := object.DeepCopyObject().(client.Object) // a copy is of the same type
	c.searching.Go(func() { c.find(example, kind, created) })
	return created, nil
}

// GetInformerForKind implements crcache.Cache.
func (c *boundedCache) GetInformerForKind(
	ctx context.Context, kind schema.GroupVersionKind, options ...crcache.InformerGetOption,
) (crcache.Informer, error) {
	created, err := c.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	object, ok := created.(client.Object)
	if !ok {
		return nil, errors.New("kind " + kind.String() + " is none of objects")
	}
	return c.GetInformer(ctx, object, options...)
}

// find looks for the informer of a kind until the cluster has the kind.
func (c *boundedCache) find(example client.Object, kind schema.GroupVersionKind, into *informer) {
	name := kind.GroupKind().String()
	for wait := findAgain; ; wait = min(2*wait, findAgainMax) {
		found, err := c.Cache.GetInformer(c.ctx, example, crcache.BlockUntilSynced(false))
		if err == nil {
			c.wrong(name, "")
			into.fill(c.ctx, c.resource(kind), found, func(f index) error {
				return c.Cache.IndexField(c.ctx, f.object, f.field, f.extract)
			})
			c.await(found, into)
			return
		}
		if meta.IsNoMatchError(err) {
			c.wrong(name, KindMissingReason)
		}
		select {
		case <-time.After(wait):
		case <-into.dropped:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// resource names the resource of a kind that was found, as the paths of requests do. It sends nothing.
func (c *boundedCache) resource(kind schema.GroupVersionKind) string {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return kind.GroupKind().String()
	}
	return mapping.Resource.GroupResource().String()
}

// await waits until all objects of a kind were received.
func (c *boundedCache) await(found crcache.Informer, into *informer) {
	select {
	case <-found.HasSyncedChecker().Done():
		c.changed()
	case <-into.dropped:
	case <-c.ctx.Done():
	}
}

// unsynced returns the kinds of which not all objects were received, and since when they are asked for, and how many
// kinds were received.
func (c *boundedCache) unsynced() (waiting map[string]time.Time, synced int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting = map[string]time.Time{}
	for _, each := range c.informers {
		if each.HasSynced() {
			synced++
			continue
		}
		waiting[each.resourceName()] = each.since
	}
	return waiting, synced
}

// IndexField implements client.FieldIndexer. It does not wait: a kind that the cluster has not named yet is indexed
// when it is found, before anything reads it.
func (c *boundedCache) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	found, err := c.GetInformer(ctx, object)
	if err != nil {
		return err
	}
	wrapped, ok := found.(*informer)
	if ok && wrapped.indexLater(index{object: object, field: field, extract: extract}) {
		return nil
	}
	return c.Cache.IndexField(ctx, object, field, extract)
}

// RemoveInformer implements crcache.Cache.
func (c *boundedCache) RemoveInformer(ctx context.Context, object client.Object) error {
	kind, err := apiutil.GVKForObject(object, c.scheme)
	if err != nil {
		return err
	}
	key := informerKey{kind, formOf(object)}
	c.mu.Lock()
	found, ok := c.informers[key]
	delete(c.informers, key)
	c.mu.Unlock()
	if ok {
		found.drop()
	}
	return c.Cache.RemoveInformer(ctx, object)
}

// Start implements crcache.Cache. It returns when nothing runs any more.
func (c *boundedCache) Start(ctx context.Context) error {
	defer c.searching.Wait()
	return c.Cache.Start(ctx)
}

// WaitForCacheSync implements crcache.Cache. It does not wait: reads do, each for what it reads, and informers tell for
// themselves. multicluster-runtime asks with a lock of the controller held.
func (c *boundedCache) WaitForCacheSync(ctx context.Context) bool { return ctx.Err() == nil }

// Get implements client.Reader.
func (c *boundedCache) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	ctx, cancel := context.WithTimeout(ctx, c.read)
	defer cancel()
	return c.Cache.Get(ctx, key, into, options...)
}

// List implements client.Reader.
func (c *boundedCache) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.read)
	defer cancel()
	return c.Cache.List(ctx, into, options...)
}

func formOf(object client.Object) string {
	switch object.(type) {
	case runtime.Unstructured:
		return "unstructured"
	case *metav1.PartialObjectMetadata:
		return "metadata"
	default:
		return "structured"
	}
}

// bounded has a cluster build its cache so that it holds nobody up, over a line of its own.
func bounded(ctx context.Context, l *line, read time.Duration, log logr.Logger) cluster.Option {
	return func(o *cluster.Options) {
		build := o.NewCache
		if build == nil {
			build = crcache.New
		}
		o.NewCache = func(config *rest.Config, options crcache.Options) (crcache.Cache, error) {
			options.HTTPClient = &http.Client{Transport: informers{l}}
			if options.DefaultWatchErrorHandler == nil {
				options.DefaultWatchErrorHandler = func(_ context.Context, r *toolscache.Reflector, _ error) {
					// The error is a stranger's text; what is known of it is in the status of the cluster.
					log.V(1).Info("A watch broke off and is begun again", "kind", r.TypeDescription())
				}
			}
			inform := options.NewInformer
			if inform == nil {
				inform = toolscache.NewSharedIndexInformer
			}
			options.NewInformer = func(
				from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
			) toolscache.SharedIndexInformer {
				return inform(drain.Watches(from), example, resync, indexers)
			}
			built, err := build(config, options)
			if err != nil {
				return nil, err
			}
			return newCache(ctx, l, built, options.Scheme, options.Mapper, read), nil
		}
	}
}

func newCache(
	ctx context.Context, l *line, of crcache.Cache, scheme *runtime.Scheme, mapper meta.RESTMapper, read time.Duration,
) *boundedCache {
	return &boundedCache{
		Cache: of, ctx: ctx, scheme: scheme, read: read, mapper: mapper, wrong: l.note, changed: l.troubled,
		informers: map[informerKey]*informer{},
	}
}

// engagedCluster is a cluster whose cache is bounded, however it was built.
type engagedCluster struct {
	cluster.Cluster
	cache *boundedCache
}

// GetCache implements cluster.Cluster.
func (c *engagedCluster) GetCache() crcache.Cache { return c.cache }

// GetFieldIndexer implements cluster.Cluster.
func (c *engagedCluster) GetFieldIndexer() client.FieldIndexer { return c.cache }

// engageable returns a cluster whose cache is bounded.
func engageable(ctx context.Context, l *line, c cluster.Cluster, read time.Duration) *engagedCluster {
	built, ok := c.GetCache().(*boundedCache)
	if !ok {
		built = newCache(ctx, l, c.GetCache(), c.GetScheme(), c.GetRESTMapper(), read)
	}
	return &engagedCluster{Cluster: c, cache: built}
}
