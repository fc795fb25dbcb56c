package options

import (
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
	_ "sigs.k8s.io/controller-runtime/pkg/client/config" // registers --kubeconfig, as it does in the manager
)

// The documentation is made of these texts, and libraries word theirs as they like.
func TestUsage(t *testing.T) {
	opts, err := New()
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	opts.AddFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case f.Usage == "" || !unicode.IsUpper(rune(f.Usage[0])) || !strings.HasSuffix(f.Usage, "."):
			t.Errorf("--%s: %q is no sentence", f.Name, f.Usage)
		case strings.Contains(f.Usage, "LoggingAlphaOptions"), strings.Contains(f.Usage, "LoggingBetaOptions"):
			t.Errorf("--%s speaks of a gate that this program does not have: %q", f.Name, f.Usage)
		}
	})
	for _, name := range []string{"kubeconfig", "v", "feature-gates"} {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no --%s", name)
		}
	}
}
