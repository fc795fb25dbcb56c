package importer

import (
	"maps"
	"slices"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
)

// The cache holds of a CAPI cluster and of a Rancher cluster what an import reads, and no more. What is read of them is
// said here and nowhere else: a change of anything else wakes nobody. Objects from the cache are the base of patches,
// so what is left out must never look as if it had been taken off. A list or a map is empty only if it is empty on the
// API server: one annotation that nobody reads keeps its key and loses its value. What tenants write has a bound, and
// what exceeds it is known by that: see internal/controller/bound.go.

// Reduce leaves of an object for the cache what an import reads of it. It is a transform of the cache.
func (r Rules) Reduce(object any) (any, error) {
	switch object := object.(type) {
	case *clusterv1.Cluster:
		object.Labels = r.labelsRead(object.Labels)
		reduceMeta(&object.ObjectMeta, longest, r.annotationsOf(object))
		object.OwnerReferences = controller.BoundOwners(object.OwnerReferences, ofRancher)
		awaited := clusterv1.ContractVersionedObjectReference{}
		if !controlPlaneUp(object) {
			awaited = object.Spec.ControlPlaneRef
		}
		object.Spec = clusterv1.ClusterSpec{
			Paused: object.Spec.Paused, InfrastructureRef: object.Spec.InfrastructureRef, Topology: clusterv1.Topology{ClassRef: object.Spec.Topology.ClassRef},
			ControlPlaneRef: awaited,
		}
		object.Status = clusterv1.ClusterStatus{
			Initialization: object.Status.Initialization,
			Phase:          object.Status.Phase, // The fleet reads it.
			Conditions:     conditionsRead(object),
		}
		return object, nil
	default:
		return Reduce(object)
	}
}

// Reduce is Rules.Reduce for Rancher clusters, which no option has a part in.
func Reduce(object any) (any, error) {
	switch object := object.(type) {
	case *managementv3.Cluster:
		reduceRecord(&object.ObjectMeta)
		spec := managementv3.ClusterSpec{
			DisplayName:        object.Spec.DisplayName,
			Description:        object.Spec.Description,
			FleetWorkspaceName: object.Spec.FleetWorkspaceName,
		}
		spec.AgentEnvVars = object.Spec.AgentEnvVars
		spec.ClusterAgentDeploymentCustomization = object.Spec.ClusterAgentDeploymentCustomization
		spec.FleetAgentDeploymentCustomization = object.Spec.FleetAgentDeploymentCustomization
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
		reduceRecord(&object.ObjectMeta)
		object.Spec = provisioningv1.ClusterSpec{
			AgentEnvVars:                        object.Spec.AgentEnvVars,
			ClusterAgentDeploymentCustomization: object.Spec.ClusterAgentDeploymentCustomization,
			FleetAgentDeploymentCustomization:   object.Spec.FleetAgentDeploymentCustomization,
		}
		object.Status = provisioningv1.ClusterStatus{ClusterName: object.Status.ClusterName}
	}
	return object, nil
}

// What is kept of an annotation. Nothing that is longer can be used, but for a description, which is cut: settings
// have at most 8 KiB, and everything else is a name or a boolean.
const (
	longestSetting = 16 << 10
	longestValue   = 1 << 10
)

// longest is how much is kept of an annotation of a CAPI cluster.
func longest(key string) int {
	switch key {
	case archelonv1.AgentEnvAnnotation, archelonv1.AgentDeploymentAnnotation, archelonv1.FleetAgentDeploymentAnnotation,
		archelonv1.MembersAnnotation, archelonv1.DescriptionAnnotation:
		return longestSetting
	}
	return longestValue
}

// Bounds of Rancher clusters, which people edit in Rancher. The annotations that name what was propagated have the keys
// of all labels that can be, and a text that is cut is still longer than any that this project writes.
const (
	longestOfRecord = 2 * controller.MaxLabels
	maxRecordLabels = 4 * controller.MaxLabels
	maxAnnotations  = 64 << 10
)

// labelsRead are the labels of a CAPI cluster that are read: those that its Rancher cluster gets, which have a bound,
// and those that are read by their keys.
func (r Rules) labelsRead(labels map[string]string) map[string]string {
	if !controller.Exceeds(labels, controller.MaxLabels) {
		return labels
	}
	keys := r.labelsByKey()
	byKey := func(key string) bool { return slices.Contains(keys, key) }
	read := maps.Clone(controller.Bound(r.propagated(labels), controller.MaxLabels, byKey))
	maps.Copy(read, controller.OnlyLabels(labels, keys...))
	return read
}

// labelsByKey are the keys of labels of CAPI clusters that are read beside those that Rancher clusters get.
func (r Rules) labelsByKey() []string {
	keys := []string{archelonv1.ImportLabel, clusterv1.WatchLabel}
	if r.Selector.labels != nil {
		requirements, _ := r.Selector.labels.Requirements()
		for _, requirement := range requirements {
			keys = append(keys, requirement.Key())
		}
	}
	return keys
}

