package chart_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A copy of the chart gets a CRD, and a suite of helm-unittest that says what becomes of it: only that can
// make up what is in a cluster.
func TestCRDs(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "archelon")
	if err := os.CopyFS(copied, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(copied, "tests")); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"crd.yaml": filepath.Join("files", "crds", "widgets.yaml"), "crds_test.yaml": filepath.Join("tests", "crds_test.yaml")} {
		raw, err := os.ReadFile(filepath.Join("testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(copied, to)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(t.Context(), ".", nil, programs["helm-unittest"], "--strict", copied); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
