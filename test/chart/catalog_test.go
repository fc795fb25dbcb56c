package chart_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	sigsyaml "sigs.k8s.io/yaml"
)

// metadata is what catalogs read of Chart.yaml.
type metadata struct {
	Icon        string   `json:"icon"`
	KubeVersion string   `json:"kubeVersion"`
	Keywords    []string `json:"keywords"`
	Maintainers []struct{ Name, URL string }
	Annotations map[string]string `json:"annotations"`
}

// readYAML reads a file of the chart.
func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	if err := sigsyaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func readMetadata(t *testing.T) metadata {
	t.Helper()
	all := map[string]any{}
	readYAML(t, "Chart.yaml", &all)
	raw, err := sigsyaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var found metadata
	if err := sigsyaml.Unmarshal(raw, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// The icon is a file of the chart, at the address that catalogs fetch it from.
func TestIcon(t *testing.T) {
	m := readMetadata(t)
	if want := "https://raw.githubusercontent.com/archelon-io/archelon/main/charts/archelon/icon.svg"; m.Icon != want {
		t.Fatalf("the icon is %s, want %s", m.Icon, want)
	}
	raw, err := os.ReadFile(filepath.Join(chart, "icon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		XMLName xml.Name
		ViewBox string `xml:"viewBox,attr"`
	}
	if err := xml.Unmarshal(raw, &root); err != nil || root.XMLName.Local != "svg" || root.ViewBox == "" {
		t.Errorf("icon.svg is a %s with viewBox %q: %v", root.XMLName.Local, root.ViewBox, err)
	}
	if len(m.Maintainers) == 0 || len(m.Keywords) == 0 {
		t.Errorf("there are no maintainers or no keywords: %v, %v", m.Maintainers, m.Keywords)
	}
}

// What Rancher's UI reads has the names that it reads. A misspelt annotation is ignored there.
func TestRancherAnnotations(t *testing.T) {
	m := readMetadata(t)
	known := []string{
		"certified", "deprecated", "deploys-on-os", "display-name", "experimental", "featured", "hidden", "kube-version", "namespace", "os", "permits-os",
		"provides-gvr", "rancher-version", "release-name", "requests-cpu", "requests-memory", "requires-gvr", "scope", "type", "ui-component", "upstream-version",
	}
	for name, value := range m.Annotations {
		if short, ok := strings.CutPrefix(name, "catalog.cattle.io/"); ok && (!slices.Contains(known, short) || value == "") {
			t.Errorf("Rancher does not read %s: %q", name, value)
		}
	}
	if got := m.Annotations["catalog.cattle.io/kube-version"]; got != m.KubeVersion {
		t.Errorf("Rancher is told of Kubernetes %s, and Helm of %s", got, m.KubeVersion)
	}
	// What all Pods of the manager ask for, with the values of the chart.
	var v struct {
		ReplicaCount int64 `json:"replicaCount"`
		Resources    struct {
			Requests map[string]resource.Quantity `json:"requests"`
		} `json:"resources"`
	}
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sigsyaml.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for name, request := range v.Resources.Requests {
		request.Mul(v.ReplicaCount)
		if got := m.Annotations["catalog.cattle.io/requests-"+name]; got != request.String() {
			t.Errorf("Rancher is told that %s of %s is asked for, want %s", got, name, request.String())
		}
	}
}

// Artifact Hub lists the CRDs that the chart has, in the versions that they have.
func TestArtifactHubAnnotations(t *testing.T) {
	m := readMetadata(t)
	type crd struct{ Kind, Version, Name, DisplayName, Description string }
	var listed []crd
	if err := sigsyaml.UnmarshalStrict([]byte(m.Annotations["artifacthub.io/crds"]), &listed); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, one := range listed {
		got[one.Name] = one.Kind + " " + one.Version
		if one.DisplayName == "" || one.Description == "" {
			t.Errorf("%s has no name to show, or no description", one.Name)
		}
	}
	files, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, file := range files {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		readYAML(t, "files/crds/"+filepath.Base(file), definition)
		for _, version := range definition.Spec.Versions {
			if version.Storage {
				want[definition.Name] = fmt.Sprintf("%s %s/%s", definition.Spec.Names.Kind, definition.Spec.Group, version.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CRDs (-chart +Chart.yaml):\n%s", diff)
	}
	var links []struct{ Name, URL string }
	if err := sigsyaml.UnmarshalStrict([]byte(m.Annotations["artifacthub.io/links"]), &links); err != nil || len(links) == 0 {
		t.Errorf("links: %v, %v", links, err)
	}
	for _, link := range links {
		if link.Name == "" || !strings.HasPrefix(link.URL, "https://") {
			t.Errorf("%q leads to %q", link.Name, link.URL)
		}
	}
}

// The notes of a release, which names the image that was pushed with it, do not say that there is none.
func TestNotesOfARelease(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "archelon")
	if err := os.CopyFS(copied, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(copied, "tests")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(copied, "tests"), 0o755); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	described := strings.Replace(string(raw), "annotations:\n", "annotations:\n  archelon.io/image: ghcr.io/archelon-io/archelon@sha256:0\n", 1)
	const suite = "suite: notes\ntemplates: [NOTES.txt]\ncapabilities: {majorVersion: 1, minorVersion: 36}\ntests:\n" +
		"  - it: says nothing of its image\n    asserts: [{notMatchRegexRaw: {pattern: WARNING}}, {matchRegexRaw: {pattern: is installed as}}]\n"
	for file, content := range map[string]string{"Chart.yaml": described, filepath.Join("tests", "notes_test.yaml"): suite} {
		if err := os.WriteFile(filepath.Join(copied, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(t.Context(), ".", nil, programs["helm-unittest"], "--strict", copied); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// question is what Rancher's UI asks for.
type question struct {
	Variable        string     `json:"variable"`
	Label           string     `json:"label"`
	Description     string     `json:"description"`
	Type            string     `json:"type"`
	Options         []any      `json:"options,omitempty"`
	Default         any        `json:"default"`
	Min             *int       `json:"min,omitempty"`
	Max             *int       `json:"max,omitempty"`
	Group           string     `json:"group,omitempty"`
	ShowSubquestion bool       `json:"show_subquestion_if,omitempty"` //nolint:tagliatelle // it is Rancher's
	Subquestions    []question `json:"subquestions,omitempty"`
}

// What Rancher's UI asks for are values, and it offers what they are: it writes its defaults
// into the values of a release.
func TestQuestions(t *testing.T) {
	var all struct {
		Questions []question `json:"questions"`
	}
	readYAML(t, "questions.yaml", &all)
	defaults := map[string]any{}
	readYAML(t, "values.yaml", &defaults)
	schema := readSchema(t)
	asked := 0
	for _, top := range all.Questions {
		if top.Group == "" {
			t.Errorf("%s has no group", top.Variable)
		}
		for _, q := range append([]question{top}, top.Subquestions...) {
			asked++
			checkQuestion(t, q, schema, defaults)
		}
	}
	if asked == 0 {
		t.Error("nothing is asked for")
	}
}

// checkQuestion wants a question to be about a value, and to offer what it is.
func checkQuestion(t *testing.T, q question, all *schema, defaults map[string]any) {
	t.Helper()
	if q.Label == "" || q.Description == "" {
		t.Errorf("%s has no label or no description", q.Variable)
	}
	value, of := any(defaults), all
	for key := range strings.SplitSeq(q.Variable, ".") {
		below, _ := value.(map[string]any)
		if value = below[key]; of != nil {
			of = of.Properties[key]
		}
	}
	if of == nil {
		t.Errorf("%s is no value of the chart", q.Variable)
		return
	}
	if of.Ref != "" && of.Type == nil {
		of = all.Definitions[strings.TrimPrefix(of.Ref, "#/definitions/")]
	}
	if want := map[string]string{"string": "string", "enum": "string", "boolean": "boolean", "int": "integer", "array[string]": "array"}[q.Type]; want != of.Type {
		t.Errorf("%s is asked for as %s, and is of type %v", q.Variable, q.Type, of.Type)
	}
	if diff := cmp.Diff(of.Enum, q.Options); diff != "" {
		t.Errorf("%s: what can be chosen (-schema +questions.yaml):\n%s", q.Variable, diff)
	}
	if diff := cmp.Diff(value, q.Default); diff != "" {
		t.Errorf("%s: default (-values.yaml +questions.yaml):\n%s", q.Variable, diff)
	}
}
