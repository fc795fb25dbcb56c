package machines

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// machineKind is that of Metal3Machines, in the version that all releases of the provider serve.
func machineKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "Metal3Machine"}
}

// Machine is what is read of a Metal3Machine.
type Machine struct {
	metav1.ObjectMeta

	// Kind, Args and Credentials are those that the claim is to have. A Machine without a kind is none of this
	// controller's.
	Kind        string
	Args        map[string]metal3v1.Argument
	Credentials string
	// Selector and FailureDomain say which hosts will do.
	Selector      metal3v1.HostSelector
	FailureDomain string
	// Problem is what is wrong with all that, in words for its user.
	Problem string
}

// spec is the part of a Metal3Machine that is read. Released types have no kind, args and credentials. What may be too
// large to be kept comes last: what comes before it is read all the same.
type spec struct {
	Kind          string                       `json:"kind,omitempty"`
	Credentials   string                       `json:"credentials,omitempty"`
	FailureDomain string                       `json:"failureDomain,omitempty"`
	Args          map[string]metal3v1.Argument `json:"args,omitempty"`
	HostSelector  *metal3v1.HostSelector       `json:"hostSelector,omitempty"`
}

// newMachine returns an object of the kind.
func newMachine() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(machineKind())
	return object
}

// newMachineList returns a list of them.
func newMachineList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineKind().GroupVersion().WithKind(machineKind().Kind + "List"))
	return list
}

// read reads a Metal3Machine. Where a field is not there, an annotation is in its place.
func read(object *unstructured.Unstructured) *Machine {
	m := &Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Labels: object.GetLabels(),
		Annotations: object.GetAnnotations(), DeletionTimestamp: object.GetDeletionTimestamp(),
	}}
	var s spec
	if raw, ok := object.Object["spec"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &s); err != nil {
			m.Problem = "spec.args or spec.hostSelector cannot be read, or is too large. Correct it"
		}
	}
	m.Kind, m.Args, m.Credentials, m.FailureDomain = s.Kind, s.Args, s.Credentials, s.FailureDomain
	if s.HostSelector != nil {
		m.Selector = *s.HostSelector
		// It is for the provider, which is to take no host but the proxy.
		delete(m.Selector.MatchLabels, metal3v1.MachineLabel)
	}
	if m.Kind == "" {
		m.Kind = m.Annotations[metal3v1.MachineKindAnnotation]
	}
	if m.Credentials == "" {
		m.Credentials = m.Annotations[metal3v1.MachineCredentialsAnnotation]
	}
	if said := m.Annotations[metal3v1.MachineArgsAnnotation]; m.Args == nil && said != "" {
		// What the decoder says would show parts of the value.
		if json.Unmarshal([]byte(said), &m.Args) != nil {
			m.Problem = fmt.Sprintf(
				`Annotation %s cannot be read. Set it to a JSON object with strings, such as {"key":"value"}`,
				metal3v1.MachineArgsAnnotation,
			)
		}
	}
	return m
}
