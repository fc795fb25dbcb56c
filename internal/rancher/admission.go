package rancher

import (
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	kubernetes "k8s.io/client-go/kubernetes/scheme"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

const (
	// agentNamespace is the only namespace that a manifest may touch.
	agentNamespace = "cattle-system"
	// agentDeployment is the name of the Deployment of Rancher's agent.
	agentDeployment = "cattle-cluster-agent"
	// credentialsEnv is the agent's environment variable with the name of its credentials Secret.
	credentialsEnv = "CATTLE_CREDENTIAL_NAME"
)

// scopeOf returns whether objects of a kind are namespaced. The kinds are those of Rancher's template
// from 2.9 on, including those of options: the DaemonSets kube-api-auth and, up to 2.11,
// cattle-node-agent, the PodDisruptionBudget, and pull secrets. Others are not known.
func scopeOf(gvk schema.GroupVersionKind) (namespaced, known bool) {
	switch gvk.GroupVersion().String() + " " + gvk.Kind {
	case "v1 Namespace",
		"rbac.authorization.k8s.io/v1 ClusterRole",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return false, true
	case "v1 ServiceAccount",
		"v1 Secret",
		"v1 Service",
		"apps/v1 Deployment",
		"apps/v1 DaemonSet",
		"policy/v1 PodDisruptionBudget":
		return true, true
	default:
		return false, false
	}
}

// printable is what a kind may look like to be quoted in a message.
var printable = regexp.MustCompile(`^[A-Za-z]{1,40}$`)

// passes reports whether a kind that Rancher's template did not have so far may be part of it: a newer Rancher may add
// kinds, which is to stop no import. What reaches further than the agent does not pass, whatever namespace it says.
// Nor do kinds that Kubernetes itself does not have: nobody can tell what they do, and a cluster without their
// definitions, which do not pass, would not take them. ADR 0026 has the reasons.
func passes(gvk schema.GroupVersionKind) bool {
	switch gvk.Group {
	case "admissionregistration.k8s.io": // what anybody writes
		return false
	case "apiextensions.k8s.io", "apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io",
		"internal.apiserver.k8s.io", "storagemigration.k8s.io": // the API
		return false
	case "certificates.k8s.io": // who is who
		return false
	case "node.k8s.io", "resource.k8s.io", "storage.k8s.io": // what the Pods of all namespaces run on
		return false
	}
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Node"}, schema.GroupKind{Kind: "PersistentVolume"},
		schema.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"},
		schema.GroupKind{Group: "networking.k8s.io", Kind: "IPAddress"},
		schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:
		return false
	}
	return kubernetes.Scheme.IsGroupRegistered(gvk.Group) && len(validation.IsDNS1035Label(gvk.Version)) == 0 &&
		printable.MatchString(gvk.Kind)
}

// admit refuses an object that does not belong to an agent's manifest, and removes from the others what
// an API server sets. Rancher gives a cluster-scoped binding a namespace; it is removed as well. Whether the objects of
// a kind that is not known are namespaced, the workload cluster says.
func admit(object *unstructured.Unstructured, number int) (known bool, _ *outcome.Problem) {
	foreign := func(what string) (bool, *outcome.Problem) {
		return false, fail(archelonv1.ManifestForeignObjectReason,
			"Document %d of the manifest %s, which is not part of Rancher's agent. Nothing was applied. %s", number, what, remedy)
	}
	gvk := object.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return false, fail(archelonv1.ManifestNotYAMLReason,
			"Document %d of the manifest of Rancher's agent is not a Kubernetes object. %s", number, remedy)
	}
	namespaced, known := scopeOf(gvk)
	if !known && (object.IsList() || !passes(gvk)) {
		if printable.MatchString(gvk.Kind) {
			return foreign("is of kind " + gvk.Kind)
		}
		return foreign("is of an unknown kind")
	}

	// The accessors of unstructured objects overlook values of a wrong type; a conversion does not.
	var typed metav1.PartialObjectMetadata
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return foreign("has malformed metadata")
	}
	switch {
	case typed.Name == "" || len(content.IsPathSegmentName(typed.Name)) > 0 || len(typed.Name) > 253:
		return foreign("has no valid name")
	case len(typed.OwnerReferences) > 0 || len(typed.Finalizers) > 0:
		return foreign("has owners or finalizers")
	case gvk.Kind == "Namespace" && typed.Name != agentNamespace:
		return foreign("is a Namespace other than " + agentNamespace)
	case (namespaced || !known && typed.Namespace != "") && typed.Namespace != agentNamespace:
		return foreign("is a " + gvk.Kind + " outside namespace " + agentNamespace)
	case gvk.Kind == "PriorityClass" && object.Object["globalDefault"] != nil && object.Object["globalDefault"] != false:
		return foreign("is the PriorityClass of all Pods that name none")
	}
	if known && !namespaced {
		unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
	}
	for _, field := range []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generateName", "generation",
		"managedFields", "resourceVersion", "selfLink", "uid",
	} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	return known, nil
}

// complete checks that the agent is there with all that it needs to connect.
func (m *Manifest) complete() *outcome.Problem {
	deployment := &appsv1.Deployment{}
	if problem := m.find("Deployment", agentDeployment, deployment); problem != nil {
		return problem
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, env := range container.Env {
			if env.Name == credentialsEnv {
				m.credentialsSecret = env.Value
			}
		}
	}
	if m.credentialsSecret == "" {
		return incomplete("Deployment " + agentDeployment + " that names its credentials Secret")
	}
	secret := &corev1.Secret{}
	if problem := m.find("Secret", m.credentialsSecret, secret); problem != nil {
		return incomplete("credentials Secret that Deployment " + agentDeployment + " names")
	}
	for _, key := range []string{"url", "token"} {
		if len(secret.Data[key]) == 0 && secret.StringData[key] == "" {
			return incomplete(key + " in the credentials Secret")
		}
	}
	return nil
}

// find converts the object of a kind and name.
func (m *Manifest) find(kind, name string, into any) *outcome.Problem {
	for _, object := range m.objects {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			return incomplete("well-formed " + kind + " " + agentDeployment)
		}
		return nil
	}
	return incomplete(kind + " " + agentDeployment)
}

func incomplete(what string) *outcome.Problem {
	return fail(archelonv1.ManifestIncompleteReason, "The manifest of Rancher's agent lacks the %s. %s", what, remedy)
}
