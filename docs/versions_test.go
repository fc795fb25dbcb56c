package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

const installation = "operations/install.md"

// required returns the version of a module that a go.mod requires, without its v.
func required(t *testing.T, file, module string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module) + ` v(\S+)`).FindStringSubmatch(read(t, filepath.Join(root, filepath.FromSlash(file))))
	if match == nil {
		t.Fatalf("%s does not require %s", file, module)
	}
	return match[1]
}

// What the table of versions says is tested is what the tests are pinned to.
func TestVersionsThatAreTested(t *testing.T) {
	const capi, kubernetes = "sigs.k8s.io/cluster-api", "k8s.io/kubernetes"
	crds, server := "CRDs of "+required(t, "go.mod", capi), required(t, "hack/controlplane/go.mod", kubernetes)
	node := regexp.MustCompile(`:v([0-9.]+)`).FindStringSubmatch(defaults.Image)
	if node == nil {
		t.Fatalf("kind's node image %s has no version", defaults.Image)
	}
	nightly := read(t, filepath.Join(root, ".github", "workflows", "nightly.yaml"))
	rancher := regexp.MustCompile(`rancher: v([0-9]+\.[0-9]+)(\.[0-9]+)`).FindStringSubmatch(nightly)
	if rancher == nil {
		t.Fatal("the nightly workflow names no version of Rancher")
	}
	want := []row{
		{rancher[1], "1.13, of Turtles 0.27", "1.34 to 1.36", "nightly"},
		{"a stand-in", crds, server, "tested"},
		{"a stand-in", "controllers of " + required(t, "hack/capi/go.mod", capi), server, "nightly"},
		{"a stand-in", crds, node[1] + ", in kind", "nightly"},
	}
	var got []row
	for _, r := range tables(t, installation, "## Versions") {
		switch r[3] {
		case "tested", "nightly":
			got = append(got, r[:4])
		case "run once", "expected", "not possible":
			if r[4] == "" {
				t.Errorf("Rancher %s is %s, and nobody says why", r[0], r[3])
			}
			continue
		default:
			t.Errorf("Rancher %s is %q, which the page does not know", r[0], r[3])
		}
		for _, command := range r.code(4) {
			runs := regexp.MustCompile(`(?m)(- |make )` + strings.TrimPrefix(command, "make ") + `( |$)`)
			if r[3] == "nightly" && !runs.MatchString(nightly) {
				t.Errorf("%s is to run each night, and the workflow does not", command)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is tested (-pinned +%s):\n%s", installation, diff)
	}
}

// The oldest versions that the page names are those that the chart asks for.
func TestVersionsThatAreNeeded(t *testing.T) {
	var chart struct {
		KubeVersion string            `yaml:"kubeVersion"`
		Annotations map[string]string `yaml:"annotations"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "charts", "archelon", "Chart.yaml"))), &chart); err != nil {
		t.Fatal(err)
	}
	for what, version := range map[string]string{
		"the chart itself needs %s":                     chart.KubeVersion,
		"| %s or newer, with its settings `server-url`": chart.Annotations["catalog.cattle.io/rancher-version"],
		"| %s and newer | 1.11 and newer":               chart.Annotations["catalog.cattle.io/rancher-version"],
	} {
		short := regexp.MustCompile(`[0-9]+\.[0-9]+`).FindString(version)
		if sentence := strings.Replace(what, "%s", short, 1); !strings.Contains(read(t, installation), sentence) {
			t.Errorf("%s does not say %q, though it is %s", installation, sentence, version)
		}
	}
}

// Libraries are compiled with the versions of the product, which is tested with them. What their users cannot have must
// not be in them: a replace works in the main module only, and Rancher's modules need some.
func TestLibrariesAreModulesForOthers(t *testing.T) {
	product := read(t, filepath.Join(root, "go.mod"))
	requirement := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)
	versions := map[string]string{}
	for _, match := range requirement.FindAllStringSubmatch(product, -1) {
		versions[match[1]] = match[2]
	}
	for _, match := range regexp.MustCompile(`(?m)^replace (\S+) => \S+ (v\S+)$`).FindAllStringSubmatch(product, -1) {
		versions[match[1]] = match[2]
	}
	for _, library := range []string{"identity", "providers/capi"} {
		for _, match := range requirement.FindAllStringSubmatch(read(t, filepath.Join(root, library, "go.mod")), -1) {
			if version, ok := versions[match[1]]; ok && version != match[2] {
				t.Errorf("%s requires %s %s, the product %s: run go -C %s get %s@%s", library, match[1], match[2], version, library, match[1], version)
			}
		}
		for _, word := range []string{"replace ", "exclude ", "github.com/rancher/"} {
			for _, file := range []string{"go.mod", "go.sum"} {
				if text := read(t, filepath.Join(root, library, file)); strings.Contains(text, word) {
					t.Errorf("%s/%s has %q, which its users cannot have", library, file, word)
				}
			}
		}
	}
}
