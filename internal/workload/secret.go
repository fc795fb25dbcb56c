package workload

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ClusterOfSecret returns the CAPI cluster whose kubeconfig a Secret of this key holds, or false if it is the key of another Secret.
func ClusterOfSecret(secret types.NamespacedName) (types.NamespacedName, bool) {
	name, ok := strings.CutSuffix(secret.Name, kubeconfigSuffix)
	return types.NamespacedName{Namespace: secret.Namespace, Name: name}, ok && name != ""
}
