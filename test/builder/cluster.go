// Package builder makes valid objects for tests, so that a test states only what matters to it.
package builder

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Cluster returns a CAPI Cluster whose spec passes CAPI's validation. Its status is that of a new object.
func Cluster(namespace, name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DevCluster", Name: "infra",
			},
		},
	}
}

// ControlPlaneUp gives a CAPI Cluster the status that CAPI writes once its control plane serves.
func ControlPlaneUp(cluster *clusterv1.Cluster) {
	cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	SetCondition(cluster, clusterv1.ClusterControlPlaneAvailableCondition, metav1.ConditionTrue, "Available")
}

// ControlPlaneDown gives a CAPI Cluster the status of one whose control plane does not serve any more.
func ControlPlaneDown(cluster *clusterv1.Cluster) {
	SetCondition(cluster, clusterv1.ClusterControlPlaneAvailableCondition, metav1.ConditionFalse, "NotAvailable")
}

// ControlPlaneAwaited gives a CAPI Cluster the status of one whose control plane never served.
func ControlPlaneAwaited(cluster *clusterv1.Cluster) {
	cluster.Status.Initialization.ControlPlaneInitialized = nil
	ControlPlaneDown(cluster)
}

// SetCondition sets a condition of a CAPI Cluster.
func SetCondition(cluster *clusterv1.Cluster, kind string, status metav1.ConditionStatus, reason string) {
	condition := metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
	for i := range cluster.Status.Conditions {
		if cluster.Status.Conditions[i].Type == kind {
			cluster.Status.Conditions[i] = condition
			return
		}
	}
	cluster.Status.Conditions = append(cluster.Status.Conditions, condition)
}

// KubeconfigSecret returns the Secret in which CAPI keeps the kubeconfig of a workload cluster.
func KubeconfigSecret(namespace, cluster string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      cluster + "-kubeconfig",
			Labels:    map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": kubeconfig},
	}
}
