package chart_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// What hack/rbac does not generate is written twice, in the chart and in config: the Role in the namespace
// of the Leases, the RoleBinding that holds a namespace of an isolated instance, and the policy that keeps
// it to its Rancher clusters.
func TestConfigSaysTheSame(t *testing.T) {
	const binding = "RoleBinding archelon-isolated"
	cases := map[string]struct {
		reason   string
		release  release
		values   values
		file     string
		inFile   string // the Role there
		role     string // and in the chart
		bindings string
	}{
		"Central": {
			reason:  "the Lease, and Events about it",
			release: release{"archelon", "archelon-system"}, values: values{},
			file: "rbac/leader_election_role.yaml", inFile: "Role archelon-leader-election", role: "Role archelon.manager",
		},
		"Isolated": {
			reason:  "the same, and what keeps the rights in a namespace that is being deleted, and what roles cannot say",
			release: release{"archelon1", "archelon1-system"},
			values: values{
				"namespaces": []string{"watch1"}, "instance": "archelon1", "leaderElection": values{"namespace": "archelon-system"},
				"serviceAccount": values{"name": "archelon"},
			},
			file: "isolated/instance.yaml", inFile: "Role archelon1-leader-election", role: "Role archelon1-system.archelon1.manager", bindings: "isolated/namespace_role_binding.yaml",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rendered := byName(objects(t, tc.release, tc.values))
			want, got := pair(t, byName(configured(t, tc.file))[tc.inFile], rendered[tc.role])
			if want.GetNamespace() != got.GetNamespace() {
				t.Errorf("%s: in config it is in namespace %s, in the chart in %s", tc.reason, want.GetNamespace(), got.GetNamespace())
			}
			if diff := cmp.Diff(texts(roleOf(t, want).Rules), texts(roleOf(t, got).Rules)); diff != "" {
				t.Errorf("%s (-config/%s +chart):\n%s", tc.reason, tc.file, diff)
			}
			if tc.bindings == "" {
				return
			}
			want, got = pair(t, byName(configured(t, tc.bindings))[binding], rendered[binding])
			if diff := cmp.Diff(want.GetFinalizers(), got.GetFinalizers()); diff != "" {
				t.Errorf("%s: finalizers (-config/%s +chart):\n%s", tc.reason, tc.bindings, diff)
			}
			want, got = pair(t, byName(configured(t, tc.file))["ValidatingAdmissionPolicy archelon1-isolation"],
				rendered["ValidatingAdmissionPolicy archelon1-system.archelon1-isolation"])
			if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
				t.Errorf("%s: policy (-config/%s +chart):\n%s", tc.reason, tc.file, diff)
			}
		})
	}
}

// pair wants both to exist.
func pair(t *testing.T, config, chart *unstructured.Unstructured) (*unstructured.Unstructured, *unstructured.Unstructured) {
	t.Helper()
	if config == nil || chart == nil {
		t.Fatalf("config has it: %t, the chart: %t", config != nil, chart != nil)
	}
	return config, chart
}

// configured returns the objects of a file of config.
func configured(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "config", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, raw)
}

// decode returns the objects of a manifest.
func decode(t *testing.T, manifest []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case err != nil && errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case len(object.Object) > 0:
			all = append(all, object)
		}
	}
}

// byName returns objects by kind and name.
func byName(all []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, object := range all {
		found[object.GetKind()+" "+object.GetName()] = object
	}
	return found
}
