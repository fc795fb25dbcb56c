package chart_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// accountOf is the ServiceAccount of the manager.
func accountOf(on []string) string {
	switch {
	case slices.Contains(on, "everything"):
		return "other"
	case slices.Contains(on, "theirs"):
		return "theirs"
	default:
		return "archelon"
	}
}

// checkAccounts wants the manager and the uninstaller to run as ServiceAccounts of their own, both to exist unless the
// manager's is somebody else's, and roles to be bound to them and to those who read metrics.
func checkAccounts(t *testing.T, rendered []*unstructured.Unstructured, on []string) {
	t.Helper()
	var made, runs, bound []string
	for _, object := range rendered {
		switch object.GetKind() {
		case "ServiceAccount":
			made = append(made, object.GetName())
		case "Deployment", "Job":
			name, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
			runs = append(runs, name)
		case "RoleBinding", "ClusterRoleBinding":
			subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
			for _, entry := range subjects {
				if subject, ok := entry.(map[string]any); ok && subject["name"] != "prometheus" {
					bound = append(bound, fmt.Sprintf("%s/%s", subject["namespace"], subject["name"]))
				}
			}
		}
	}
	own, runners := []string{accountOf(on)}, []string{"archelon-system/" + accountOf(on)}
	if !slices.Contains(on, "bare") {
		own, runners = append(own, "archelon.uninstall"), append(runners, "archelon-system/archelon.uninstall")
	}
	for what, pair := range map[string][2][]string{"who runs": {own, runs}, "who has roles": {runners, bound}} {
		if diff := cmp.Diff(sorted(pair[0]), sorted(pair[1])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if slices.Contains(on, "theirs") {
		own = own[1:]
	}
	if diff := cmp.Diff(sorted(own), sorted(made)); diff != "" {
		t.Errorf("ServiceAccounts (-want +got):\n%s", diff)
	}
}

// sorted returns texts in order, each once.
func sorted(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}
