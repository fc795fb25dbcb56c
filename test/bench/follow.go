package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

// follow watches CAPI clusters and their records until the context ends. It returns when the watch is up.
func (r *recorder) follow(ctx context.Context, s *stage.Stage, strategy string) (stop func(), err error) {
	clusters, err := cache.New(s.Management.Config, cache.Options{Scheme: s.Client.Scheme(), Mapper: s.Client.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("building a cache: %w", err)
	}
	informer, err := clusters.GetInformer(ctx, &clusterv1.Cluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching CAPI clusters: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: r.cluster,
		UpdateFunc: func(before, after any) {
			a, ok := before.(client.Object)
			b, ok2 := after.(client.Object)
			if ok && ok2 && a.GetResourceVersion() != b.GetResourceVersion() {
				r.cluster(after)
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("watching CAPI clusters: %w", err)
	}
	if err := r.followRecords(ctx, clusters, strategy); err != nil {
		return nil, fmt.Errorf("watching records: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = clusters.Start(running) // it ends with the context, and fails in no other way
	}()
	stop = func() {
		cancel()
		<-done
	}
	if !clusters.WaitForCacheSync(running) {
		stop()
		return nil, fmt.Errorf("watching CAPI clusters: %w", context.Cause(ctx))
	}
	return stop, nil
}

// followRecords asks for no more of the records than it needs, since it shares the machine with what is measured.
func (r *recorder) followRecords(ctx context.Context, from cache.Cache, strategy string) error {
	records := &metav1.PartialObjectMetadata{}
	records.SetGroupVersionKind(recordKind(strategy))
	informer, err := from.GetInformer(ctx, records, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: r.record})
	return err
}

// recordKind is the kind of Rancher cluster that a strategy makes.
func recordKind(strategy string) schema.GroupVersionKind {
	if strategy == "v1" {
		return schema.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"}
	}
	return schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"}
}
