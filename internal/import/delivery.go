package importer

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
)

// Where a workload cluster cannot be reached from the management cluster, other means apply the manifest of Rancher's
// agent there. Package agentmanifest has it in a Secret, and the import installs nothing.

// manualDelivery reads whether other means than Archelon apply the manifest of the agent, as far as this installation
// allows it.
func (r Rules) manualDelivery(annotations map[string]string) (bool, error) {
	manual, err := agent.ManualDelivery(annotations)
	if manual && !r.ManualDelivery {
		return false, errors.New("manual delivery of the agent is not allowed. Remove the annotation, or ask your administrator " +
			"to set the Helm value features.agent-manifest.enabled to true")
	}
	return manual, err
}

// awaitDelivery waits until other means have installed the agent. Rancher reports when it connects, and nothing else
// has to be looked at. A manifest that is applied again after a loss starts an agent that only registers. Therefore
// Rancher is asked, once for each loss that the condition reports, to deploy its agent when that happens.
func (d *deciding) awaitDelivery() Decision {
	switch {
	case d.lacks(askJob{}):
		return ask(askJob{})
	case d.busy && !d.stopped:
		return act(stopWork{}) // It began before the annotation was set.
	}
	secret := d.cluster.Namespace + "/" + agent.ManifestSecretName(d.cluster.Name)
	if d.management.known {
		lost := manualLost(secret)
		reported := meta.FindStatusCondition(d.cluster.GetConditions(), archelonv1.RancherImportedCondition)
		if !d.redeployed && lacksDeployment(d.management.object) && (reported == nil || !strings.HasPrefix(reported.Message, lost)) {
			return act(redeploy{*d.management})
		}
		return wait(archelonv1.AgentDisconnectedReason, lost)
	}
	return wait(archelonv1.WaitingForAgentReason, fmt.Sprintf(
		"Waiting for the connection of Rancher's agent, which Archelon does not install, because annotation %s is %q. "+
			"Apply the manifest in Secret %s in the workload cluster. The agent usually connects within a minute",
		archelonv1.AgentDeliveryAnnotation, archelonv1.ManualDelivery, secret))
}

// manualLost says that an agent lost its connection which Archelon does not install.
func manualLost(secret string) string {
	return fmt.Sprintf("Rancher's agent lost its connection to Rancher. Archelon does not install it, because annotation %s is %q. "+
		"Check Deployment cattle-system/cattle-cluster-agent in the workload cluster and its network path to Rancher, "+
		"or apply the manifest in Secret %s there again", archelonv1.AgentDeliveryAnnotation, archelonv1.ManualDelivery, secret)
}
