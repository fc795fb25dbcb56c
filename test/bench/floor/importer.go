package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	importLabel = "cluster-api.cattle.io/rancher-auto-import"
	// creators and installers are how many of each are at work at once; the manager has as many places.
	creators   = 10
	installers = 100
	// backlog holds what they have not come to; it suffices for ten thousands of clusters.
	backlog = 1 << 16
)

// importer imports what is labelled.
type importer struct {
	config *rest.Config
	client client.Client // without a cache
	cache  cache.Cache

	create  chan *metav1.PartialObjectMetadata
	install chan registration

	mu sync.Mutex
	// seen are the CAPI clusters that were taken on, and owners those of Rancher clusters, by their names.
	seen   map[client.ObjectKey]bool
	owners map[string]client.ObjectKey
}

// registration is the token with which the agent of a CAPI cluster registers.
type registration struct {
	owner client.ObjectKey
	token *unstructured.Unstructured
}

func newImporter(config *rest.Config) *importer {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "archelon/floor" // As the manager: its requests are counted by that.
	return &importer{
		config: config, create: make(chan *metav1.PartialObjectMetadata, backlog), install: make(chan registration, backlog),
		seen: map[client.ObjectKey]bool{}, owners: map[string]client.ObjectKey{},
	}
}

// run imports until the context ends. It calls ready when it has received what there is.
func (i *importer) run(ctx context.Context, ready func()) error {
	known := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(known), clusterv1.AddToScheme(known)); err != nil {
		return err
	}
	var err error
	if i.client, err = client.New(i.config, client.Options{Scheme: known}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	i.cache, err = cache.New(i.config, cache.Options{
		Scheme: known, Mapper: i.client.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{metadata("", "v1", "Namespace"): {Label: labels.SelectorFromSet(labels.Set{importLabel: "true"})}},
	})
	if err != nil {
		return fmt.Errorf("building a cache: %w", err)
	}
	for object, react := range map[client.Object]func(context.Context, any){
		metadata("", "v1", "Namespace"): i.namespace,
		metadata(clusterv1.GroupVersion.Group, clusterv1.GroupVersion.Version, "Cluster"): i.cluster,
		rancherObject("ClusterRegistrationToken"):                                         i.token,
	} {
		informer, err := i.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(added any) { react(ctx, added) }, UpdateFunc: func(_, after any) { react(ctx, after) },
		}); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	trust, err := i.trust(ctx)
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { _ = i.cache.Start(ctx) }) // It fails in no other way than by its context.
	if !i.cache.WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	for range creators {
		working.Go(func() { work(ctx, i.create, i.createRecord) })
	}
	for range installers {
		working.Go(func() {
			work(ctx, i.install, func(ctx context.Context, r registration) error { return i.installAgent(ctx, trust, r) })
		})
	}
	ready()
	<-ctx.Done()
	return nil
}

// work does what is in a queue until the context ends. What fails is not tried again, and the benchmark does not end.
func work[T any](ctx context.Context, queue <-chan T, do func(context.Context, T) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case item := <-queue:
			if err := do(ctx, item); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintln(os.Stderr, "floor:", err)
			}
		}
	}
}

// namespace takes on the clusters of a namespace that is labelled.
func (i *importer) namespace(ctx context.Context, object any) {
	labelled, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	if err := i.cache.List(ctx, list, client.InNamespace(labelled.Name)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "floor:", err)
	}
	for n := range list.Items {
		i.take(&list.Items[n])
	}
}

// cluster takes on a cluster in a namespace that is labelled.
func (i *importer) cluster(ctx context.Context, object any) {
	found, ok := object.(*metav1.PartialObjectMetadata)
	if ok && i.cache.Get(ctx, client.ObjectKey{Name: found.Namespace}, metadata("", "v1", "Namespace")) == nil {
		i.take(found)
	}
}

func (i *importer) take(cluster *metav1.PartialObjectMetadata) {
	key := client.ObjectKeyFromObject(cluster)
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.seen[key] {
		i.seen[key] = true
		i.create <- cluster.DeepCopy()
	}
}

// createRecord creates the Rancher cluster of a CAPI cluster.
func (i *importer) createRecord(ctx context.Context, cluster *metav1.PartialObjectMetadata) error {
	record := rancherObject("Cluster")
	record.SetName("c-" + rand.String(5))
	record.SetLabels(map[string]string{
		"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": cluster.Name,
		"cluster-api.cattle.io/capi-cluster-owner-ns": cluster.Namespace,
	})
	record.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"})
	record.Object["spec"] = map[string]any{"displayName": cluster.Name}
	i.mu.Lock()
	i.owners[record.GetName()] = client.ObjectKeyFromObject(cluster)
	i.mu.Unlock()
	if err := i.client.Create(ctx, record); err != nil {
		return fmt.Errorf("creating a Rancher cluster: %w", err)
	}
	return nil
}

// token has the agent installed once Rancher has published the registration of a Rancher cluster.
func (i *importer) token(_ context.Context, object any) {
	found, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	if url, _, _ := unstructured.NestedString(found.Object, "status", "manifestUrl"); url == "" || found.GetName() != "default-token" {
		return
	}
	i.mu.Lock()
	owner, ours := i.owners[found.GetNamespace()]
	delete(i.owners, found.GetNamespace()) // Once.
	i.mu.Unlock()
	if ours {
		i.install <- registration{owner, found.DeepCopy()}
	}
}

func metadata(group, version, kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return object
}

func rancherObject(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: kind})
	return object
}
