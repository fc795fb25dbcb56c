package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/stage"
)

const (
	// placeholder stands in the example of a kubeconfig Secret instead of a kubeconfig.
	placeholder = "KUBECONFIG-OF-THE-WORKLOAD-CLUSTER"
	// kubeconfigExample is that example.
	kubeconfigExample = "examples/kubeconfig-secret.yaml"
	// kubectlOwner is the field owner of what a user applies, capiOwner that of what CAPI writes.
	kubectlOwner = client.FieldOwner("kubectl")
	capiOwner    = client.FieldOwner("capi")
)

// subject is a CAPI cluster of the demo.
type subject struct {
	namespace, name string
	// example is the file that it is in, under the name of another cluster if like says so.
	example, like string
}

// subjects returns the clusters of the demo: one is selected by its Namespace, the other by a label of its own.
func subjects() []subject {
	return []subject{
		{namespace: "team-blue", name: "orders", example: "examples/labelled-namespace.yaml"},
		{namespace: "team-green", name: "payments", example: "examples/labelled-cluster.yaml"},
	}
}

// renamed has an example be about this cluster.
func (s subject) renamed() *strings.Replacer {
	if s.like == "" {
		return strings.NewReplacer()
	}
	return strings.NewReplacer(s.like, s.name)
}

// apply is what a user would type to create it.
func (s subject) apply() string {
	if s.like == "" {
		return "kubectl apply -f " + s.example
	}
	return fmt.Sprintf("sed s/%s/%s/ %s | kubectl apply -f -", s.like, s.name, s.example)
}

// object returns the CAPI cluster with nothing but its name, to delete or change it.
func (s subject) object() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
}

// create applies the example of a cluster as a user would, and then does what CAPI does until a control plane is up:
// its kubeconfig goes into a Secret and its status says so.
func (w *world) create(ctx context.Context, s subject) error {
	objects, err := readExample(s.example, s.renamed())
	if err != nil {
		return err
	}
	for _, object := range objects {
		if w.provider != "" && object.GetKind() == "Cluster" {
			if err := unstructured.SetNestedField(object.Object, w.provider, "spec", "infrastructureRef", "kind"); err != nil {
				return fmt.Errorf("changing the infrastructure of %s: %w", s.name, err)
			}
		}
		if err := w.apply(ctx, object, kubectlOwner); err != nil {
			return err
		}
	}
	secret, err := w.kubeconfigSecret(s)
	if err != nil {
		return err
	}
	if err := w.apply(ctx, secret, capiOwner); err != nil {
		return err
	}
	status := client.ApplyConfigurationFromUnstructured(provisioned(s))
	if err := w.stage.Client.Status().Apply(ctx, status, capiOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("reporting the control plane of %s: %w", s.name, err)
	}
	return nil
}

// remove deletes a cluster as a user would, and its kubeconfig as CAPI would.
func (w *world) remove(ctx context.Context, s subject) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName(s)}}
	for _, object := range []client.Object{s.object(), secret} {
		if err := w.stage.Client.Delete(ctx, object); err != nil {
			return fmt.Errorf("deleting %s: %w", object.GetName(), err)
		}
	}
	return nil
}

func (w *world) apply(ctx context.Context, object *unstructured.Unstructured, owner client.FieldOwner) error {
	apply := client.ApplyConfigurationFromUnstructured(object)
	if err := w.stage.Client.Apply(ctx, apply, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// kubeconfigSecret fills the example of a kubeconfig Secret for a cluster.
func (w *world) kubeconfigSecret(s subject) (*unstructured.Unstructured, error) {
	objects, err := readExample(kubeconfigExample, strings.NewReplacer())
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("%s holds %d objects instead of one", kubeconfigExample, len(objects))
	}
	kubeconfig, ok := w.kubeconfigs[s.name]
	if !ok {
		return nil, fmt.Errorf("there is no kubeconfig of %s", s.name)
	}
	return fillSecret(objects[0], s, string(kubeconfig))
}

// fillSecret puts names and kubeconfig of a cluster into the example.
func fillSecret(example *unstructured.Unstructured, s subject, kubeconfig string) (*unstructured.Unstructured, error) {
	secret := example.DeepCopy()
	value, _, err := unstructured.NestedString(secret.Object, "stringData", "value")
	if err != nil || value != placeholder {
		return nil, fmt.Errorf("%s does not hold %s", kubeconfigExample, placeholder)
	}
	secret.SetNamespace(s.namespace)
	secret.SetName(secretName(s))
	secret.SetLabels(map[string]string{clusterv1.ClusterNameLabel: s.name})
	if err := unstructured.SetNestedField(secret.Object, kubeconfig, "stringData", "value"); err != nil {
		return nil, fmt.Errorf("filling %s: %w", kubeconfigExample, err)
	}
	return secret, nil
}

func secretName(s subject) string { return s.name + "-kubeconfig" }

// provisioned returns what CAPI reports once a control plane serves. Of the conditions it owns just this one.
func provisioned(s subject) *unstructured.Unstructured {
	cluster := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"phase": string(clusterv1.ClusterPhaseProvisioned),
		"initialization": map[string]any{
			"infrastructureProvisioned": true,
			"controlPlaneInitialized":   true,
		},
		"conditions": []any{map[string]any{
			"type":               clusterv1.ClusterControlPlaneAvailableCondition,
			"status":             string(metav1.ConditionTrue),
			"reason":             clusterv1.ClusterControlPlaneAvailableReason,
			"message":            "",
			"lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
		}},
	}}}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	cluster.SetNamespace(s.namespace)
	cluster.SetName(s.name)
	return cluster
}

// readExample reads the objects of a file, in its order, with some words replaced.
func readExample(path string, words *strings.Replacer) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(filepath.Join(stage.Root(), filepath.FromSlash(path)))
	if err != nil {
		return nil, fmt.Errorf("reading an example: %w", err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(words.Replace(string(content))), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err != nil {
			if errors.Is(err, io.EOF) {
				return objects, nil
			}
			return nil, fmt.Errorf("parsing %s: %w", path, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
