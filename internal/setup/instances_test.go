package setup

import (
	"slices"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// Processes that do not know of each other would write against each other. None starts without a namespace for its
// Lease.
func TestAProcessHasALease(t *testing.T) {
	t.Parallel()
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	opts.LeaderElect = false
	if id, err := identify(opts); err == nil || !strings.Contains(err.Error(), "--leader-elect-namespace") {
		t.Errorf("got instance %s and %v, want the flag that names the namespace", id, err)
	}
	opts.LeaderElectNamespace = "system"
	if id, err := identify(opts); err != nil || id.String() != "system/archelon" {
		t.Errorf("got instance %s and %v", id, err)
	}
}

// Only namespaces that were given up are asked about: an instance that excludes hundreds is not to ask for each of them
// whenever it starts.
func TestGiven(t *testing.T) {
	t.Parallel()
	scope := func(namespaces, excluded string) shard.Scope {
		t.Helper()
		s, err := shard.New(strings.Fields(namespaces), strings.Fields(excluded))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		before, now shard.Scope
		excluded    string
		want        string
		leaving     string
	}{
		"Same":          {scope("", "a b"), scope("", "a b"), "a b", "", ""},
		"FirstStart":    {scope("", "a"), scope("", "a"), "a", "", ""},
		"ExcludesMore":  {scope("", "a"), scope("", "a b"), "a b", "b", ""},
		"ExcludesSome":  {scope("", ""), scope("", "b a"), "b a", "a b", ""},
		"NamesFewer":    {scope("a b", ""), scope("a", ""), "", "b", ""},
		"NamesOthers":   {scope("a b", ""), scope("", "c"), "c", "", ""},
		"NamedExcluded": {scope("a b", ""), scope("", "b c"), "b c", "b", ""},
		"Died":          {scope("", "a b"), scope("", "a b"), "a b", "b", "b"},
		"TakenBack":     {scope("", "a b"), scope("", "a"), "a", "", "b"},
		"Grows":         {scope("a", ""), scope("", ""), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := instance.Registered{Claim: instance.Claim{Scope: tc.before}, Leaving: strings.Fields(tc.leaving)}
			if got := Given(before, tc.now, strings.Fields(tc.excluded)); !slices.Equal(got, strings.Fields(tc.want)) {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}