// reduceRecord leaves of the metadata of a Rancher cluster what is read. The labels that were propagated are compared
// with those that are to be, so none of them is left out.
func reduceRecord(meta *metav1.ObjectMeta) {
	given := map[string]string{}
	for _, key := range annotationsGiven(meta.Annotations) {
		if value, ok := meta.Annotations[key]; ok {
			given[key] = controller.Head(value, longestOfRecord)
		}
	}
	given = controller.Bound(given, maxRecordLabels, func(string) bool { return false })
	reduceMeta(meta, func(string) int { return longestOfRecord }, given)
	if controller.Exceeds(meta.Labels, maxRecordLabels) {
		propagated := strings.Split(meta.Annotations[archelonv1.PropagatedLabelsAnnotation], ",")
		read := slices.Concat(propagated, []string{
			archelonv1.OwnedLabel, archelonv1.OwnerNameLabel, archelonv1.OwnerNamespaceLabel, archelonv1.OwnerUIDLabel,
			archelonv1.ManagementClusterLabel, classNameLabel, classNamespaceLabel,
		})
		slices.Sort(read)
		meta.Labels = controller.Bound(meta.Labels, maxRecordLabels, func(key string) bool {
			_, found := slices.BinarySearch(read, key)
			return found
		})
	}
	meta.OwnerReferences = controller.BoundOwners(meta.OwnerReferences, func(metav1.OwnerReference) bool { return true })
}

// reduceMeta leaves of metadata what is read of it, but for labels and owners. Of the value of an annotation it keeps
// so many bytes. Of the annotations that are propagated it keeps what it is given.
func reduceMeta(meta *metav1.ObjectMeta, longest func(key string) int, propagated map[string]string) {
	meta.ManagedFields = nil
	meta.Finalizers = controller.BoundFinalizers(meta.Finalizers)
	if len(meta.Annotations) == 0 {
		return
	}
	read, unread := map[string]string{}, ""
	for key, value := range meta.Annotations {
		_, given := propagated[key]
		switch {
		case given:
		case readsAnnotation(key):
			read[key] = controller.Head(value, longest(key))
		case unread == "" || key < unread:
			unread = key
		}
	}
	if unread != "" {
		read[unread] = ""
	}
	keys := annotationsByKey()
	meta.Annotations = controller.Bound(read, maxAnnotations, func(key string) bool { return slices.Contains(keys, key) })
	maps.Copy(meta.Annotations, propagated) // They have a bound of their own.
}

// annotationsByKey are the annotations that are kept whatever others there are in the same domains: on a CAPI cluster,
// and on a Rancher cluster.
func annotationsByKey() []string {
	return []string{
		clusterv1.PausedAnnotation, archelonv1.RecordAnnotation, archelonv1.InstanceAnnotation,
		archelonv1.ImportedAnnotation, archelonv1.KeptOutAnnotation, archelonv1.EarlyImportAnnotation, archelonv1.ManagedByAnnotation,
		archelonv1.AgentEnvAnnotation, archelonv1.AgentDeploymentAnnotation, archelonv1.FleetAgentDeploymentAnnotation,
		archelonv1.PrivateRegistryAnnotation, archelonv1.PullSecretsAnnotation,
		archelonv1.MembersAnnotation, archelonv1.DescriptionAnnotation,
		archelonv1.KubeconfigSecretAnnotation, archelonv1.KubeconfigContextAnnotation,
		archelonv1.DisplayNameAnnotation, archelonv1.DisplayNameFormAnnotation, archelonv1.FleetWorkspaceAnnotation, archelonv1.ExternalFleetAnnotation,
		archelonv1.TakeOverAgentAnnotation, archelonv1.ImportManagementClusterAnnotation, archelonv1.AgentDeliveryAnnotation,

		madeFromNamespace, madeFromName, forceDeployAnnotation,
		archelonv1.PropagatedLabelsAnnotation, archelonv1.PropagatedAnnotationsAnnotation, archelonv1.PropagatedSettingsAnnotation,
		archelonv1.RegistrationRequestedAnnotation,
		archelonv1.TakenOverAnnotation, archelonv1.NoCreatorRBACAnnotation, archelonv1.VersionManagementAnnotation,
		archelonv1.ExternallyManagedAnnotation, archelonv1.RancherDescriptionAnnotation, administratedAnnotation,
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

// conditionsRead returns the conditions of a CAPI cluster that are read. The words of Cluster API are read while the
// control plane is waited for.
func conditionsRead(cluster *clusterv1.Cluster) []metav1.Condition {
	var read []metav1.Condition
	up := controlPlaneUp(cluster)
	for _, condition := range cluster.Status.Conditions {
		switch condition.Type {
		case archelonv1.RancherImportedCondition, archelonv1.FleetEngagedCondition, archelonv1.RancherMembersCondition,
			archelonv1.AgentManifestCondition:
			read = append(read, condition)
		case clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition,
			clusterv1.ClusterRemoteConnectionProbeCondition:
			if condition.Message = printable(condition.Message, longestQuote); up {
				condition.Message = ""
			}
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
