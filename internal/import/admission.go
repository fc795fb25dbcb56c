package importer

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// ClusterValidator refuses what the importer would only report afterwards, by its condition: labels and annotations of a CAPI cluster that
// cannot be used. It judges metadata alone and reads no other object. What an object had before is admitted with a warning, so that nobody is
// locked out of it by a rule that is newer than the object.
type ClusterValidator struct{}

var _ admission.Validator[*clusterv1.Cluster] = ClusterValidator{}

// ValidateCreate implements admission.Validator.
func (ClusterValidator) ValidateCreate(_ context.Context, cluster *clusterv1.Cluster) (admission.Warnings, error) {
	return nil, refuse(cluster, judge(cluster))
}

// ValidateUpdate implements admission.Validator.
func (ClusterValidator) ValidateUpdate(_ context.Context, old, cluster *clusterv1.Cluster) (admission.Warnings, error) {
	if !cluster.DeletionTimestamp.IsZero() {
		return nil, nil // Its finalizers are to come off whatever else it says.
	}
	var warnings admission.Warnings
	var changed []finding
	for _, f := range judge(cluster) {
		if f.unchanged(old, cluster) {
			warnings = append(warnings, f.problem.Error())
			continue
		}
		changed = append(changed, f)
	}
	return warnings, refuse(cluster, changed)
}

// ValidateDelete implements admission.Validator. Deletion is always admitted.
func (ClusterValidator) ValidateDelete(context.Context, *clusterv1.Cluster) (admission.Warnings, error) {
	return nil, nil
}

// finding is something on a cluster that the import cannot use.
type finding struct {
	// key is the label or annotation that a user has to change.
	key string
	// reason is the one that the condition would have.
	reason  string
	problem *field.Error
}

// unchanged reports whether an update left the key as it was.
func (f finding) unchanged(old, cluster *clusterv1.Cluster) bool {
	before, had := valueOf(old, f.key)
	now, has := valueOf(cluster, f.key)
	return had == has && before == now
}

// valueOf reads the import label, or an annotation.
func valueOf(cluster *clusterv1.Cluster, key string) (string, bool) {
	values := cluster.Annotations
	if key == archelonv1.ImportLabel {
		values = cluster.Labels
	}
	value, ok := values[key]
	return value, ok
}

// judge returns what the import cannot use of a cluster's metadata.
func judge(cluster *clusterv1.Cluster) []finding {
	findings := judgeSelection(cluster)
	for _, setting := range []struct {
		key   string
		check func(map[string]string) error
	}{
		{archelonv1.AgentEnvAnnotation, ignoreValue(agentEnv)},
		{archelonv1.DisplayNameAnnotation, ignoreValue(displayName)},
		{archelonv1.FleetWorkspaceAnnotation, ignoreValue(fleetWorkspace)},
		{archelonv1.ExternalFleetAnnotation, ignoreValue(externalFleet)},
		{archelonv1.ImportManagementClusterAnnotation, ignoreValue(importManagementCluster)},
		{archelonv1.ManagedByAnnotation, ignoreValue(managedBy)},
	} {
		if err := setting.check(cluster.Annotations); err != nil {
			// The value is left out: the environment may hold the password of a proxy, and each may be long.
			findings = append(findings, finding{
				key: setting.key, reason: archelonv1.InvalidSettingReason,
				problem: field.Invalid(field.NewPath("metadata", "annotations").Key(setting.key), field.OmitValueType{}, err.Error()),
			})
		}
	}
	return findings
}

// judgeSelection judges the import label, and the name of a cluster that it selects. A cluster that its Namespace selects is not judged by its
// name: to know it would take a read, and whoever made the cluster may not have asked for the import.
func judgeSelection(cluster *clusterv1.Cluster) []finding {
	value, ok := cluster.Labels[archelonv1.ImportLabel]
	if !ok {
		return nil
	}
	want, err := parseChoice(value)
	if err != nil {
		return []finding{{
			key: archelonv1.ImportLabel, reason: archelonv1.InvalidImportLabelReason,
			problem: field.Invalid(field.NewPath("metadata", "labels").Key(archelonv1.ImportLabel), value, err.Error()),
		}}
	}
	if who, _ := managedBy(cluster.Annotations); want != include || who == archelonv1.ManagedByTurtles {
		return nil
	}
	var findings []finding
	for _, part := range []struct{ what, value string }{{"name", cluster.Name}, {"namespace", cluster.Namespace}} {
		if err := fits(part.what, part.value); err != nil {
			findings = append(findings, finding{
				key: archelonv1.ImportLabel, reason: archelonv1.NameTooLongReason,
				problem: &field.Error{Type: field.ErrorTypeTooLong, Field: "metadata." + part.what, BadValue: field.OmitValueType{}, Detail: err.Error() +
					"; create it under a shorter one, or without label " + archelonv1.ImportLabel},
			})
		}
	}
	return findings
}

// ignoreValue turns a reader of a setting into a check of it.
func ignoreValue[T any](read func(map[string]string) (T, error)) func(map[string]string) error {
	return func(annotations map[string]string) error {
		_, err := read(annotations)
		return err
	}
}

// refuse turns findings into the error of the API for invalid objects. The type of each cause is the reason that the condition would have.
func refuse(cluster *clusterv1.Cluster, findings []finding) error {
	if len(findings) == 0 {
		return nil
	}
	problems := make(field.ErrorList, 0, len(findings))
	for _, f := range findings {
		problems = append(problems, f.problem)
	}
	refusal := apierrors.NewInvalid(clusterv1.GroupVersion.WithKind("Cluster").GroupKind(), cluster.Name, problems)
	for i, f := range findings {
		refusal.ErrStatus.Details.Causes[i].Type = metav1.CauseType(f.reason)
	}
	return refusal
}
