package importer

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/workload"
)

// CAPI's contract of a cluster's kubeconfig Secret.
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
)

// kubeconfigRecheck is when a kubeconfig Secret that is missing or refused is looked at again although no
// watch shows it. The watch brings Secrets with CAPI's cluster-name label at once; some control plane
// providers leave the label out.
const kubeconfigRecheck = 30 * time.Second

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
