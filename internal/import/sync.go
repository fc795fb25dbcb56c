package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/rancher/rancher/pkg/apis/rke.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
)

// syncRecord carries later changes of the CAPI cluster over to the record: labels, description and
// agent settings. Only fields that this project sets are compared, so a settled record costs no write.
func (d *deciding) syncRecord() Decision {
	found := d.record
	if found.settled || found.ahead || d.inLine(found.Object) {
		return pass()
	}
	desired, err := d.desiredAs(found.strategy, d.cluster, found.GetName())
	if err != nil {
		return fail(err)
	}
	if !found.held() && !found.deleting() {
		held := recordChange(found, "hold it", "holding the Rancher cluster", hold.Import.Add)
		return act(held)
	}
	if desired.Description == "" && wasGiven(found.Object, archelonv1.DescriptionAnnotation) {
		desired.Description = defaultDescription
	}
	desired.Form = formOf(found.Object)
	rendered := found.strategy.Render(desired)
	unstructured.RemoveNestedField(rendered.Object, "spec", "displayName") // It may be another's; checkDisplayName follows it.
	patch, err := syncPatch(found.Object, rendered)
	switch {
	case err != nil:
		return fail(err)
	case patch == nil:
		d.level[found.Object] = d.cluster
		return pass()
	}
	return act(updateRecord{record: *found, patch: patch})
}

// syncManagement carries the same over to the v3 Cluster that Rancher made from a v1 record:
// Rancher copies a v1 record once.
func (d *deciding) syncManagement() Decision {
	object := d.management.object
	if behind := d.managements[object.Name]; object.UID == d.record.GetUID() || behind.ahead || behind.synced || d.inLine(object) {
		return pass()
	}
	desired, err := d.desiredAs(d.record.strategy, d.cluster, object.Name)
	if err != nil {
		return fail(err)
	}
	if desired.Description == "" && wasGiven(object, archelonv1.DescriptionAnnotation) {
		desired.Description = defaultDescription
	}
	patch, err := syncPatch(object, renderManagement(desired))
	switch {
	case err != nil:
		return fail(err)
	case patch == nil:
		d.level[object] = d.cluster
		return pass()
	}
	return act(updateManagement{name: object.Name, patch: patch})
}

// inLine reports whether an earlier decision of this run has found a Rancher cluster to be what the CAPI cluster asks
// for. What changes either replaces it.
func (d *deciding) inLine(object client.Object) bool { return d.level[object] == d.cluster }

// renderManagement returns what a v3 Cluster behind a v1 record has from the CAPI cluster.
func renderManagement(desired Desired) *unstructured.Unstructured {
	spec := map[string]any{}
	if desired.Description != "" {
		spec["description"] = desired.Description
	}
	desired.RenderAgents(spec)
	rendered := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	rendered.SetLabels(desired.Labels)
	rendered.SetAnnotations(desired.Annotations)
	return rendered
}

// syncPatch returns a merge patch that brings the observed record to the rendered one, or nil. It carries
// the UID, so that it can never land on another object.
func syncPatch(observed client.Object, rendered *unstructured.Unstructured) ([]byte, error) {
	wantedLabels := rendered.GetLabels()
	labels := stringsToSet(observed.GetLabels(), wantedLabels)
	for key := range strings.SplitSeq(observed.GetAnnotations()[archelonv1.PropagatedLabelsAnnotation], ",") {
		_, have := observed.GetLabels()[key]
		if _, want := wantedLabels[key]; have && !want && (!reserved(key) || ofClass(key)) {
			labels[key] = nil
		}
	}
	wanted := rendered.GetAnnotations()
	// Rancher refuses to have it added later.
	delete(wanted, archelonv1.NoCreatorRBACAnnotation)
	annotations := stringsToSet(observed.GetAnnotations(), wanted)
	maps.Copy(annotations, annotationsTaken(observed.GetAnnotations(), wanted))
	for _, key := range []string{
		archelonv1.PropagatedLabelsAnnotation, archelonv1.PropagatedAnnotationsAnnotation, archelonv1.PropagatedSettingsAnnotation,
		archelonv1.ExternallyManagedAnnotation,
	} {
		_, have := observed.GetAnnotations()[key]
		// Turtles sets this one by itself, and so may an administrator.
		others := key == archelonv1.ExternallyManagedAnnotation && !wasGiven(observed, archelonv1.ExternalFleetAnnotation)
		if _, want := wanted[key]; have && !want && !others {
			annotations[key] = nil
		}
	}
	spec, err := specPatch(observed, rendered.Object)
	if err != nil {
		return nil, err
	}
	if len(labels)+len(annotations)+len(spec) == 0 {
		return nil, nil
	}
	metadata := map[string]any{"uid": string(observed.GetUID())}
	patch := map[string]any{"metadata": metadata}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	return json.Marshal(patch)
}

