package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/helm"
)

// release is what the chart gives an instance: its rights, its admission policy, and the command line of its manager.
type release struct {
	objects []unstructured.Unstructured
	args    []string
}

// KubeVersion is what the chart is rendered for. Helm does not ask the cluster when it only renders.
const KubeVersion = "v1.36.3"

// rendered are releases by what they were rendered for: managers are started more often than in different
// ways, and Helm takes its time.
var rendered sync.Map

// render returns what Helm makes of the chart for an instance.
func render(ctx context.Context, name, namespace string, values map[string]any) (*release, error) {
	key, err := json.Marshal([]any{name, namespace, values})
	if err != nil {
		return nil, err
	}
	found, ok := rendered.Load(string(key))
	if !ok {
		if found, err = renderAnew(ctx, name, namespace, values); err != nil {
			return nil, err
		}
		rendered.Store(string(key), found)
	}
	once, _ := found.(*release)
	r := &release{args: slices.Clone(once.args)}
	for i := range once.objects {
		r.objects = append(r.objects, *once.objects[i].DeepCopy())
	}
	return r, nil
}

func renderAnew(ctx context.Context, name, namespace string, values map[string]any) (*release, error) {
	h, err := helm.New(nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }()
	objects, err := h.Template(ctx, helm.Release{
		Name: name, Namespace: namespace, Chart: filepath.Join(Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + KubeVersion, "--no-hooks"},
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	r := &release{}
	for _, object := range objects {
		if rank(object.GetKind()) >= 0 {
			r.objects = append(r.objects, object)
		}
		if object.GetKind() == "Deployment" {
			containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if err != nil || len(containers) != 1 {
				return nil, fmt.Errorf("the chart has a Deployment with %d containers, want 1: %w", len(containers), err)
			}
			args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args") //nolint:forcetypeassert // of a Deployment
			if err != nil {
				return nil, fmt.Errorf("reading the manager's arguments: %w", err)
			}
			for _, arg := range args {
				r.args = append(r.args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", namespace))
			}
		}
	}
	if len(r.args) == 0 {
		return nil, errors.New("the chart has no manager")
	}
	return r, nil
}

// valuesFor returns the values of the chart that have the manager run with the given flags. Flags that no value stands
// for are handed on as they are. What the flags say comes before further values. There is no admission policy unless
// these ask for it: it refuses what scenarios about conditions write.
func valuesFor(flags []string, further map[string]any) map[string]any {
	values := map[string]any{"podDisruptionBudget": map[string]any{"enabled": false}, "admissionPolicy": map[string]any{"enabled": false}}
	maps.Copy(values, further)
	var namespaces, excluded, extra []string
	turtles, imports, members := map[string]any{}, map[string]any{}, map[string]any{}
	for key, group := range map[string]map[string]any{"turtles": turtles, "import": imports, "members": members} {
		if base, ok := further[key].(map[string]any); ok {
			maps.Copy(group, base)
		}
		values[key] = group
	}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		switch name {
		case "--namespace":
			namespaces = append(namespaces, strings.Split(value, ",")...)
		case "--excluded-namespace":
			excluded = append(excluded, strings.Split(value, ",")...)
		case "--watch-filter":
			values["watchFilter"] = value
		case "--instance":
			values["instance"] = value
		case "--adopt-turtles":
			turtles["adopt"] = value != "false"
		case "--turtles-parked":
			turtles["parked"] = value != "false"
		case "--fleet-workspace":
			values["fleetWorkspaces"] = strings.Split(value, ",")
		case "--feature-gates":
			values["features"] = gates(value)
		case "--member-role":
			members["roles"] = strings.Split(value, ",")
		case "--member-principal":
			listed, _ := members["principals"].([]string)
			members["principals"] = append(slices.Clip(listed), value)
		default:
			if !setImport(imports, name, value) {
				extra = append(extra, flag)
			}
		}
	}
	values["namespaces"], values["excludedNamespaces"], values["extraArgs"] = namespaces, excluded, extra
	maps.DeleteFunc(values, func(_ string, value any) bool {
		list, ok := value.([]string)
		group, ok2 := value.(map[string]any)
		return ok && len(list) == 0 || ok2 && len(group) == 0
	})
	return values
}

// setImport sets what a flag says about what is imported and how, and reports whether it is such a flag.
func setImport(imports map[string]any, name, value string) bool {
	selector, _ := imports["selector"].(map[string]any)
	selector = maps.Clone(selector)
	if selector == nil {
		selector = map[string]any{}
	}
	switch name {
	case "--import-selector":
		selector["labels"] = value
	case "--import-class":
		selector["classes"] = strings.Split(value, ",")
	case "--import-namespace":
		selector["namespaces"] = strings.Split(value, ",")
	case "--display-name":
		imports["displayName"] = value
	case "--early-import":
		imports["early"] = value
	case "--early-imports-per-namespace":
		imports["earlyPerNamespace"], _ = strconv.Atoi(value)
	case "--agent-setting":
		imports["agentSettings"] = strings.Split(value, ",")
	case "--agent-default-env":
		name, value, _ := strings.Cut(value, "=")
		defaults := defaultsIn(imports)
		listed, _ := defaults["env"].([]any)
		defaults["env"] = append(listed, map[string]any{"name": name, "value": value})
	case "--agent-default-tolerations":
		var tolerations []any
		if err := yaml.Unmarshal([]byte(value), &tolerations); err != nil {
			return false
		}
		defaultsIn(imports)["tolerations"] = tolerations
	case "--agent-pod-security":
		imports["agentPodSecurity"] = value
	case "--unpropagated-label":
		imports["unpropagatedLabels"] = strings.Split(value, ",")
	case "--propagated-annotation":
		imports["propagatedAnnotations"] = strings.Split(value, ",")
	case "--cluster-class-labels":
		imports["clusterClassLabels"] = value != "false"
	default:
		return false
	}
	if len(selector) > 0 {
		imports["selector"] = selector
	}
	return true
}

// defaultsIn returns the values for settings of the agent in all clusters.
func defaultsIn(imports map[string]any) map[string]any {
	defaults, ok := imports["agentDefaults"].(map[string]any)
	if !ok {
		defaults = map[string]any{}
		imports["agentDefaults"] = defaults
	}
	return defaults
}

// gates returns the values for --feature-gates.
func gates(flag string) map[string]any {
	features := map[string]any{}
	for gate := range strings.SplitSeq(flag, ",") {
		name, value, _ := strings.Cut(gate, "=")
		features[name] = map[string]any{"enabled": value == "true"}
	}
	return features
}

// grant gives an instance what its release has for it, and takes away what an earlier one had and this one has not.
func (s *Stage) grant(ctx context.Context, name, namespace string, r *release) error {
	wanted := map[string]bool{}
	for i := range r.objects {
		object := &r.objects[i]
		if object.GetNamespace() != "" {
			err := s.Client.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, namespaceObject())
			if apierrors.IsNotFound(err) {
				continue // as the chart does when Helm is connected
			}
			if err != nil {
				return err
			}
		}
		if err := s.apply(ctx, []unstructured.Unstructured{*object}); err != nil {
			return err
		}
		wanted[identify(object)] = true
	}
	return s.prune(ctx, name, namespace, wanted)
}

// prune deletes what a release has had and is not wanted any more, the last made first.
func (s *Stage) prune(ctx context.Context, name, namespace string, wanted map[string]bool) error {
	var errs []error
	for _, kind := range slices.Backward(kinds) {
		if kind.Kind == rbacv1.ServiceAccountKind {
			continue // Managers that have not ended have its tokens.
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := s.Client.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/instance": name, releaseLabel: namespace}); err != nil {
			return err
		}
		for i := range list.Items {
			object := &list.Items[i]
			if wanted[identify(object)] {
				continue
			}
			if len(object.GetFinalizers()) > 0 { // as the uninstaller does
				before := object.DeepCopy()
				object.SetFinalizers(nil)
				errs = append(errs, client.IgnoreNotFound(s.Client.Patch(ctx, object, client.MergeFrom(before))))
			}
			errs = append(errs, client.IgnoreNotFound(s.Client.Delete(ctx, object)))
		}
	}
	return errors.Join(errs...)
}

// releaseLabel says of which namespace a release is. Helm has it in an annotation, which cannot be selected by.
const releaseLabel = "stage.archelon.io/release-namespace"

func identify(object *unstructured.Unstructured) string {
	return strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, "/")
}

func namespaceObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("v1")
	object.SetKind("Namespace")
	return object
}

// label marks what belongs to a release.
func (r *release) label(namespace string) {
	for i := range r.objects {
		labels := r.objects[i].GetLabels()
		labels[releaseLabel] = namespace
		r.objects[i].SetLabels(labels)
	}
	// Whoever a binding is for has to exist first.
	slices.SortStableFunc(r.objects, func(a, b unstructured.Unstructured) int { return rank(a.GetKind()) - rank(b.GetKind()) })
}

// kinds are those of the chart that a manager needs where no Pods are run, in the order in which they are made.
var kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
}

// rank returns the place of a kind among them, -1 if it is none of them.
func rank(kind string) int {
	return slices.IndexFunc(kinds, func(k schema.GroupVersionKind) bool { return k.Kind == kind })
}
