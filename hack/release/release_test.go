package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const changelog = `# Changelog

## [Unreleased]

### Added

- Not yet.

## [1.2.3] - 2026-01-02

### Added

- Something
  on two lines.
- More.

### Security

- Less.

## [1.2.3-rc.1] - 2026-01-01

### Fixed

- Earlier.

[1.2.3]: https://example.com
`

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason  string
		content string
		version string
		want    []change
		err     string
	}{
		"Found": {
			reason: "items of all kinds, with their further lines", content: changelog, version: "1.2.3",
			want: []change{{"added", "Something on two lines."}, {"added", "More."}, {"security", "Less."}},
		},
		"Candidate":  {reason: "its name begins like another", content: changelog, version: "1.2.3-rc.1", want: []change{{"fixed", "Earlier."}}},
		"Missing":    {reason: "nothing is released that nobody has described", content: changelog, version: "1.2.4", err: `no section "## [1.2.4] - DATE"`},
		"Prefix":     {reason: "a dot is no wildcard, and a version no prefix", content: changelog, version: "1.2", err: "no section"},
		"Unreleased": {reason: "it has no date", content: "## [1.0.0]\n\n### Added\n\n- A.\n", version: "1.0.0", err: "no section"},
		"Empty":      {reason: "a heading alone says nothing", content: "## [1.0.0] - 2026-01-01\n\n### Added\n", version: "1.0.0", err: "no section"},
		"Kind":       {reason: "Artifact Hub knows six kinds", content: "## [1.0.0] - 2026-01-01\n\n### Improved\n\n- A.\n", version: "1.0.0", err: `kind "Improved"`},
		"NoKind":     {reason: "the item would get lost", content: "## [1.0.0] - 2026-01-01\n\n- A.\n", version: "1.0.0", err: "without a kind"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.content, tc.version)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: got error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got.changes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.HasPrefix(got.text, "### ") || strings.Contains(got.text, "\n## ") {
				t.Errorf("%s: the notes are %q", tc.reason, got.text)
			}
		})
	}
}

func TestTags(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v0.1.0-rc.1": true, "v0.1.0-alpha": true,
		"1.2.3": false, "v1.2": false, "v1.2.3-": false, "v01.2.3": false, "v1.2.3+a": false, "v1.2.3-4-gabcdef0-dirty": true, "abcdef0": false, "": false,
	} {
		if got := tag.MatchString(version); got != want {
			t.Errorf("%q: %t, want %t", version, got, want)
		}
	}
}

// The copy differs from the chart in what belongs to the release alone.
func TestStage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	from, to := filepath.Join("..", "..", "charts", "archelon"), filepath.Join(t.TempDir(), "archelon")
	r := release{version: "v1.2.3-rc.1", image: "registry.example.com:5000/a/b", digest: digest, changes: []change{{"fixed", "That: it is true."}}}
	if err := r.stage(from, to); err != nil {
		t.Fatal(err)
	}
	was, is := map[string]any{}, map[string]any{}
	load(t, filepath.Join(from, "Chart.yaml"), &was)
	load(t, filepath.Join(to, "Chart.yaml"), &is)
	annotations, ok := was["annotations"].(map[string]any)
	if !ok {
		t.Fatalf("the annotations are %v", was["annotations"])
	}
	was["version"], was["appVersion"] = "1.2.3-rc.1", "1.2.3-rc.1"
	annotations["archelon.io/image"] = "registry.example.com:5000/a/b@" + digest
	annotations["artifacthub.io/prerelease"] = "true"
	annotations["artifacthub.io/changes"] = "- kind: fixed\n  description: 'That: it is true.'\n"
	annotations["artifacthub.io/images"] = "- image: registry.example.com:5000/a/b:v1.2.3-rc.1@" + digest + "\n  name: archelon\n"
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("Chart.yaml (-want +got):\n%s", diff)
	}
	was, is = map[string]any{}, map[string]any{}
	load(t, filepath.Join(from, "values.yaml"), &was)
	load(t, filepath.Join(to, "values.yaml"), &is)
	image, ok := was["image"].(map[string]any)
	if !ok {
		t.Fatalf("the image is %v", was["image"])
	}
	image["registry"], image["repository"] = "registry.example.com:5000", "a/b"
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("values.yaml (-want +got):\n%s", diff)
	}
	for _, wrong := range []release{{version: "v1.2.3", image: "b", digest: digest}, {version: "v1.2.3", image: "a/b", digest: "latest"}} {
		if err := wrong.stage(from, filepath.Join(t.TempDir(), "wrong")); err == nil {
			t.Errorf("%s@%s was accepted", wrong.image, wrong.digest)
		}
	}
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// Two archives that differ in when they were made are the same afterwards.
func TestSettle(t *testing.T) {
	var settled [][]byte
	when := time.Unix(1_000_000_000, 0).UTC()
	for _, made := range []int64{1, 2_000_000_000} {
		var raw bytes.Buffer
		zipper := gzip.NewWriter(&raw)
		zipper.Comment = "Helm"
		writer := tar.NewWriter(zipper)
		if err := writer.WriteHeader(&tar.Header{Name: "a/Chart.yaml", Mode: 0o644, Size: 4, ModTime: time.Unix(made, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte("a: b")); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := zipper.Close(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "a.tgz")
		if err := os.WriteFile(file, raw.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := settle(file, when); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		settled = append(settled, content)
		if info, err := os.Stat(file); err != nil || !info.ModTime().Equal(when) {
			t.Errorf("the file is of %v (%v), want %v", info.ModTime(), err, when)
		}
	}
	if !bytes.Equal(settled[0], settled[1]) {
		t.Error("the archives differ")
	}
}
