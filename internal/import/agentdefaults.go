package importer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/plainyaml"
)

// AgentSettings names what an administrator can allow tenants to set of Rancher's agents.
func AgentSettings() []string {
	var names []string
	for _, part := range agentParts() {
		names = append(names, part.name)
	}
	return append(names, registrySetting, pullSecretsSetting)
}

// ParseAgentDefaults reads environment variables, each as NAME=VALUE, and a list of tolerations in YAML or JSON. The
// error names what is wrong and quotes no value, which may hold the password of a proxy.
func ParseAgentDefaults(env []string, tolerations string) (AgentDefaults, error) {
	variables, err := defaultEnv(env)
	list, otherErr := defaultTolerations(tolerations)
	return AgentDefaults{Env: variables, Tolerations: list}, errors.Join(err, otherErr)
}

// defaultEnv reads environment variables, as far as Rancher accepts them for both kinds of Rancher cluster.
func defaultEnv(texts []string) ([]corev1.EnvVar, error) {
	values, size := map[string]string{}, 0
	for _, text := range texts {
		name, value, found := strings.Cut(text, "=")
		size += len(text)
		_, repeated := values[name]
		switch {
		case !found || len(validation.IsEnvVarName(name)) > 0:
			return nil, errors.New("an environment variable must be NAME=VALUE, with a valid name")
		case repeated:
			return nil, fmt.Errorf("environment variable %s must be there once", name)
		case name == "CATTLE_AGENT_VAR_DIR":
			return nil, fmt.Errorf("environment variable %s must not be there, because Rancher refuses it", name)
		case strings.EqualFold(name, "NO_PROXY") && strings.Contains(value, " "):
			return nil, fmt.Errorf("environment variable %s must have no spaces, because Rancher refuses them", name)
		case size > maxAgentEnvBytes:
			return nil, fmt.Errorf("the environment variables must have at most %d KiB", maxAgentEnvBytes>>10)
		}
		values[name] = value
	}
	return envOf(values), nil
}

// envOf returns environment variables, sorted by name.
func envOf(values map[string]string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, corev1.EnvVar{Name: name, Value: values[name]})
	}
	return env
}

// defaultTolerations reads tolerations under the rules for those of a CAPI Cluster.
func defaultTolerations(text string) ([]any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxAgentDeploymentBytes {
		return nil, fmt.Errorf("the tolerations must have at most %d KiB", maxAgentDeploymentBytes>>10)
	}
	tolerations, err := parseTolerations(text)
	if err != nil {
		return nil, fmt.Errorf("the tolerations cannot be used: %w", err)
	}
	list := make([]any, 0, len(tolerations))
	for i := range tolerations {
		toleration, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&tolerations[i])
		if err != nil {
			return nil, fmt.Errorf("converting a toleration: %w", err)
		}
		list = append(list, toleration)
	}
	return list, nil
}

// parseTolerations reads a list of tolerations as parseAgentDeployment does.
func parseTolerations(raw string) ([]corev1.Toleration, error) {
	var all []corev1.Toleration
	if plainyaml.Check([]byte(raw)) != nil || yaml.UnmarshalStrict([]byte(raw), &all) != nil {
		return nil, errors.New("they must be a list of tolerations in YAML or JSON, without YAML anchors")
	}
	return all, checkTolerations(all)
}

// addAgentDefaults adds the settings of all clusters to a record, except those that its CAPI cluster has itself.
func (r Rules) addAgentDefaults(desired *Desired) {
	if len(r.AgentDefaults.Env) > 0 {
		values := map[string]string{}
		for _, env := range slices.Concat(r.AgentDefaults.Env, desired.AgentEnv) {
			values[env.Name] = env.Value
		}
		desired.AgentEnv = envOf(values)
		addPropagated(desired, archelonv1.AgentEnvAnnotation)
	}
	field := agentFields()[0]
	content := desired.AgentDeployment[field.name]
	if _, own := content[tolerationsField]; own || len(r.AgentDefaults.Tolerations) == 0 {
		return
	}
	if content == nil {
		content = map[string]any{}
		desired.AgentDeployment[field.name] = content
	}
	content[tolerationsField] = runtime.DeepCopyJSONValue(r.AgentDefaults.Tolerations)
	addPropagated(desired, field.propagated(tolerationsPart))
}
