package chart_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Helm deletes a key that is set to null, and validates what is left. Whatever is nulled, either the schema misses it,
// or what is rendered is as good without it.
func TestNulls(t *testing.T) {
	all := readPermissions(t)
	on := strings.Split("everything-v1-metrics", "-")
	seen := &manifests{unique: map[string]bool{}}
	var refused sync.Map
	t.Run("each", func(t *testing.T) {
		for _, path := range paths(nil, readValues(t)) {
			name := strings.Join(path, "/")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				set := everything().merged(null(path))
				if _, err := template(t.Context(), release{"archelon", "archelon-system"}, set); err != nil {
					if !strings.Contains(err.Error(), "don't meet the specifications of the schema") || !strings.Contains(err.Error(), "'"+path[len(path)-1]+"'") {
						t.Errorf("it is not the schema that misses it: %v", err)
					}
					refused.Store(name, true)
					return
				}
				rendered := objects(t, release{"archelon", "archelon-system"}, set)
				checkNames(t, rendered)
				if !slices.ContainsFunc([]string{"podSecurityContext", "resources", "podLabels", "podAnnotations"}, func(free string) bool { return slices.Contains(path, free) }) {
					// Without these the Pods have what the namespace gives them, as somebody has asked for.
					checkPods(t, rendered, on)
				}
				checkFlags(t, rendered)
				checkWildcards(t, rendered)
				checkRights(t, rendered, all, on)
				checkAccounts(t, rendered, on)
				seen.add(t, rendered)
			})
		}
	})
	for _, name := range []string{"namespaces", "metrics", "import/concurrency", "image/repository", "features/managementv3-cluster/enabled"} {
		if _, ok := refused.Load(name); !ok {
			t.Errorf("null was accepted for %s", name)
		}
	}
	seen.check(t)
}

// paths returns those of all keys of a map, and of the maps in it.
func paths(above []string, node *yaml.Node) [][]string {
	var all [][]string
	for i := 0; i < len(node.Content); i += 2 {
		path := append(slices.Clone(above), node.Content[i].Value)
		all = append(all, path)
		if node.Content[i+1].Kind == yaml.MappingNode {
			all = append(all, paths(path, node.Content[i+1])...)
		}
	}
	return all
}

// null sets a key to null.
func null(path []string) values {
	if len(path) == 1 {
		return values{path[0]: nil}
	}
	return values{path[0]: null(path[1:])}
}
