package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// defaultDescription is the one that Rancher Turtles gives, so that dashboards read alike.
const defaultDescription = "CAPI cluster imported to Rancher"

// desired computes the record of a CAPI cluster as far as this installation allows it. The error is an *outcome.Problem
// that names what the user has to change.
func (r Rules) desired(cluster *clusterv1.Cluster, name string) (Desired, error) {
	desired, err := r.desiredRecord(cluster, name)
	if err == nil && desired.FleetWorkspace != "" && !slices.Contains(r.FleetWorkspaces, desired.FleetWorkspace) {
		return Desired{}, invalidSetting(archelonv1.FleetWorkspaceAnnotation,
			fmt.Errorf("the Fleet workspace %q is not allowed. Choose another workspace, or ask your administrator to add it to the Helm value fleetWorkspaces", desired.FleetWorkspace))
	}
	if err != nil {
		return desired, err
	}
	desired.Form = r.DisplayName
	if err := r.addAnnotations(&desired); err != nil {
		return desired, err
	}
	r.addClass(&desired)
	if r.Origin != "" {
		desired.Labels[archelonv1.ManagementClusterLabel] = string(r.Origin)
	}
	if err := r.addAgentDeployment(&desired); err != nil {
		return desired, err
	}
	r.addAgentDefaults(&desired)
	return desired, r.addRegistry(&desired)
}

// desiredAs is desired for a kind of record.
func (r Rules) desiredAs(strategy Strategy, cluster *clusterv1.Cluster, name string) (Desired, error) {
	desired, err := r.desired(cluster, name)
	if err != nil {
		return desired, err
	}
	return desired, checkRegistryKind(strategy, desired)
}

// desiredRecord computes the record of a CAPI cluster. The error is an *outcome.Problem that names what
// the user has to change.
func (r Rules) desiredRecord(cluster *clusterv1.Cluster, name string) (Desired, error) {
	if err := checkNames(cluster); err != nil {
		return Desired{}, err
	}
	env, err := agentEnv(cluster.Annotations)
	if err != nil {
		return Desired{}, invalidSetting(archelonv1.AgentEnvAnnotation, err)
	}
	desired, err := naming(cluster, name)
	if err != nil {
		return Desired{}, err
	}
	if _, err := r.manualDelivery(cluster.Annotations); err != nil {
		return Desired{}, invalidSetting(archelonv1.AgentDeliveryAnnotation, err)
	}
	external, err := externalFleet(cluster.Annotations)
	if err != nil {
		return Desired{}, invalidSetting(archelonv1.ExternalFleetAnnotation, err)
	}

	propagated, err := r.propagatedLabels(cluster)
	if err != nil {
		return Desired{}, err
	}
	labels := maps.Clone(propagated)
	labels[archelonv1.OwnedLabel] = ""
	labels[archelonv1.OwnerNameLabel] = cluster.Name
	labels[archelonv1.OwnerNamespaceLabel] = cluster.Namespace
	labels[archelonv1.OwnerUIDLabel] = string(cluster.UID)

	annotations := map[string]string{
		archelonv1.NoCreatorRBACAnnotation:     "true",
		archelonv1.VersionManagementAnnotation: "false",
	}
	if len(propagated) > 0 {
		annotations[archelonv1.PropagatedLabelsAnnotation] = strings.Join(slices.Sorted(maps.Keys(propagated)), ",")
	}
	var settings []string
	for _, key := range []string{archelonv1.AgentEnvAnnotation, archelonv1.DescriptionAnnotation} {
		if cluster.Annotations[key] != "" {
			settings = append(settings, key)
		}
	}
	if external {
		settings = append(settings, archelonv1.ExternalFleetAnnotation)
	}
	if len(settings) > 0 {
		annotations[archelonv1.PropagatedSettingsAnnotation] = strings.Join(settings, ",")
	}
	if external {
		annotations[archelonv1.ExternallyManagedAnnotation] = "true"
	}

	desired.Labels, desired.Annotations, desired.AgentEnv = labels, annotations, env
	desired.Description = cluster.Annotations[archelonv1.DescriptionAnnotation]
	return desired, nil
}
