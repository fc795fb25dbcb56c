package importer

import (
	"slices"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// The cache holds of a CAPI cluster and of a Rancher cluster what an import reads, and no more. What is read of them is
// said here and nowhere else: a change of anything else wakes nobody. Objects from the cache are the base of patches,
// so what is left out must never look as if it had been taken off: an annotation that nobody reads keeps its key and
// loses its value. Then a list or a map is empty only if it is empty on the API server.

// Reduce leaves of an object for the cache what an import reads of it. It is a transform of the cache.
func Reduce(object any) (any, error) {
	switch object := object.(type) {
	case *clusterv1.Cluster:
		reduceMeta(&object.ObjectMeta)
		for key, value := range object.Annotations {
			if len(value) > longestAnnotation {
				object.Annotations[key] = strings.ToValidUTF8(strings.Clone(value[:longestAnnotation]), "")
			}
		}
		object.Spec = clusterv1.ClusterSpec{
			Paused: object.Spec.Paused, InfrastructureRef: object.Spec.InfrastructureRef, Topology: clusterv1.Topology{ClassRef: object.Spec.Topology.ClassRef},
		}
		object.Status = clusterv1.ClusterStatus{
			Initialization: object.Status.Initialization,
			Phase:          object.Status.Phase, // The fleet reads it.
			Conditions:     conditionsRead(object.Status.Conditions),
		}
	case *managementv3.Cluster:
		reduceMeta(&object.ObjectMeta)
		spec := managementv3.ClusterSpec{
			DisplayName:        object.Spec.DisplayName,
			Description:        object.Spec.Description,
			FleetWorkspaceName: object.Spec.FleetWorkspaceName,
		}
		spec.AgentEnvVars = object.Spec.AgentEnvVars
		spec.ClusterAgentDeploymentCustomization = object.Spec.ClusterAgentDeploymentCustomization
		if imported := object.Spec.ImportedConfig; imported != nil {
			// It may hold a kubeconfig.
			spec.ImportedConfig = &managementv3.ImportedConfig{
				PrivateRegistryURL: imported.PrivateRegistryURL, PrivateRegistryPullSecrets: imported.PrivateRegistryPullSecrets,
			}
		}
		object.Spec = spec
		object.Status = managementv3.ClusterStatus{
			AppliedAgentEnvVars: object.Status.AppliedAgentEnvVars,
			Conditions:          managementConditionsRead(object.Status.Conditions),
		}
	case *provisioningv1.Cluster:
		reduceMeta(&object.ObjectMeta)
		object.Spec = provisioningv1.ClusterSpec{
			AgentEnvVars:                        object.Spec.AgentEnvVars,
			ClusterAgentDeploymentCustomization: object.Spec.ClusterAgentDeploymentCustomization,
		}
		object.Status = provisioningv1.ClusterStatus{ClusterName: object.Status.ClusterName}
	}
	return object, nil
}

// longestAnnotation is how much is kept of an annotation that is read of a CAPI cluster, which tenants write. Nothing
// that is longer can be used, but for a description, which is cut.
const longestAnnotation = 16 << 10

func reduceMeta(meta *metav1.ObjectMeta) {
	meta.ManagedFields = nil
	for key := range meta.Annotations {
		if !readsAnnotation(key) {
			meta.Annotations[key] = ""
		}
	}
}

// readsAnnotation reports whether the value of an annotation is read: ours, and those of Rancher and of CAPI that
// an import sets or looks at.
func readsAnnotation(key string) bool {
	switch key {
	case archelonv1.ImportedAnnotation, madeFromNamespace, madeFromName:
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	switch domain {
	case "archelon.io", "cluster-api.cattle.io", "cluster.x-k8s.io", "field.cattle.io", "provisioning.cattle.io", "rancher.io":
		return true
	}
	return strings.HasPrefix(key, "io.cattle.agent.") // It has Rancher deploy its agent.
}

// conditionsRead returns the conditions of a CAPI cluster that are read.
func conditionsRead(all []metav1.Condition) []metav1.Condition {
	var read []metav1.Condition
	for _, condition := range all {
		switch condition.Type {
		case archelonv1.RancherImportedCondition, archelonv1.FleetEngagedCondition, archelonv1.RancherMembersCondition,
			clusterv1.ClusterControlPlaneAvailableCondition:
			read = append(read, condition)
		}
	}
	return slices.Clip(read)
}

// managementConditionsRead returns what is read of the conditions of a v3 Cluster. Rancher touches them often.
func managementConditionsRead(all []managementv3.ClusterCondition) []managementv3.ClusterCondition {
	var read []managementv3.ClusterCondition
	for i := range all {
		kept := managementv3.ClusterCondition{Type: all[i].Type, Status: all[i].Status}
		switch all[i].Type {
		case connectedCondition, namespaceCondition:
			kept.LastUpdateTime = all[i].LastUpdateTime
		case waitingCondition, deployedCondition, migratedCondition:
		default:
			continue
		}
		read = append(read, kept)
	}
	return slices.Clip(read)
}
