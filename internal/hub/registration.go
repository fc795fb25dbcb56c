package hub

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// KubeconfigKey is the key of the Secret that has the kubeconfig, as in CAPI's own Secrets.
const KubeconfigKey = "value"

// refusedKey has, in the cache, why a kubeconfig is not used. No Secret of an API server can have such a key.
const refusedKey = "refused: "

// Selector selects the Secrets that register management clusters.
func Selector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{archelonv1.ManagementClusterKubeconfigLabel: "true"})
}

// Reduce leaves of a Secret a kubeconfig that is safe, or why there is none: multicluster-runtime's provider takes what
// it finds, and would run programs that a kubeconfig names. It is a transform of the cache.
func Reduce(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok {
		return object, nil
	}
	if _, reduced := secret.Data[refusedKey]; reduced {
		return object, nil
	}
	kept := map[string][]byte{KubeconfigKey: secret.Data[KubeconfigKey]}
	if _, err := workload.RESTConfig(secret.Data[KubeconfigKey]); err != nil {
		kept = map[string][]byte{refusedKey: []byte(err.Error())}
	}
	secret.Data = kept
	secret.ManagedFields = nil
	return secret, nil
}

// registration is what a Secret says of a management cluster.
type registration struct {
	name    string
	created metav1.Time
	// uid is that of the management cluster that was found first; empty before.
	uid types.UID
	// display is how people call the management cluster.
	display string
	// refused is why the kubeconfig is not used; empty if it is.
	refused string
}

// registrationOf reads a Secret of the cache.
func registrationOf(secret *corev1.Secret) registration {
	return registration{
		name: secret.Name, created: secret.CreationTimestamp, uid: types.UID(secret.Annotations[archelonv1.ManagementClusterUIDAnnotation]),
		display: displayOf(secret), refused: string(secret.Data[refusedKey]),
	}
}

// displayOf returns a name that can be a part of the name of a Rancher cluster.
func displayOf(secret *corev1.Secret) string {
	if name := secret.Annotations[archelonv1.DisplayNameAnnotation]; name != "" && len(validation.IsDNS1123Label(name)) == 0 {
		return name
	}
	return strings.ReplaceAll(secret.Name, ".", "-")
}

// before reports whether a registration is older than another one.
func (r registration) before(other registration) bool {
	if byAge := r.created.Compare(other.created.Time); byAge != 0 {
		return byAge < 0
	}
	return r.name < other.name
}

// answerWithin is how long a management cluster may take for its first answer before it counts as unreachable.
const answerWithin = 15 * time.Second
