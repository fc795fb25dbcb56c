package importer

import (
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/archelon-io/archelon/internal/rancher"
)

func TestOnlyWhatIsReadOfARecordWakes(t *testing.T) {
	v3 := func(change func(*managementv3.Cluster)) func() (client.Object, client.Object) {
		return func() (client.Object, client.Object) {
			after := fullManagement()
			change(after)
			return fullManagement(), after
		}
	}
	v1 := func(change func(*provisioningv1.Cluster)) func() (client.Object, client.Object) {
		return func() (client.Object, client.Object) {
			after := fullProvisioning()
			change(after)
			return fullProvisioning(), after
		}
	}
	deleted := metav1.Now()
	tests := map[string]struct {
		reason string
		pair   func() (client.Object, client.Object)
		want   bool
	}{
		"Nodes":         {reason: "the count of nodes", pair: v3(func(c *managementv3.Cluster) { c.Status.NodeCount++ })},
		"Applied":       {reason: "what Rancher has applied", pair: v3(func(c *managementv3.Cluster) { c.Status.AppliedSpec.Description = "x" })},
		"OtherTouched":  {reason: "a condition that is not read", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[5].Status = "False" })},
		"Ready":         {reason: "it is False before the first connection, too", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[2].Status = "False" })},
		"ReadyTouched":  {reason: "the times of Ready", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[2].LastUpdateTime = "2026-02-02T03:04:05Z" })},
		"Message":       {reason: "the message of Connected", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[1].Message = "x" })},
		"Refresh":       {reason: "an annotation that is not read", pair: v3(func(c *managementv3.Cluster) { c.Annotations["clusters.management.cattle.io/ke-last-refresh"] = "1" })},
		"NewAnnotation": {reason: "one more that is not read", pair: v3(func(c *managementv3.Cluster) { c.Annotations["lifecycle.cattle.io/x"] = "1" })},
		"ManagedFields": {reason: "nobody reads them", pair: v3(func(c *managementv3.Cluster) { c.ManagedFields[0].Manager = "x" })},
		"Image":         {reason: "the image of the agent is Rancher's", pair: v3(func(c *managementv3.Cluster) { c.Spec.DesiredAgentImage = "x" })},

		"Connected":   {reason: "the agent was lost", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[1].Status = "False" }), want: true},
		"Since":       {reason: "it was lost in between", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[1].LastUpdateTime = "2026-02-02T03:04:05Z" }), want: true},
		"WaitingGone": {reason: "it is not known any more", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions = c.Status.Conditions[:2] }), want: true},
		"Waiting":     {reason: "it says that the agent was connected once", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[3].Status = "False" }), want: true},
		"Label":       {reason: "labels are copied", pair: v3(func(c *managementv3.Cluster) { c.Labels["team"] = "blue" }), want: true},
		"OwnerLabel":  {reason: "it lost its owner", pair: v3(func(c *managementv3.Cluster) { delete(c.Labels, "archelon.io/capi-cluster-uid") }), want: true},
		"Annotation":  {reason: "ours", pair: v3(func(c *managementv3.Cluster) { delete(c.Annotations, "archelon.io/propagated-labels") }), want: true},
		"Propagated":  {reason: "it was copied", pair: v3(func(c *managementv3.Cluster) { c.Annotations["example.com/cost"] = "2" }), want: true},
		"Unasked":     {reason: "it was not copied", pair: v3(func(c *managementv3.Cluster) { c.Annotations["example.com/other"] = "2" })},
		"Description": {reason: "it is set by us", pair: v3(func(c *managementv3.Cluster) { c.Spec.Description = "x" }), want: true},
		"DisplayName": {reason: "it is set by us", pair: v3(func(c *managementv3.Cluster) { c.Spec.DisplayName = "x" }), want: true},
		"Workspace":   {reason: "it is set by us", pair: v3(func(c *managementv3.Cluster) { c.Spec.FleetWorkspaceName = "x" }), want: true},
		"Env":         {reason: "it is set by us", pair: v3(func(c *managementv3.Cluster) { c.Spec.AgentEnvVars = nil }), want: true},
		"FleetAgent": {reason: "it is set by us", pair: v3(func(c *managementv3.Cluster) {
			c.Spec.FleetAgentDeploymentCustomization = &managementv3.AgentDeploymentCustomization{}
		}), want: true},
		"Registry":   {reason: "the agent comes from there", pair: v3(func(c *managementv3.Cluster) { c.Spec.ImportedConfig.PrivateRegistryURL = "x" }), want: true},
		"AppliedEnv": {reason: "it says what the agent has", pair: v3(func(c *managementv3.Cluster) { c.Status.AppliedAgentEnvVars = c.Spec.AgentEnvVars }), want: true},
		"Deployed":   {reason: "Rancher has applied its agent", pair: v3(func(c *managementv3.Cluster) { c.Status.Conditions[4].Status = "False" }), want: true},
		"Finalizer":  {reason: "a message names who holds it", pair: v3(func(c *managementv3.Cluster) { c.Finalizers = nil }), want: true},
		"Deleted":    {reason: "it was deleted in Rancher", pair: v3(func(c *managementv3.Cluster) { c.DeletionTimestamp = &deleted }), want: true},
		"Replaced":   {reason: "another one of the name", pair: v3(func(c *managementv3.Cluster) { c.UID = "other" }), want: true},

		"V1Status":      {reason: "Rancher says how far it is", pair: v1(func(c *provisioningv1.Cluster) { c.Status.Ready, c.Status.ObservedGeneration = false, 4 })},
		"V1Spec":        {reason: "it is Rancher's", pair: v1(func(c *provisioningv1.Cluster) { c.Spec.KubernetesVersion = "v1.37.0" })},
		"V1ClusterName": {reason: "its v3 Cluster is there", pair: v1(func(c *provisioningv1.Cluster) { c.Status.ClusterName = "c-m-other" }), want: true},
		"V1Env":         {reason: "it is set by us", pair: v1(func(c *provisioningv1.Cluster) { c.Spec.AgentEnvVars = nil }), want: true},
		"V1Owner":       {reason: "it lost its owner", pair: v1(func(c *provisioningv1.Cluster) { c.OwnerReferences = nil }), want: true},
		"V1Workspace":   {reason: "it is set by us", pair: v1(func(c *provisioningv1.Cluster) { c.Annotations["provisioning.cattle.io/fleet-workspace-name"] = "x" }), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := tc.pair()
			reduce(t, before)
			reduce(t, after)
			update := func(own *ownWrites) bool {
				return recordChanged(own).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
			}
			if !update(newOwnWrites()) {
				t.Errorf("%s: a resync has to pass", tc.reason)
			}
			after.SetResourceVersion("8")
			if got := update(newOwnWrites()); got != tc.want {
				t.Errorf("%s: admitted %t, want %t", tc.reason, got, tc.want)
			}
			own := newOwnWrites()
			own.note(after)
			if after.GetUID() == before.GetUID() && !update(own) {
				t.Errorf("%s: what follows on a write of this process has to pass", tc.reason)
			}
		})
	}
}

func TestOnlyWhatIsReadOfATokenWakes(t *testing.T) {
	token := func(version, uid string, status map[string]any) client.Object {
		u := rancher.NewRegistrationToken()
		u.SetResourceVersion(version)
		u.SetUID(types.UID(uid))
		u.Object["status"] = status
		return u
	}
	before := token("1", "a", map[string]any{"manifestUrl": "x", "command": "y"})
	for name, tc := range map[string]struct {
		after client.Object
		want  bool
	}{
		"Resync":  {after: before, want: true},
		"Command": {after: token("2", "a", map[string]any{"manifestUrl": "x", "command": "z"})},
		"URL":     {after: token("2", "a", map[string]any{"manifestUrl": "z", "command": "y"}), want: true},
		"Secret":  {after: token("2", "a", map[string]any{"manifestUrl": "x", "tokenSecretName": "s"}), want: true},
		"Token":   {after: token("2", "a", map[string]any{"manifestUrl": "x", "token": "s"}), want: true},
		"New":     {after: token("2", "b", map[string]any{"manifestUrl": "x", "command": "y"}), want: true},
	} {
		if got := tokenChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: admitted %t, want %t", name, got, tc.want)
		}
	}
}
