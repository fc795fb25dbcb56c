package machines

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Bounds of what a cache keeps of a Metal3Machine. What is longer than that is in no HostClaim: what is left of it is
// refused, and is never taken for something else.
const (
	maxText   = 512
	maxObject = 32 << 10
)

// keepRequest leaves of a Metal3Machine what is read of it. It is a transform of a cache. Nothing is written to a
// Machine.
func keepRequest(object any) (any, error) {
	machine, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	kept := newMachine()
	kept.SetNamespace(machine.GetNamespace())
	kept.SetName(machine.GetName())
	kept.SetUID(machine.GetUID())
	kept.SetResourceVersion(machine.GetResourceVersion())
	kept.SetGeneration(machine.GetGeneration())
	kept.SetCreationTimestamp(machine.GetCreationTimestamp())
	kept.SetDeletionTimestamp(machine.GetDeletionTimestamp())
	var labels map[string]string
	for _, key := range []string{clusterv1.ClusterNameLabel, clusterv1.MachineControlPlaneNameLabel, clusterv1.MachineDeploymentNameLabel} {
		labels = hostclaim.Set(labels, key, machine.GetLabels()[key])
	}
	kept.SetLabels(labels)
	kept.SetAnnotations(keepAnnotations(machine.GetAnnotations()))
	if spec, ok := machine.Object["spec"].(map[string]any); ok {
		kept.Object["spec"] = keepSpec(spec)
	}
	return kept, nil
}

// keepAnnotations leaves those of Metal3, of CAPI and our own that are read.
func keepAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, longest := range map[string]int{
		metal3v1.MachineKindAnnotation: maxText, metal3v1.MachineCredentialsAnnotation: maxText, metal3v1.MachineArgsAnnotation: maxObject,
		metal3v1.HostAnnotation: maxText, metal3v1.ParkedAnnotation: maxText, clusterv1.PausedAnnotation: maxText,
		hostclaim.DeleteForMove: maxText,
	} {
		if value, ok := all[key]; ok {
			kept[key] = cut(value, longest)
		}
	}
	return kept
}

func keepSpec(all map[string]any) map[string]any {
	kept := map[string]any{}
	for _, key := range []string{"kind", "credentials", "failureDomain"} {
		if value, ok := all[key].(string); ok {
			kept[key] = cut(value, maxText)
		}
	}
	for _, key := range []string{"args", "hostSelector"} {
		value, ok := all[key]
		if !ok {
			continue
		}
		if raw, err := json.Marshal(value); err != nil || len(raw) > maxObject {
			value = "too large" // It cannot be read.
		}
		kept[key] = value
	}
	return kept
}

// cut returns a text that is too long as one that is still too long for whatever it is to be.
func cut(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:longest]), "")
}
