package importer

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/workload"
)

// CAPI's contract of a cluster's kubeconfig Secret.
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
)

// kubeconfigOf returns where the kubeconfig of a CAPI cluster is.
func kubeconfigOf(cluster types.NamespacedName) workload.Kubeconfig {
	return workload.Kubeconfig{
		Secret: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + kubeconfigSuffix},
		Key:    kubeconfigKey,
		Author: "the control plane of the cluster",
	}
}

// ClusterOfSecret returns the CAPI cluster whose kubeconfig a Secret of this key holds, or false if it is the key of
// another Secret.
func ClusterOfSecret(secret types.NamespacedName) (types.NamespacedName, bool) {
	name, ok := strings.CutSuffix(secret.Name, kubeconfigSuffix)
	return types.NamespacedName{Namespace: secret.Namespace, Name: name}, ok && name != ""
}
