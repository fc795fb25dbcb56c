package chart_test

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// id tells objects apart in a cluster.
func id(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
}

// checkNames wants each object once, and in the namespace of the release unless it says where.
func checkNames(t *testing.T, rendered []*unstructured.Unstructured) {
	t.Helper()
	found := map[string]bool{}
	for _, object := range rendered {
		if found[id(object)] {
			t.Errorf("%s is there twice", id(object))
		}
		found[id(object)] = true
		if object.GetLabels()["app.kubernetes.io/instance"] == "" {
			t.Errorf("%s has no labels of the chart", id(object))
		}
	}
}

// Releases that are not the same have no object in common. Names that are put together or cut off must not hide that.
func TestReleasesDoNotCollide(t *testing.T) {
	long := "a-release-with-a-name-as-long-as-helm-takes-it-abcde"
	all := everything().merged(values{
		"instance": "", "serviceAccount": values{"name": ""}, "features": values{"oci-cluster-identity": values{"enabled": true}},
		"identity": values{"secretNamespaces": []string{"vault"}, "trustedNamespaces": []string{"infra"}},
	})
	for name, pair := range map[string][2]release{
		"SameNameOtherNamespace": {{"archelon", "a"}, {"archelon", "b"}},
		"OtherNameSameNamespace": {{"one", "a"}, {"two", "a"}},
		"NamesRunTogether":       {{"a-archelon", "team"}, {"archelon", "team-a"}},
		"LongNames":              {{long + "f", "a"}, {long + "g", "a"}},
		"LongNamespaces":         {{"archelon", strings.Repeat("n", 62) + "a"}, {"archelon", strings.Repeat("n", 62) + "b"}},
		// The second one works in the namespace of the first, where its RoleBindings have names that are the same for all.
		"InItsNamespace":         {{"archelon", "watch2"}, {"other", "a"}},
		"InThatOfIsolated":       {{"archelon-isolated", "watch2"}, {"other", "a"}},
		"InThatOfUninstall":      {{"archelon-uninstall", "watch2"}, {"other", "a"}},
		"InThatOfLeaderElection": {{"archelon-leader-election", "watch2"}, {"other", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := map[string]bool{}
			for _, object := range objects(t, pair[0], all.merged(values{"namespaces": []string{"watch1"}})) {
				first[id(object)] = true
			}
			for _, object := range objects(t, pair[1], all.merged(values{"namespaces": []string{"watch2"}})) {
				if first[id(object)] {
					t.Errorf("both have %s", id(object))
				}
				if object.GetNamespace() != "" && len(object.GetName()) > 63 {
					t.Errorf("the name of %s is too long", id(object))
				}
			}
		})
	}
}

// A release that works in its own namespace has objects there whose names come from it, and some whose names do not.
func TestReleaseInItsOwnNamespace(t *testing.T) {
	for name, set := range map[string]values{
		"archelon": {}, "archelon-isolated": {}, "archelon-uninstall": {}, "archelon-central": {}, "archelon-manager": {}, "archelon-leader-election": {},
		"other": {}, "overridden": {"fullnameOverride": "archelon-uninstall"}, "ending": {"fullnameOverride": "team-isolated"},
		"account": {"serviceAccount": values{"name": "archelon-uninstall"}, "fullnameOverride": "archelon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := values{"namespaces": []string{"a", "b"}}.merged(set)
			checkNames(t, objects(t, release{name, "a"}, set))
		})
	}
}

// Helm deletes a hook before it makes it: it must not be what another release in the namespace has.
func TestHooksAreNobodyElses(t *testing.T) {
	hooks := map[string]bool{}
	for _, object := range objects(t, release{"archelon", "a"}, values{}) {
		if object.GetAnnotations()["helm.sh/hook"] != "" {
			hooks[id(object)] = true
		}
	}
	if len(hooks) == 0 {
		t.Fatal("there are no hooks")
	}
	for _, name := range []string{"archelon-uninstall", "archelon-uninstall-uninstall", "uninstall-archelon"} {
		for _, object := range objects(t, release{name, "a"}, values{"namespaces": []string{"a"}}) {
			if hooks[id(object)] {
				t.Errorf("%s of release %s is a hook of another one", id(object), name)
			}
		}
	}
}

// The name of a Job is a label of its Pods as well. Two releases of a namespace must not have one Job,
// however long their names are.
func TestJobsOfLongNames(t *testing.T) {
	const long = "a-name-with-as-many-letters-as-are-take" // and one more
	found := map[string]string{}
	for name, r := range map[string]struct {
		release string
		set     values
	}{
		"Short":       {"archelon", values{}},
		"Fits":        {"other", values{"fullnameOverride": long[:34]}},
		"DoesNotFit":  {"other", values{"fullnameOverride": long[:34] + "s"}},
		"Longest":     {"other", values{"fullnameOverride": long + "n"}},
		"OtherEnd":    {"other", values{"fullnameOverride": long + "m"}},
		"CutAtDash":   {"other", values{"fullnameOverride": "a-name-with-as-many-char-as-are-taken-up"}},
		"LongRelease": {strings.Repeat("r", 53), values{}},
		"OtherDigest": {strings.Repeat("r", 52) + "s", values{}},
	} {
		job := jobOf(t, objects(t, release{r.release, "a"}, r.set)).Name
		if problems := validation.IsDNS1123Label(job); len(problems) > 0 {
			t.Errorf("%s: Job %s: %q", name, job, problems)
		}
		if problems := validation.IsValidLabelValue(job); len(problems) > 0 {
			t.Errorf("%s: Job %s: %q", name, job, problems)
		}
		if other := found[job]; other != "" {
			t.Errorf("%s and %s have the same Job %s", name, other, job)
		}
		found[job] = name
	}
}

// Names and namespaces may be what YAML takes for a number or a truth value.
func TestRightsOfNamesLikeNumbers(t *testing.T) {
	for _, word := range []string{"2026", "1e3", "0x10", "0o7", "123", "true", "on", "null", "y"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			set := values{
				"namespaces": []string{word}, "fullnameOverride": "archelon", "instance": word, "watchFilter": word,
				"serviceAccount": values{"name": word}, "metrics": values{"readers": []any{values{"namespace": word, "name": word}}},
				"image": values{"registry": "", "repository": word, "tag": "30"},
			}
			for _, scope := range []values{set, set.merged(values{"namespaces": []string{}})} {
				for _, object := range objects(t, release{word, word}, scope) {
					checkTyped(t, object)
				}
			}
		})
	}
}

// checkTyped wants an object that says who may do what and where, or does it, to have text where text belongs.
func checkTyped(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	var typed any
	switch object.GetKind() {
	case "Role", "ClusterRole":
		typed = &rbacv1.ClusterRole{} // A Role has no fields that it has not.
	case "RoleBinding", "ClusterRoleBinding":
		typed = &rbacv1.RoleBinding{}
	case "Job":
		typed = &batchv1.Job{}
	default:
		return
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "labels")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Errorf("%s: %v", id(object), err)
	}
	if name := object.GetName(); name == "" || strings.TrimSpace(name) != name {
		t.Errorf("a %s has the name %q", object.GetKind(), name)
	}
}
