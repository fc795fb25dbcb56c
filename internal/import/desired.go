package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// defaultDescription is the one that Rancher Turtles gives, so that dashboards read alike.
const defaultDescription = "CAPI cluster imported to Rancher"

// desiredRecord computes the record of a CAPI cluster. The error is an *outcome.Problem that names what
// the user has to change.
func desiredRecord(cluster *clusterv1.Cluster, name string) (Desired, error) {
	for what, value := range map[string]string{"name": cluster.Name, "namespace": cluster.Namespace} {
		if len(value) > validation.LabelValueMaxLength {
			return Desired{}, &outcome.Problem{
				Kind: outcome.KindStall, Reason: archelonv1.NameTooLongReason,
				Message: fmt.Sprintf("the %s of the CAPI cluster has %d characters; Rancher's owner labels hold at most %d, so it cannot be imported under this %s",
					what, len(value), validation.LabelValueMaxLength, what),
			}
		}
	}
	env, err := agentEnv(cluster)
	if err != nil {
		return Desired{}, err
	}
	workspace := cluster.Annotations[archelonv1.FleetWorkspaceAnnotation]
	if problems := validation.IsDNS1123Label(workspace); workspace != "" && len(problems) > 0 {
		return Desired{}, invalidSetting(archelonv1.FleetWorkspaceAnnotation, "it must be the name of a Fleet workspace")
	}

	propagated := propagatedLabels(cluster)
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
	if len(settings) > 0 {
		annotations[archelonv1.PropagatedSettingsAnnotation] = strings.Join(settings, ",")
	}
	if cluster.Annotations[archelonv1.ExternalFleetAnnotation] == "true" {
		annotations[archelonv1.ExternallyManagedAnnotation] = "true"
	}

	return Desired{
		Cluster:        cluster,
		Name:           name,
		Labels:         labels,
		Annotations:    annotations,
		Description:    cluster.Annotations[archelonv1.DescriptionAnnotation],
		AgentEnv:       env,
		FleetWorkspace: workspace,
	}, nil
}

// propagatedLabels returns the labels of the CAPI cluster that its record carries as well: all but those
// of Kubernetes' SIGs, of Rancher and of this project, which mean something to controllers.
func propagatedLabels(cluster *clusterv1.Cluster) map[string]string {
	labels := map[string]string{}
	for key, value := range cluster.Labels {
		if propagates(key) {
			labels[key] = value
		}
	}
	return labels
}

func propagates(key string) bool {
	return !strings.Contains(key, "cattle.io") && !strings.Contains(key, "x-k8s.io") && !strings.Contains(key, "archelon.io")
}

// agentEnv reads the environment of Rancher's agent from its annotation.
func agentEnv(cluster *clusterv1.Cluster) ([]corev1.EnvVar, error) {
	raw, ok := cluster.Annotations[archelonv1.AgentEnvAnnotation]
	if !ok {
		return nil, nil
	}
	values := map[string]string{}
	if err := yaml.UnmarshalStrict([]byte(raw), &values); err != nil {
		// The cause quotes the value, which may hold the password of a proxy.
		return nil, invalidSetting(archelonv1.AgentEnvAnnotation, `it must be a map of strings in YAML or JSON, for example {"HTTPS_PROXY": "http://proxy:3128"}`)
	}
	var env []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if problems := validation.IsEnvVarName(name); len(problems) > 0 {
			return nil, invalidSetting(archelonv1.AgentEnvAnnotation, "its keys must be names of environment variables")
		}
		env = append(env, corev1.EnvVar{Name: name, Value: values[name]})
	}
	return env, nil
}

func invalidSetting(annotation, remedy string) error {
	return &outcome.Problem{
		Kind: outcome.KindStall, Reason: archelonv1.InvalidSettingReason,
		Message: fmt.Sprintf("annotation %s cannot be used: %s", annotation, remedy),
	}
}
