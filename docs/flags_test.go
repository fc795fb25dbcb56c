package docs_test

import (
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // registers --kubeconfig, as it does in the manager

	"github.com/archelon-io/archelon/internal/options"
)

func TestFlags(t *testing.T) {
	page := filepath.Join("operations", "flags.md")
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	code := map[string]string{}
	flags.VisitAll(func(flag *pflag.Flag) { code["--"+flag.Name] = flag.DefValue })

	documented := map[string]string{}
	for _, row := range tables(t, page, "## Flags") {
		names, values := row.code(0), row.code(1)
		switch {
		case len(names) != 1:
			t.Errorf("%s: %q must name one flag", page, row[0])
		case len(values) == 1:
			documented[names[0]] = values[0]
		default:
			documented[names[0]] = ""
		}
	}
	compare(t, page, code, documented)
}

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
