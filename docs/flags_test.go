package docs_test

import (
	"path/filepath"
	"testing"

	"github.com/archelon-io/archelon/internal/options"
)

func TestFeatureGates(t *testing.T) {
	page := filepath.Join("operations", "flags.md")
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range tables(t, page, "## Feature gates") {
		documented[row.code(0)[0]] = row[1] + " " + row[2]
	}
	code := map[string]string{}
	for name, spec := range opts.Gates.GetAll() {
		if name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		state := "off"
		if spec.Default {
			state = "on"
		}
		code[string(name)] = string(spec.PreRelease) + " " + state
	}
	compare(t, page, code, documented)
}
