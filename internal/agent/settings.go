package agent

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// Has reports whether the agent runs with exactly the environment of the settings, beside the variables of Rancher
// itself, and verifies Rancher's certificate as strictly as asked for.
func (s State) Has(settings Settings) bool {
	return s.env != nil && hasSettings(s.env(), settings.Env, settings.Strict)
}

// Outdated reports whether an agent that is able to connect and does not was installed with other settings. connected
// says that it has connected before: then Rancher has installed it since, and brings it up to date as soon as it
// connects again. So it is left alone if its Pods are available and have the environment that they should: whoever
// upgrades Rancher, which changes the agent's image, would otherwise have every agent installed anew that is away for a
// moment. One without a digest that has connected is of others, or of before there was one.
func (s State) Outdated(settings Settings, connected bool) bool {
	switch {
	case s.Applied == settings.Digest:
		return false
	case !connected:
		return true
	default:
		return !s.Has(settings) || s.Applied != "" && !s.Available
	}
}

func hasSettings(have map[string]string, want []corev1.EnvVar, strict bool) bool {
	if (have[strictEnv] == "true") != strict {
		return false
	}
	known := map[string]bool{}
	for i := range want {
		known[want[i].Name] = true
		if value, ok := have[want[i].Name]; !ok || want[i].ValueFrom == nil && value != want[i].Value {
			return false
		}
	}
	for name, value := range have {
		if !known[name] && !ofRancher(name) && value != "" {
			return false
		}
	}
	return true
}

// ofRancher reports whether Rancher sets a variable of its agent by itself.
func ofRancher(name string) bool {
	return strings.HasPrefix(name, "CATTLE_") || name == strictEnv || name == "RANCHER_NAMESPACE_OPTIONS"
}

// Settings are those with which the agent is installed, as far as they stand in its environment.
type Settings struct {
	// Cluster is the v3 Cluster whose agent it becomes.
	Cluster string
	// Digest is that of all settings.
	Digest string
	// Env are variables beside those of Rancher.
	Env []corev1.EnvVar
	// Dropped are names of variables that Rancher has set before and that are not wanted any more.
	Dropped []string
	// Strict has the agent trust Rancher's own CA only.
	Strict bool
}

// Mark prepares the agent among the objects of a manifest. It notes whose agent it is, and with which settings it is
// applied, for State. If Rancher made the manifest before it knew the environment, nothing is noted: then the agent
// counts as one of other settings. And it empties the variables that were dropped: server-side apply would leave them
// as Rancher, which owns them too, has set them.
func (s Settings) Mark(objects []*unstructured.Unstructured) {
	for _, object := range objects {
		agent := &deployment{}
		if !Registers(object) ||
			runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, agent) != nil {
			continue
		}
		env := agent.environment()
		if hasSettings(env, s.Env, s.Strict) {
			annotate(object, archelonv1.AppliedAnnotation, s.Digest)
		}
		for _, name := range s.Dropped {
			if _, wanted := env[name]; !wanted {
				setEmpty(object, name)
			}
		}
		for _, secret := range objects {
			if secret.GetKind() == "Secret" && secret.GetName() == env[credentialsEnv] {
				annotate(secret, archelonv1.AgentClusterAnnotation, s.Cluster)
			}
		}
	}
}

// Registers reports whether an object of a manifest is the Deployment of the agent, whose Pods register.
func Registers(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Deployment" && object.GetName() == DeploymentName
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// setEmpty gives the first container of a Deployment an empty environment variable.
func setEmpty(object *unstructured.Unstructured, name string) {
	path := []string{"spec", "template", "spec", "containers"}
	containers, found, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil || !found || len(containers) == 0 {
		return
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return
	}
	variables, _, err := unstructured.NestedSlice(container, "env")
	if err != nil {
		return
	}
	container["env"] = append(variables, map[string]any{"name": name, "value": ""})
	// What was read from there fits there.
	_ = unstructured.SetNestedSlice(object.Object, containers, path...)
}
