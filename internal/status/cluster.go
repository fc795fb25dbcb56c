// Package status shows CAPI clusters as the instances of Archelon report them: "archelon status". It reads CAPI
// Clusters and nothing else, unless Rancher is in another cluster than CAPI.
package status

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
)

// Cluster is what is known of a CAPI cluster. Its form in JSON and YAML stays as it is.
type Cluster struct {
	// Namespace and Name are those of the CAPI Cluster.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Imported is the status of condition RancherImported: "True", "False", or empty if no instance has reported.
	Imported string `json:"imported,omitempty"`
	// Reason and Message are those of the condition. docs/operations/conditions.md has all reasons.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the status of the condition changed last.
	Since *metav1.Time `json:"since,omitempty"`
	// RancherCluster is "v3/<name>" or "v1/<name>", in the namespace of the CAPI Cluster.
	RancherCluster string `json:"rancherCluster,omitempty"`
	// InRancher is how the Rancher cluster is in Rancher, where that is in another cluster: "waiting" for its agent,
	// "connected", "disconnected", "deleting" or "missing".
	InRancher string `json:"inRancher,omitempty"`
	// CAPICluster is "gone" if there is only the Rancher cluster.
	CAPICluster string `json:"capiCluster,omitempty"`
	// Agent is how far Rancher's agent is, by the reason: "installing", "waiting", "connected" or "disconnected". It is
	// empty before that.
	Agent string `json:"agent,omitempty"`
	// Delivery is "manual" if other means than Archelon install the agent.
	Delivery string `json:"delivery,omitempty"`
	// Fleet is the reason of condition FleetEngaged, which is there with gate fleet.
	Fleet string `json:"fleet,omitempty"`
	// Instance is the instance that works on it, "<namespace>/<name>".
	Instance string `json:"instance,omitempty"`
	// Deleted is whether it is gone. Only --watch shows that.
	Deleted bool `json:"deleted,omitempty"`
}

// Of returns what a CAPI Cluster says of itself.
func Of(cluster *clusterv1.Cluster) Cluster {
	c := Cluster{
		Namespace: cluster.Namespace, Name: cluster.Name,
		RancherCluster: cluster.Annotations[archelonv1.RecordAnnotation],
		Instance:       cluster.Annotations[archelonv1.InstanceAnnotation],
	}
	if manual, err := agent.ManualDelivery(cluster.Annotations); err == nil && manual {
		c.Delivery = archelonv1.ManualDelivery
	}
	if imported := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition); imported != nil {
		c.Imported, c.Reason, c.Message = string(imported.Status), imported.Reason, imported.Message
		if !imported.LastTransitionTime.IsZero() {
			c.Since = &imported.LastTransitionTime
		}
		c.Agent = agentOf(imported)
	}
	if engaged := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.FleetEngagedCondition); engaged != nil {
		c.Fleet = engaged.Reason
	}
	return c
}

// agentOf says how far the agent is.
func agentOf(imported *metav1.Condition) string {
	if imported.Status == metav1.ConditionTrue {
		return "connected"
	}
	switch imported.Reason {
	case archelonv1.ConnectingAgentReason:
		return "installing"
	case archelonv1.WaitingForAgentReason, archelonv1.AgentUnschedulableReason, archelonv1.AgentPodsRefusedReason,
		archelonv1.AgentImageUnavailableReason, archelonv1.AgentCrashingReason, archelonv1.AgentCannotReachRancherReason:
		return "waiting"
	case archelonv1.AgentDisconnectedReason:
		return "disconnected"
	default:
		return ""
	}
}

// compare orders clusters by namespace and name.
func compare(a, b Cluster) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
