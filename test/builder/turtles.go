package builder

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TurtlesHold is the finalizer of Rancher Turtles.
const TurtlesHold = "capicluster.turtles.cattle.io"

// TurtlesV3Record returns a v3 Cluster as Rancher Turtles v0.27 creates it.
func TurtlesV3Record(cluster *clusterv1.Cluster) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "Cluster",
		"metadata": map[string]any{
			"generateName": "c-",
			"labels": map[string]any{
				"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": cluster.Name,
				"cluster-api.cattle.io/capi-cluster-owner-ns": cluster.Namespace,
			},
			"annotations": map[string]any{
				"field.cattle.io/no-creator-rbac": "true", "cluster-api.cattle.io/fleet-namespace-migrated": "cattle-fleet-system",
				"rancher.io/imported-cluster-version-management": "false",
			},
			"finalizers": []any{TurtlesHold},
		},
		"spec": map[string]any{"displayName": cluster.Name, "description": "CAPI cluster imported to Rancher"},
	}}
}

// TurtlesV1Record returns a v1 Cluster as Rancher Turtles up to v0.15 created it.
func TurtlesV1Record(cluster *clusterv1.Cluster) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
		"metadata": map[string]any{
			"namespace": cluster.Namespace, "name": cluster.Name + "-capi", "labels": map[string]any{"cluster-api.cattle.io/owned": ""},
			"annotations": map[string]any{"cluster-api.cattle.io/migrated": "true"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": cluster.Name, "uid": string(cluster.UID),
			}},
		},
		"spec": map[string]any{},
	}}
}
