package chart_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cell is a release of the matrix that is not called archelon, and its values.
type cell struct {
	release release
	set     values
}

// words are names that YAML takes for something else than a text, unless they are quoted: numbers, truth, nothing and
// dates. A release, a namespace and most of what values name may be called so.
func words() map[string]cell {
	set := values{
		"metrics": values{
			"readers":        []any{values{"namespace": "123", "name": "1e3"}},
			"serviceMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}, "dashboard": values{"enabled": true, "namespace": "123"},
		},
		"networkPolicy":     values{"enabled": true},
		"priorityClassName": "100",
		"watchFilter":       "007",
		"instance":          "0",
	}
	isolated := values{"namespaces": []string{"10042", "1e3", "0x10", "true", "null", "2026-11-22"}}
	cells := map[string]cell{
		"isolated": {release{"archelon", "archelon-system"}, set.merged(isolated)},
		"excluded": {release{"archelon", "archelon-system"}, set.merged(values{"excludedNamespaces": []any{"10042", "1e3"}})},
		"account":  {release{"archelon", "archelon-system"}, set.merged(values{"serviceAccount": values{"name": "42"}})},
		"theirs":   {release{"archelon", "archelon-system"}, set.merged(values{"serviceAccount": values{"create": false, "name": "42"}})},
		"digit":    {release{"1st", "1"}, set},
		// Together they are called 1.e5.
		"float": {release{"123", "1"}, set.merged(values{"fullnameOverride": "e5"})},
	}
	for _, word := range []string{"true", "null", "on", "yes", "n"} {
		cells["name-"+word] = cell{release{"archelon", "archelon-system"}, set.merged(values{"nameOverride": word})}
		cells["fullname-"+word] = cell{release{"archelon", "archelon-system"}, set.merged(isolated).merged(values{"fullnameOverride": word})}
		cells["both-"+word] = cell{release{word, word}, set.merged(values{"nameOverride": word})}
	}
	for _, word := range []string{"2026", "1e3", "0x10", "2026-11-22", "true", "on"} {
		cells["release-"+word] = cell{release{word, word}, set}
		cells["release-isolated-"+word] = cell{release{word, word}, set.merged(isolated)}
	}
	return cells
}

// checkWords wants every object to have the namespace and the labels that were asked for, as texts.
func checkWords(t *testing.T, rendered []*unstructured.Unstructured, c cell) {
	t.Helper()
	known := []string{c.release.namespace, "123"}
	if names, ok := c.set["namespaces"].([]string); ok {
		known = append(known, names...)
	}
	for _, object := range rendered {
		switch namespace, found, err := unstructured.NestedString(object.Object, "metadata", "namespace"); {
		case err != nil:
			t.Errorf("%s: %v", id(object), err)
		case found && !slices.Contains(known, namespace):
			t.Errorf("%s is in a namespace that nobody named", id(object))
		}
		if _, _, err := unstructured.NestedString(object.Object, "metadata", "name"); err != nil || object.GetName() == "" {
			t.Errorf("%s has no name: %v", id(object), err)
		}
		if got := object.GetLabels()["app.kubernetes.io/instance"]; got != c.release.name {
			t.Errorf("%s has the labels of release %q: %v", id(object), got, object.GetLabels())
		}
	}
}
