package docs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/status"
	"github.com/archelon-io/archelon/internal/uninstall"
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

// The flags of kubectl, for the connection, are left to its own documentation.
func TestStatusFlags(t *testing.T) {
	page := filepath.Join("operations", "status.md")
	kubectl := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&clientcmd.ConfigOverrides{}, kubectl, clientcmd.RecommendedConfigOverrideFlags(""))
	code := map[string]string{}
	status.Command().Flags().VisitAll(func(flag *pflag.Flag) {
		if kubectl.Lookup(flag.Name) == nil && flag.Name != "kubeconfig" {
			code["--"+flag.Name] = flag.DefValue
		}
	})
	documented := map[string]string{}
	for _, row := range tables(t, page, "## Flags") {
		documented[row.code(0)[0]] = strings.Join(row.code(1), "")
	}
	compare(t, page, code, documented)
}

func TestCheckFlags(t *testing.T) {
	page := filepath.Join("operations", "check.md")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // it is the manager's there
	kubectl := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&clientcmd.ConfigOverrides{}, kubectl, names)
	code := map[string]string{}
	check.Command(nil, featuregate.NewFeatureGate()).Flags().VisitAll(func(flag *pflag.Flag) {
		if kubectl.Lookup(flag.Name) == nil && flag.Name != "kubeconfig" {
			code["--"+flag.Name] = flag.DefValue
		}
	})
	documented := map[string]string{}
	for _, row := range tables(t, page, "## Flags") {
		documented[row.code(0)[0]] = strings.Join(row.code(1), "")
	}
	compare(t, page, code, documented)
}

func TestUninstallFlags(t *testing.T) {
	page := filepath.Join("operations", "uninstall.md")
	flags := pflag.NewFlagSet(uninstall.Name, pflag.ContinueOnError)
	uninstall.NewOptions().AddFlags(flags)
	code := map[string]string{"--kubeconfig": ""} // controller-runtime registers it
	flags.VisitAll(func(flag *pflag.Flag) { code["--"+flag.Name] = flag.DefValue })
	documented := map[string]string{}
	for _, row := range tables(t, page, "### Flags") {
		documented[row.code(0)[0]] = strings.Join(row.code(1), "")
	}
	compare(t, page, code, documented)
}
