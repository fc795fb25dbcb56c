// Package kubeconfig says where the kubeconfig of a CAPI cluster is: by CAPI's contract, or by annotations of the
// cluster.
package kubeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
)

// CAPI's contract of a cluster's kubeconfig Secret.
const (
	suffix     = "-kubeconfig"
	defaultKey = "value"
)

// maxContext is how many bytes the name of a context may have that an annotation names.
const maxContext = 253

// Default returns where CAPI's contract has the kubeconfig of a CAPI cluster.
func Default(cluster types.NamespacedName) workload.Kubeconfig {
	return workload.Kubeconfig{
		Secret: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + suffix},
		Key:    defaultKey,
		Author: "the control plane of the cluster",
	}
}

// Of returns where the kubeconfig of a CAPI cluster is, which annotations of the cluster can say. Who may
// write these may not be allowed to read Secrets, so another Secret than that of the contract has to say by CAPI's
// label that it belongs to the cluster: otherwise Archelon would use the credentials of others for them. The error is
// a Problem.
func Of(cluster metav1.Object) (workload.Kubeconfig, error) {
	from := Default(types.NamespacedName{Namespace: cluster.GetNamespace(), Name: cluster.GetName()})
	name, key, err := Secret(cluster.GetAnnotations())
	if err != nil {
		return workload.Kubeconfig{}, cannotBeUsed(archelonv1.KubeconfigSecretAnnotation, err)
	}
	if from.Context, err = Context(cluster.GetAnnotations()); err != nil {
		return workload.Kubeconfig{}, cannotBeUsed(archelonv1.KubeconfigContextAnnotation, err)
	}
	if from.Context != "" {
		from.Annotation = archelonv1.KubeconfigContextAnnotation
	}
	if key != "" {
		from.Key = key
	}
	if name != "" && name != from.Secret.Name {
		from.Secret.Name, from.Label, from.Cluster = name, clusterv1.ClusterNameLabel, cluster.GetName()
	}
	return from, nil
}

// Secret reads which Secret has the kubeconfig of a CAPI cluster, and under which key. Both are empty where
// nothing is said. The error quotes nothing.
func Secret(annotations map[string]string) (name, key string, err error) {
	value := annotations[archelonv1.KubeconfigSecretAnnotation]
	if value == "" {
		return "", "", nil
	}
	name, key, keyed := strings.Cut(value, "/")
	if len(validation.IsDNS1123Subdomain(name)) > 0 || keyed && len(validation.IsConfigMapKey(key)) > 0 {
		return "", "", errors.New("it must be the name of a Secret in the namespace of this Cluster, or NAME/KEY")
	}
	return name, key, nil
}

// Context reads which context of the kubeconfig of a CAPI cluster is used, empty for the current one. The
// error quotes nothing.
func Context(annotations map[string]string) (string, error) {
	context := annotations[archelonv1.KubeconfigContextAnnotation]
	if len(context) > maxContext || strings.ContainsFunc(context, unicode.IsControl) {
		return "", fmt.Errorf("it must be the name of a context: at most %d bytes, with no control characters", maxContext)
	}
	return context, nil
}

func cannotBeUsed(annotation string, cause error) error {
	return &outcome.Problem{
		Kind: outcome.KindStall, Reason: archelonv1.InvalidSettingReason,
		Message: fmt.Sprintf("Annotation %s cannot be used: %s", annotation, cause),
	}
}

// ClustersOf returns the CAPI clusters whose kubeconfig a Secret may hold, by its metadata: the one of CAPI's label,
// and the one of the name.
func ClustersOf(secret metav1.Object) []types.NamespacedName {
	var clusters []types.NamespacedName
	named, _ := strings.CutSuffix(secret.GetName(), suffix)
	if named == secret.GetName() {
		named = ""
	}
	for _, name := range []string{secret.GetLabels()[clusterv1.ClusterNameLabel], named} {
		if key := (types.NamespacedName{Namespace: secret.GetNamespace(), Name: name}); name != "" && !slices.Contains(clusters, key) {
			clusters = append(clusters, key)
		}
	}
	return clusters
}

// Lacks reports whether the metadata of a Secret with CAPI's label says that it holds no kubeconfig: that
// of a cluster's authorities, and what each of its machines has.
func Lacks(secret metav1.Object) bool {
	what, ofCluster := strings.CutPrefix(secret.GetName(), secret.GetLabels()[clusterv1.ClusterNameLabel]+"-")
	if ofCluster && slices.Contains([]string{"ca", "etcd", "proxy", "sa", "apiserver-etcd-client"}, what) {
		return true
	}
	return slices.ContainsFunc(secret.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return strings.HasPrefix(owner.APIVersion, "bootstrap.cluster.x-k8s.io/") || owner.Kind == "Metal3Data"
	})
}
