package importer

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

func FuzzChosen(f *testing.F) {
	for _, seed := range []string{"true", "false", "", "True", "1", "yes", " true", "TRUE\n", "t", "İ"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, value string, onCluster bool) {
		labels := map[string]string{archelonv1.ImportLabel: value}
		onNamespace := labels
		if onCluster {
			// The label of the namespace does not count then, whatever it says.
			onNamespace = map[string]string{archelonv1.ImportLabel: "true"}
		} else {
			labels = nil
		}
		got, err := chosen(labels, onNamespace)
		switch strings.ToLower(value) {
		case "true", "t", "1":
			if err == nil && got != include {
				t.Errorf("%q: got %v, want the cluster included", value, got)
			}
		case "false", "f", "0":
			if err == nil && got != exclude {
				t.Errorf("%q: got %v, want the cluster excluded", value, got)
			}
		default:
			if err == nil || got != leave {
				t.Errorf("%q: got %v without an error, want things left as they are", value, got)
			}
		}
	})
}

// FuzzDesiredRecord looks for a cluster whose record the API server would refuse, and for settings
// that are quoted in a refusal.
func FuzzDesiredRecord(f *testing.F) {
	f.Add("prod", "tenant", "team", "a", `{"HTTPS_PROXY": "http://user:secret@proxy"}`, "workspace", "text")
	f.Add(strings.Repeat("a", 64), "tenant", "x-k8s.io/a", "", "A: b\nA: c", "-", "")
	f.Add("c", "tenant", "team", "a", "A: &a b\nB: [*a, *a]", "", "")
	f.Add("a.b", strings.Repeat("n", 63), "cattle.io", "true", "[1]", "a/b", "\x00")
	f.Fuzz(func(t *testing.T, name, namespace, key, value, env, workspace, description string) {
		cluster := testCluster(annotated(archelonv1.AgentEnvAnnotation, env), annotated(archelonv1.FleetWorkspaceAnnotation, workspace),
			annotated(archelonv1.DescriptionAnnotation, description))
		cluster.Name, cluster.Namespace = name, namespace
		// The API server has admitted the cluster.
		if len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsDNS1123Label(namespace)) > 0 {
			t.Skip()
		}
		if len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			cluster.Labels = map[string]string{key: value}
		}
		desired, err := (Rules{}).desiredRecord(cluster, "c-aaaaa")
		if err != nil {
			var problem *outcome.Problem
			if !errors.As(err, &problem) || problem.Kind != outcome.KindStall || problem.Reason == "" || problem.Message == "" {
				t.Fatalf("a refusal that does not say what to do: %v", err)
			}
			if len(env) > 20 && strings.Contains(problem.Message, env) {
				t.Errorf("the refusal quotes the environment: %s", problem.Message)
			}
			return
		}
		expectAdmissible(t, desired)
		if desired.Labels[archelonv1.OwnerNameLabel] != name || desired.Labels[archelonv1.OwnerNamespaceLabel] != namespace {
			t.Errorf("the owner labels are %v", desired.Labels)
		}
	})
}

// expectAdmissible asserts that the API server takes the names and values of a record.
func expectAdmissible(t *testing.T, desired Desired) {
	t.Helper()
	for key, value := range desired.Labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("label %q=%q: %v", key, value, problems)
		}
	}
	for key := range desired.Annotations {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("annotation %q: %v", key, problems)
		}
	}
	for _, variable := range desired.AgentEnv {
		if problems := validation.IsEnvVarName(variable.Name); len(problems) > 0 {
			t.Errorf("variable %q: %v", variable.Name, problems)
		}
	}
}
