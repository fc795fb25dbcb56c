package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// environment returns the variables of a container as its Pod has them, before anything is moved. Keys that are missing
// and not optional are an error.
func (p *pod) environment(ctx context.Context, spec corev1.Container) (map[string]string, error) {
	variables := map[string]string{}
	for _, source := range spec.EnvFrom {
		values, err := p.envFrom(ctx, source)
		if err != nil {
			return nil, err
		}
		for key, value := range values {
			variables[source.Prefix+key] = string(value)
		}
	}
	for _, variable := range spec.Env {
		if variable.ValueFrom == nil {
			variables[variable.Name] = expand(variable.Value, variables)
			continue
		}
		value, found, err := p.valueFrom(ctx, spec, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if found {
			variables[variable.Name] = value
		}
	}
	return variables, nil
}

func (p *pod) envFrom(ctx context.Context, source corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case source.SecretRef != nil:
		return p.secret(ctx, source.SecretRef.Name, source.SecretRef.Optional)
	case source.ConfigMapRef != nil:
		return p.configMap(ctx, source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
	default:
		return nil, nil
	}
}

func (p *pod) valueFrom(ctx context.Context, spec corev1.Container, source *corev1.EnvVarSource) (value string, found bool, err error) {
	var values map[string][]byte
	var key string
	var optional *bool
	switch {
	case source.FieldRef != nil:
		value, err = p.field(source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err = resourceField(spec, source.ResourceFieldRef)
		return value, err == nil, err
	case source.SecretKeyRef != nil:
		key, optional = source.SecretKeyRef.Key, source.SecretKeyRef.Optional
		values, err = p.secret(ctx, source.SecretKeyRef.Name, optional)
	case source.ConfigMapKeyRef != nil:
		key, optional = source.ConfigMapKeyRef.Key, source.ConfigMapKeyRef.Optional
		values, err = p.configMap(ctx, source.ConfigMapKeyRef.Name, optional)
	default:
		return "", false, fmt.Errorf("test/node does not know its source")
	}
	if err != nil {
		return "", false, err
	}
	raw, found := values[key]
	if !found && !is(optional) {
		return "", false, fmt.Errorf("couldn't find key %s", key)
	}
	return string(raw), found, nil
}

// field is the downward API.
func (p *pod) field(path string) (string, error) {
	switch path {
	case "metadata.name":
		return p.key.Name, nil
	case "metadata.namespace":
		return p.key.Namespace, nil
	case "metadata.uid":
		return string(p.uid), nil
	case "metadata.labels":
		return lines(p.object.Labels), nil
	case "metadata.annotations":
		return lines(p.object.Annotations), nil
	case "spec.nodeName":
		return p.node.opts.Name, nil
	case "spec.serviceAccountName":
		return p.object.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return podIP, nil
	}
	for prefix, values := range map[string]map[string]string{
		"metadata.labels['": p.object.Labels, "metadata.annotations['": p.object.Annotations,
	} {
		if key, ok := strings.CutPrefix(path, prefix); ok {
			return values[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("test/node does not know the field %s", path)
}

// lines is how a map looks in a file of the downward API.
func lines(values map[string]string) string {
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&out, "%s=%q\n", key, values[key])
	}
	return out.String()
}

// resourceField is a limit or a request of CPU or memory in units of the divisor, rounded up.
func resourceField(spec corev1.Container, source *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(source.Resource, ".")
	quantities, known := map[string]corev1.ResourceList{"limits": spec.Resources.Limits, "requests": spec.Resources.Requests}[kind]
	if !known {
		return "", fmt.Errorf("test/node does not know the resource %s", source.Resource)
	}
	quantity, set := quantities[corev1.ResourceName(name)]
	if !set {
		return "", fmt.Errorf("%s is not set, and test/node has no limits of its own", source.Resource)
	}
	divisor := source.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	return strconv.FormatInt((quantity.MilliValue()+divisor.MilliValue()-1)/divisor.MilliValue(), 10), nil
}

func is(value *bool) bool { return value != nil && *value }
