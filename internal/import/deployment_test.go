package importer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLacksDeployment(t *testing.T) {
	lost := map[string]corev1.ConditionStatus{"Connected": corev1.ConditionFalse, "AgentDeployed": corev1.ConditionTrue}
	now := metav1.Now()
	for name, test := range map[string]struct {
		reason   string
		status   map[string]corev1.ConditionStatus
		asked    string
		deleting bool
		want     bool
	}{
		"Lost":      {reason: "Rancher believes that its agent is there", status: lost, want: true},
		"Answered":  {reason: "an earlier request was answered, and the agent lost again", status: lost, asked: "false", want: true},
		"Asked":     {reason: "a request waits for the agent to register", status: lost, asked: "true"},
		"Deleting":  {reason: "what is being deleted needs no agent", status: lost, deleting: true},
		"Connected": {reason: "it came back meanwhile", status: map[string]corev1.ConditionStatus{"Connected": corev1.ConditionTrue, "AgentDeployed": corev1.ConditionTrue}},
		"First":     {reason: "Rancher applies it by itself", status: map[string]corev1.ConditionStatus{"Connected": corev1.ConditionFalse}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := withConditions(test.status)
			if test.asked != "" {
				cluster.Annotations = map[string]string{"io.cattle.agent.force.deploy": test.asked}
			}
			if test.deleting {
				cluster.DeletionTimestamp = &now
			}
			if got := lacksDeployment(cluster); got != test.want {
				t.Errorf("lacksDeployment() = %t, want %t: %s", got, test.want, test.reason)
			}
		})
	}
}