// specPatch returns what brings the spec of the observed record to the rendered one.
func specPatch(observed client.Object, rendered map[string]any) (map[string]any, error) {
	spec := map[string]any{}
	have, err := specified(observed)
	if err != nil {
		return nil, fmt.Errorf("reading the Rancher cluster: %w", err)
	}
	want, _, _ := unstructured.NestedMap(rendered, "spec")
	fields := agentFields()
	for key, value := range want {
		ofAgent := slices.ContainsFunc(fields, func(f agentField) bool { return f.name == key })
		if !ofAgent && key != importedField && !equality.Semantic.DeepEqual(have[key], value) {
			spec[key] = value
		}
	}
	if _, wanted := want["agentEnvVars"]; !wanted && wasGiven(observed, archelonv1.AgentEnvAnnotation) {
		spec["agentEnvVars"] = nil
	}
	for _, field := range fields {
		haveAgent, _ := have[field.name].(map[string]any)
		wantAgent, _ := want[field.name].(map[string]any)
		agent, err := field.patch(observed, haveAgent, wantAgent)
		if err != nil {
			return nil, err
		}
		if len(agent) > 0 {
			spec[field.name] = agent
		}
	}
	if imported := registryPatch(observed, have, want); len(imported) > 0 {
		spec[importedField] = imported
	}
	return spec, nil
}

// specified returns of the spec of a Rancher cluster, as it stands in JSON, what a strategy can render. To convert all
// that a v3 Cluster can have would be the longest part of a run.
func specified(observed client.Object) (map[string]any, error) {
	switch observed := observed.(type) {
	case *managementv3.Cluster:
		spec := &observed.Spec
		return runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
			DisplayName        string                                     `json:"displayName"`
			Description        string                                     `json:"description"`
			FleetWorkspaceName string                                     `json:"fleetWorkspaceName,omitempty"`
			AgentEnvVars       []corev1.EnvVar                            `json:"agentEnvVars,omitempty"`
			AgentDeployment    *managementv3.AgentDeploymentCustomization `json:"clusterAgentDeploymentCustomization,omitempty"`
			FleetAgent         *managementv3.AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`
			ImportedConfig     *managementv3.ImportedConfig               `json:"importedConfig,omitempty"`
		}{
			spec.DisplayName, spec.Description, spec.FleetWorkspaceName, spec.AgentEnvVars,
			spec.ClusterAgentDeploymentCustomization, spec.FleetAgentDeploymentCustomization,
			spec.ImportedConfig,
		})
	case *provisioningv1.Cluster:
		spec := &observed.Spec
		return runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
			AgentEnvVars    []rkev1.EnvVar                               `json:"agentEnvVars,omitempty"`
			AgentDeployment *provisioningv1.AgentDeploymentCustomization `json:"clusterAgentDeploymentCustomization,omitempty"`
			FleetAgent      *provisioningv1.AgentDeploymentCustomization `json:"fleetAgentDeploymentCustomization,omitempty"`
		}{spec.AgentEnvVars, spec.ClusterAgentDeploymentCustomization, spec.FleetAgentDeploymentCustomization})
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(observed)
	have, _, _ := unstructured.NestedMap(content, "spec")
	return have, err
}

// stringsToSet returns the entries of want that differ in have.
func stringsToSet(have, want map[string]string) map[string]any {
	set := map[string]any{}
	for key, value := range want {
		if current, ok := have[key]; !ok || current != value {
			set[key] = value
		}
	}
	return set
}
