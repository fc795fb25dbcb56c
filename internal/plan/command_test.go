package plan

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/internal/options"
)

// The arguments of a manager can be given as they are. Help shows those that matter here.
func TestFlags(t *testing.T) {
	cmd, manager := Command(), pflag.NewFlagSet("manager", pflag.ContinueOnError)
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	opts.AddFlags(manager)
	var shown []string
	manager.VisitAll(func(flag *pflag.Flag) {
		mine := cmd.Flags().Lookup(flag.Name)
		switch {
		case mine == nil:
			t.Errorf("--%s is refused", flag.Name)
		case !mine.Hidden:
			shown = append(shown, flag.Name)
		}
	})
	// The flags of kubectl with these names say how this command reaches the management cluster.
	for _, name := range append(slices.Clone(managerFlags), "insecure-skip-tls-verify") {
		if !slices.Contains(shown, name) {
			t.Errorf("--%s is hidden", name)
		}
	}
	if len(shown) > len(managerFlags)+2 {
		t.Errorf("help shows %q", shown)
	}
}

// What keeps a plan from being made is told from what would change.
func TestFailures(t *testing.T) {
	for _, args := range [][]string{
		{"--nonsense"}, {"--output=wide", "--server=https://127.0.0.1:1"}, {"--concurrency=0", "--server=https://127.0.0.1:1"},
		{"--server=https://127.0.0.1:1", "--timeout=1s"},
	} {
		cmd := Command()
		cmd.SetArgs(args)
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&bytes.Buffer{})
		err := cmd.ExecuteContext(t.Context())
		if _, failed := errors.AsType[FailedError](err); !failed || errors.Is(err, ErrChanges) {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestTable(t *testing.T) {
	plans := []Cluster{
		{Namespace: "team-a", Name: "prod", Intent: "import", Agent: agentUnseen, Changes: []Change{{Verb: "patch", Does: "a\x1b[2J b"}}},
		{Namespace: "team-a", Name: "test", Intent: "idle"},
	}
	for name, tc := range map[string]struct {
		how   output
		named bool
		want  string
	}{
		"All": {output{}, false, `NAMESPACE   NAME   INTENT   VERB    DOES
team-a      prod   import   patch   a` + "\ufffd" + `[2J b
team-a      prod   import   -       then look at the agent in the workload cluster (agent: not looked at)
`},
		"Named": {output{noHeaders: true}, true, `team-a   prod   import   patch   a` + "\ufffd" + `[2J b
team-a   prod   import   -       then look at the agent in the workload cluster (agent: not looked at)
team-a   test   idle     -       then nothing
`},
	} {
		t.Run(name, func(t *testing.T) {
			out, notes := &bytes.Buffer{}, &bytes.Buffer{}
			if err := tc.how.write(out, notes, plans, tc.named); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(notes.String(), "1 of 2 CAPI clusters would change.") || !strings.Contains(notes.String(), "agents that would be looked at: 1.") {
				t.Errorf("got %q", notes)
			}
		})
	}
	out := &bytes.Buffer{}
	if err := (&output{form: "json"}).write(out, &bytes.Buffer{}, nil, false); err != nil || !strings.Contains(out.String(), `"items": []`) {
		t.Errorf("nothing as JSON: %v, %s", err, out)
	}
}
