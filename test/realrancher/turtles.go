package realrancher

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	turtlesNamespace = "cattle-turtles-system"
	turtlesName      = "rancher-turtles"
	// turtlesVersion is the one that Rancher waits for: it connects nothing before.
	turtlesVersion = "110.0.0+up0.27.0"
)

// WithTurtles starts Rancher again, with its feature turtles on or off. Its chart comes from a registry: there is what
// Rancher keeps of the installation of a chart, and nothing runs.
func (c *Control) WithTurtles(ctx context.Context, on bool) error {
	programs, ok := c.world.installed.(*programs)
	if !ok {
		return errReal // where its chart can be had it runs
	}
	c.Down()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: turtlesNamespace}}
	if err := c.world.Client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the namespace of Rancher Turtles: %w", err)
	}
	app := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "catalog.cattle.io/v1", "kind": "App",
		"spec": map[string]any{
			"name": turtlesName, "namespace": turtlesNamespace, "version": int64(1),
			"info":  map[string]any{"status": "deployed"},
			"chart": map[string]any{"metadata": map[string]any{"name": turtlesName, "version": turtlesVersion}},
		},
	}}
	app.SetNamespace(turtlesNamespace)
	app.SetName(turtlesName)
	var err error
	if on {
		err = client.IgnoreAlreadyExists(c.world.Client.Create(ctx, app))
	} else {
		err = client.IgnoreNotFound(c.world.Client.Delete(ctx, app))
	}
	if err != nil {
		return fmt.Errorf("saying that Rancher Turtles is installed: %w", err)
	}
	programs.turtles = on
	return c.Up(ctx)
}
