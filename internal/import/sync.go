package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outcome"
)

// fieldOwner names this project in managed fields.
const fieldOwner = hold.FieldOwner

// syncRecord carries later changes of the CAPI cluster over to the record: labels, description and
// agent settings. Only fields that this project sets are compared, so a settled record costs no write.
func (r *Reconciler) syncRecord(ctx context.Context, s *scope) outcome.Outcome {
	if s.created || r.writes.ahead(s.record.Object) {
		return outcome.Done()
	}
	desired, err := r.desired(s.cluster, s.record.GetName())
	if err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if !s.record.held() && !s.record.deleting() {
		if err := r.patchRecord(ctx, s.record, hold.Import.Add); err != nil {
			return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("holding the record: %w", err))
		}
	}
	if desired.Description == "" && wasGiven(s.record.Object, archelonv1.DescriptionAnnotation) {
		desired.Description = defaultDescription
	}
	rendered := s.record.strategy.Render(desired)
	unstructured.RemoveNestedField(rendered.Object, "spec", "displayName") // It may be another's; checkDisplayName follows it.
	patch, err := syncPatch(s.record.Object, rendered)
	if err != nil || patch == nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if err := r.Client.Patch(ctx, s.record.Object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return outcome.Fail(archelonv1.RecordRejectedReason, fmt.Errorf("updating the Rancher cluster: %w", err))
	}
	r.writes.note(s.record.Object)
	ctrl.LoggerFrom(ctx).Info("Updated Rancher cluster", "rancherCluster", s.record.id())
	return outcome.Done()
}

// syncManagement carries the same over to the v3 Cluster that Rancher made from a v1 record: Rancher copies a v1 record once.
func (r *Reconciler) syncManagement(ctx context.Context, s *scope) outcome.Outcome {
	object := s.management.object
	if object.UID == s.record.GetUID() || r.writes.ahead(object) {
		return outcome.Done()
	}
	desired, err := r.desired(s.cluster, object.Name)
	if err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if desired.Description == "" && wasGiven(object, archelonv1.DescriptionAnnotation) {
		desired.Description = defaultDescription
	}
	patch, err := syncPatch(object, renderManagement(desired))
	if err != nil || patch == nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	if err := r.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return outcome.Fail(archelonv1.RecordRejectedReason, fmt.Errorf("updating the v3 Rancher cluster: %w", err))
	}
	r.writes.note(object)
	ctrl.LoggerFrom(ctx).Info("Updated v3 Rancher cluster", "rancherCluster", object.Name)
	return outcome.Done()
}

// renderManagement returns what a v3 Cluster behind a v1 record has from the CAPI cluster.
func renderManagement(desired Desired) *unstructured.Unstructured {
	spec := map[string]any{}
	if desired.Description != "" {
		spec["description"] = desired.Description
	}
	if len(desired.AgentEnv) > 0 {
		spec["agentEnvVars"] = EnvVars(desired.AgentEnv)
	}
	rendered := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	rendered.SetLabels(desired.Labels)
	rendered.SetAnnotations(desired.Annotations)
	return rendered
}

// wasGiven reports whether the record has a setting from the given annotation of its CAPI cluster.
func wasGiven(record client.Object, annotation string) bool {
	return slices.Contains(strings.Split(record.GetAnnotations()[archelonv1.PropagatedSettingsAnnotation], ","), annotation)
}

// syncPatch returns a merge patch that brings the observed record to the rendered one, or nil. It carries
// the UID, so that it can never land on another object.
func syncPatch(observed client.Object, rendered *unstructured.Unstructured) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(observed)
	if err != nil {
		return nil, fmt.Errorf("reading the Rancher cluster: %w", err)
	}
	labels := stringsToSet(observed.GetLabels(), rendered.GetLabels())
	for key := range strings.SplitSeq(observed.GetAnnotations()[archelonv1.PropagatedLabelsAnnotation], ",") {
		_, have := observed.GetLabels()[key]
		if _, want := rendered.GetLabels()[key]; have && !want && (propagates(key) || tracks(key)) {
			labels[key] = nil
		}
	}
	wanted := rendered.GetAnnotations()
	// Rancher refuses to have it added later.
	delete(wanted, archelonv1.NoCreatorRBACAnnotation)
	annotations := stringsToSet(observed.GetAnnotations(), wanted)
	for _, key := range []string{archelonv1.PropagatedLabelsAnnotation, archelonv1.PropagatedSettingsAnnotation, archelonv1.ExternallyManagedAnnotation} {
		_, have := observed.GetAnnotations()[key]
		// Turtles sets this one by itself, and so may an administrator.
		others := key == archelonv1.ExternallyManagedAnnotation && !wasGiven(observed, archelonv1.ExternalFleetAnnotation)
		if _, want := wanted[key]; have && !want && !others {
			annotations[key] = nil
		}
	}
	spec := map[string]any{}
	have, _, _ := unstructured.NestedMap(content, "spec")
	want, _, _ := unstructured.NestedMap(rendered.Object, "spec")
	for key, value := range want {
		if !equality.Semantic.DeepEqual(have[key], value) {
			spec[key] = value
		}
	}
	if _, wanted := want["agentEnvVars"]; !wanted && wasGiven(observed, archelonv1.AgentEnvAnnotation) {
		spec["agentEnvVars"] = nil
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

// EnvVars returns environment variables as they stand in JSON, for strategies. There an empty value is none.
func EnvVars(env []corev1.EnvVar) []any {
	list := make([]any, 0, len(env))
	for _, variable := range env {
		entry := map[string]any{"name": variable.Name}
		if variable.Value != "" {
			entry["value"] = variable.Value
		}
		list = append(list, entry)
	}
	return list
}

// patchCluster changes metadata of the CAPI cluster if the cached copy is current.
func (r *Reconciler) patchCluster(ctx context.Context, cluster *clusterv1.Cluster, mutate func(*clusterv1.Cluster)) error {
	if err := hold.Change(ctx, r.Client, cluster, func() { mutate(cluster) }); err != nil {
		return err
	}
	r.holdings.note(cluster)
	if cluster.DeletionTimestamp.IsZero() || len(cluster.Finalizers) > 0 {
		r.writes.note(cluster)
	} else {
		r.writes.forget(cluster.UID)
	}
	return nil
}

// patchRecord changes metadata of a record if the copy is current.
func (r *Reconciler) patchRecord(ctx context.Context, record *record, mutate func(client.Object)) error {
	return hold.Change(ctx, r.Client, record.Object, func() { mutate(record.Object) })
}
