package capi

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	primeTimeout = 2 * time.Minute
	primePoll    = 250 * time.Millisecond
	primeName    = "prime"
)

// prime has the infrastructure provider make a cluster, and deletes it. In its first reconcile the provider thinks that
// it was restarted, and takes every endpoint that it finds for one that it chose; one that somebody else chose, such as
// that of a gateway, keeps it from ever beginning (v1.13.4). A cluster without endpoint gets it over with.
func prime(ctx context.Context, config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	cluster := primed("cluster.x-k8s.io/v1beta2", "Cluster", map[string]any{
		"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": primeName},
	})
	infrastructure := primed("infrastructure.cluster.x-k8s.io/v1beta2", "DevCluster", map[string]any{
		"backend": map[string]any{"inMemory": map[string]any{}},
	})
	// It panics on one without annotations (v1.13.4).
	infrastructure.SetAnnotations(map[string]string{"example.com/why": "not-none"})
	for _, object := range []*unstructured.Unstructured{infrastructure, cluster} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("creating a first %s: %w", object.GetKind(), err)
		}
	}
	err = wait.PollUntilContextTimeout(ctx, primePoll, primeTimeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(infrastructure), infrastructure); err != nil {
			return false, err
		}
		done, _, err := unstructured.NestedBool(infrastructure.Object, "status", "initialization", "provisioned")
		return done, err
	})
	if err != nil {
		return fmt.Errorf("waiting for a first cluster: %w", err)
	}
	if err := c.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("deleting the first cluster: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, primePoll, primeTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of the first cluster: %w", err)
	}
	return nil
}

func primed(apiVersion, kind string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace("default")
	object.SetName(primeName)
	return object
}
