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

	"github.com/archelon-io/archelon/providers/capi/problem"
)

// CAPI's contract of a cluster's kubeconfig Secret.
const (
	suffix     = "-kubeconfig"
	defaultKey = "value"
)

// Annotations of a Cluster that say where its kubeconfig is, other than CAPI's contract has it.
const (
	// SecretAnnotation names another Secret, "NAME" or "NAME/KEY".
	SecretAnnotation = "archelon.io/kubeconfig-secret"
	// ContextAnnotation names another context of the kubeconfig than its current one.
	ContextAnnotation = "archelon.io/kubeconfig-context"
)

// maxContext is how many bytes the name of a context may have that an annotation names.
const maxContext = 253

// Default returns where CAPI's contract has the kubeconfig of a CAPI cluster.
func Default(cluster types.NamespacedName) Source {
	return Source{
		Secret: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + suffix},
		Key:    defaultKey,
		Author: "the control plane of the cluster",
	}
}

// Of returns where the kubeconfig of a CAPI cluster is, which annotations of the cluster can say. Who may
// write these may not be allowed to read Secrets, so another Secret than that of the contract has to say by CAPI's
// label that it belongs to the cluster: otherwise the credentials of others would be used for them. The error is
// a Problem.
func Of(cluster metav1.Object) (Source, error) {
	from := Default(types.NamespacedName{Namespace: cluster.GetNamespace(), Name: cluster.GetName()})
	name, key, err := Secret(cluster.GetAnnotations())
	if err != nil {
		return Source{}, cannotBeUsed(SecretAnnotation, err)
	}
	if from.Context, err = Context(cluster.GetAnnotations()); err != nil {
		return Source{}, cannotBeUsed(ContextAnnotation, err)
	}
	if from.Context != "" {
		from.Annotation = ContextAnnotation
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
	value := annotations[SecretAnnotation]
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
	context := annotations[ContextAnnotation]
	if len(context) > maxContext || strings.ContainsFunc(context, unicode.IsControl) {
		return "", fmt.Errorf("it must be the name of a context: at most %d bytes, with no control characters", maxContext)
	}
	return context, nil
}

func cannotBeUsed(annotation string, cause error) error {
	return &problem.Problem{
		Kind: problem.KindStall, Reason: InvalidSettingReason,
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
