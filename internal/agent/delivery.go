package agent

import (
	"errors"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// ManualDelivery reads whether other means than Archelon apply the manifest of Rancher's agent in a workload cluster,
// from the annotations of its CAPI Cluster.
func ManualDelivery(annotations map[string]string) (bool, error) {
	switch annotations[archelonv1.AgentDeliveryAnnotation] {
	case "":
		return false, nil
	case archelonv1.ManualDelivery:
		return true, nil
	default:
		return false, errors.New(`it must be "manual"`)
	}
}

// ManifestSecretSuffix ends the names of the Secrets with the manifest of Rancher's agent.
const ManifestSecretSuffix = "-rancher-agent"

// ManifestSecretName returns the name of the Secret, beside a CAPI Cluster of this name, with the manifest of Rancher's
// agent.
func ManifestSecretName(cluster string) string { return cluster + ManifestSecretSuffix }
