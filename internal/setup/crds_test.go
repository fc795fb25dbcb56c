package setup

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/internal/controller"
)

// crd returns a CRD that is established and serves the versions, but for those with a minus before.
func crd(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, version := range versions {
		kept, off := strings.CutPrefix(version, "-")
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: kept, Served: !off})
	}
	c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return c
}

// imports returns the description of the import.
func imports(t *testing.T) controller.Controller {
	t.Helper()
	for _, c := range Controllers() {
		if c.Name == "rancher-import" {
			return c
		}
	}
	t.Fatal("there is no import")
	return controller.Controller{}
}

// crdOf returns what the import needs of a CRD.
func crdOf(t *testing.T, name, version string) controller.CRD {
	t.Helper()
	for _, needed := range imports(t).CRDs {
		if needed.Name == name && (version == "" || needed.Version == version) {
			return needed
		}
	}
	t.Fatalf("the import needs no %s of version %q", name, version)
	return controller.CRD{}
}

func TestLack(t *testing.T) {
	const capi, rancher = "clusters.cluster.x-k8s.io", "clusters.management.cattle.io"
	unestablished := crd(capi, "v1beta2")
	unestablished.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
	for name, tc := range map[string]struct {
		name, version string
		crd           *apiextensionsv1.CustomResourceDefinition
		want          string
	}{
		"Served":        {capi, "v1beta2", crd(capi, "-v1alpha4", "v1beta1", "v1beta2"), ""},
		"NoCAPI":        {capi, "v1beta2", nil, "CRD clusters.cluster.x-k8s.io does not exist; Archelon needs CAPI 1.11 or newer, which Rancher 2.14 and newer bring along"},
		"NoRancher":     {rancher, "v3", nil, "CRD clusters.management.cattle.io does not exist; Archelon needs Rancher 2.14 or newer"},
		"OldCAPI":       {capi, "v1beta2", crd(capi, "-v1alpha4", "v1beta1"), "CAPI serves v1beta1 only (CRD clusters.cluster.x-k8s.io); Archelon needs v1beta2 (CAPI 1.11 or newer, which Rancher 2.14 and newer bring along)"},
		"NoVersion":     {capi, "v1beta2", crd(capi), "CAPI serves no version (CRD clusters.cluster.x-k8s.io); Archelon needs v1beta2 (CAPI 1.11 or newer, which Rancher 2.14 and newer bring along)"},
		"NotServed":     {capi, "v1beta2", crd(capi, "v1beta1", "-v1beta2"), "CRD clusters.cluster.x-k8s.io has v1beta2 and does not serve it; Archelon needs it served"},
		"Unestablished": {capi, "v1beta2", unestablished, "CRD clusters.cluster.x-k8s.io is not established; its conditions say why"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := crdOf(t, tc.name, tc.version).Lack(tc.crd); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Metal3 has a CRD of the same name, which drops what ours has besides. Nothing may be written then.
func TestAnotherCRDOfTheName(t *testing.T) {
	needed := controller.CRD{
		Name: "hostclaims.metal3.io", Version: "v1alpha1", Selectable: ".spec.kind", Of: controller.Product{Name: "Archelon", Needed: "its own"},
	}
	found := crd("hostclaims.metal3.io", "v1alpha1", "v1beta1")
	found.Spec.Versions[1].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.kind"}}
	if got := needed.Lack(found); !strings.Contains(got, "is another one than that of Archelon: field .spec.kind is not selectable") {
		t.Errorf("got %q", got)
	}
	found.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.kind"}}
	if got := needed.Lack(found); got != "" {
		t.Errorf("got %q", got)
	}
}

// Readiness names the cause once all CRDs are known, and passes when a newer CAPI has taken the place of the old one.
func TestReadinessNamesTheCRDThatIsTooOld(t *testing.T) {
	const capi = "clusters.cluster.x-k8s.io"
	w := waitOn(nil, imports(t))
	note := func(found *apiextensionsv1.CustomResourceDefinition, first bool) bool {
		return w.note(t.Context(), found.Name, crdOf(t, found.Name, "").Lack(found), first)
	}
	expect := func(reason, want string) {
		t.Helper()
		if err := w.check(nil); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: readiness says %v, want %q", reason, err, want)
		}
	}
	expect("nothing is known", "the API server has yet to say")
	for _, needed := range imports(t).CRDs {
		if needed.Name != capi && !note(crd(needed.Name, needed.Version), true) {
			t.Errorf("%s is there", needed.Name)
		}
	}
	expect("of CAPI nothing is known", "the API server has yet to say")
	if note(crd(capi, "v1beta1"), true) {
		t.Error("the CRD of CAPI is too old and the wait for it ends")
	}
	expect("CAPI is too old", "CAPI serves v1beta1 only")
	if !strings.HasPrefix(w.reported, "CAPI serves v1beta1 only") {
		t.Errorf("the log has %q", w.reported)
	}
	if !note(crd(capi, "v1beta1", "v1beta2"), false) {
		t.Error("CAPI is new enough")
	}
	expect("CAPI is new enough", "")
}
