package importer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/plainyaml"
)

// What users write on a CAPI cluster is read by the functions below and nowhere else. Their errors say what a value
// must be. They go into a condition, so they quote nothing. The admission policy of the chart,
// charts/archelon/files/admission.yaml, refuses what it can of the same, in the same words.

// maxAgentEnvBytes is the largest environment that is read. Parsed, one of that size can take 4 MiB.
const maxAgentEnvBytes = 8 << 10

// agentEnvs has the environments that were read last. It belongs to the process, as the memory does that it saves.
//
//nolint:gochecknoglobals // see above
var agentEnvs = workload.NewTexts(256, parseAgentEnv)

// agentEnv reads the environment of Rancher's agent.
func agentEnv(annotations map[string]string) ([]corev1.EnvVar, error) {
	raw := annotations[archelonv1.AgentEnvAnnotation]
	if len(raw) > maxAgentEnvBytes {
		return nil, fmt.Errorf("it must have at most %d KiB", maxAgentEnvBytes>>10)
	}
	if strings.TrimSpace(raw) == "" {
		return nil, nil
	}
	env, err := agentEnvs.Parse(raw)
	return slices.Clone(env), err
}

func parseAgentEnv(raw string) ([]corev1.EnvVar, error) {
	// Before anything expands anchors: a few bytes of them become gigabytes.
	plain := plainyaml.Check([]byte(raw))
	if errors.Is(plain, plainyaml.ErrAnchors) {
		return nil, errors.New("it uses YAML anchors, which are not supported: write out every value")
	}
	values := map[string]string{}
	if plain != nil || yaml.UnmarshalStrict([]byte(raw), &values) != nil {
		// The cause quotes the value, which may hold the password of a proxy.
		return nil, errors.New(`it must be a map of strings in YAML or JSON, for example {"HTTPS_PROXY": "http://proxy:3128"}`)
	}
	var env []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if problems := validation.IsEnvVarName(name); len(problems) > 0 {
			return nil, errors.New("its keys must be names of environment variables")
		}
		env = append(env, corev1.EnvVar{Name: name, Value: values[name]})
	}
	return env, nil
}

// fleetWorkspace reads the Fleet workspace, empty for Rancher's choice.
func fleetWorkspace(annotations map[string]string) (string, error) {
	workspace := annotations[archelonv1.FleetWorkspaceAnnotation]
	if workspace != "" && len(validation.IsDNS1123Label(workspace)) > 0 {
		return "", errors.New("it must be the name of a Fleet workspace")
	}
	return workspace, nil
}

// displayName reads the name that Rancher is to show, empty for the usual one. Rancher's own API wants the same of the
// name of a cluster.
func displayName(annotations map[string]string) (string, error) {
	name := annotations[archelonv1.DisplayNameAnnotation]
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		return "", errors.New("it must be a name that Rancher accepts for a cluster: at most 63 lower case letters, digits and dashes, with no dash at either end")
	}
	return name, nil
}

// externalFleet reads whether another controller registers the cluster with Fleet. Booleans are read as in the import
// label.
func externalFleet(annotations map[string]string) (bool, error) {
	value := annotations[archelonv1.ExternalFleetAnnotation]
	if value == "" {
		return false, nil
	}
	external, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New(`it must be "true" or "false"`)
	}
	return external, nil
}

// importManagementCluster reads whether the cluster that Rancher runs in may be imported. Booleans are read as in the
// import label.
func importManagementCluster(annotations map[string]string) (bool, error) {
	value := annotations[archelonv1.ImportManagementClusterAnnotation]
	if value == "" {
		return false, nil
	}
	allowed, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New(`it must be "true" or "false"`)
	}
	return allowed, nil
}

// importerNamed reads the name of an importer.
func importerNamed(name string) (string, error) {
	switch name {
	case "", archelonv1.ManagedByArchelon, archelonv1.ManagedByTurtles:
		return name, nil
	default:
		return "", fmt.Errorf("it must be %q or %q", archelonv1.ManagedByArchelon, archelonv1.ManagedByTurtles)
	}
}

// fits tells whether the owner labels of a record hold a name or a namespace.
func fits(what, value string) error {
	if len(value) <= validation.LabelValueMaxLength {
		return nil
	}
	return fmt.Errorf("the %s of this Cluster has %d characters, and Rancher accepts at most %d. Create this Cluster with a shorter %s",
		what, len(value), validation.LabelValueMaxLength, what)
}

// checkNames stalls where the owner labels of a record would not hold what they have to.
func checkNames(cluster *clusterv1.Cluster) error {
	if err := errors.Join(fits("name", cluster.Name), fits("namespace", cluster.Namespace)); err != nil {
		return &outcome.Problem{Kind: outcome.KindStall, Reason: archelonv1.NameTooLongReason, Message: outcome.Sentence(err.Error())}
	}
	return nil
}

// invalidSetting stalls because of an annotation; the cause says what it must be.
func invalidSetting(annotation string, cause error) error {
	return &outcome.Problem{
		Kind: outcome.KindStall, Reason: archelonv1.InvalidSettingReason,
		Message: fmt.Sprintf("Annotation %s cannot be used: %s", annotation, cause),
	}
}
