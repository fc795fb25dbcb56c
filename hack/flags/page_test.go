package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func someFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringSlice("namespace", nil, "Namespace; see --log-level.")
	flags.String("mode", "a|b", "One of a=1|b=2 for example.com/key, at localhost:80.")
	flags.IntP("log-level", "l", 3, "Level: 0 to 4.\nNot more.")
	flags.Bool("log-color", false, "Color, <instance>-color.")
	flags.Bool("secret", false, "Nobody sees it.")
	if err := flags.MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	return flags
}

const page = `# Page

<!-- flags: * -->
old
<!-- end of flags -->

Between.

<!-- flags: namespace, log-* -->
<!-- end of flags -->
After.
`

const filledPage = `# Page

<!-- flags: * -->

| flag | default | meaning |
|---|---|---|
` + "| `--mode` | `a\\|b` | One of `a=1\\|b=2` for `example.com/key`, at `localhost:80`. |" + `

<!-- end of flags -->

Between.

<!-- flags: namespace, log-* -->

| flag | default | meaning |
|---|---|---|
` + "| `--namespace` | | Namespace; see `--log-level`. |\n| `--log-color` | `false` | Color, `<instance>-color`. |\n| `-l` `--log-level` | `3` | Level: 0 to 4. Not more. |" + `

<!-- end of flags -->
After.
`

func TestFill(t *testing.T) {
	got, err := fill(page, someFlags(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filledPage, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := fill(got, someFlags(t))
	if err != nil || again != got {
		t.Errorf("a second time it is another page: %v\n%s", err, cmp.Diff(got, again))
	}
}

func TestFillRefuses(t *testing.T) {
	table := func(flags string) string { return begin + flags + closing + "\n" + end + "\n" }
	for name, tc := range map[string]struct{ page, says string }{
		"Missing":   {table("namespace, mode"), "no table has --log-"},
		"Unknown":   {table("nonsense") + table("*"), "no flag --nonsense"},
		"Stale":     {table("trace-*") + table("*"), "no flag --trace-*"},
		"Twice":     {table("mode, namespace") + table("mode") + table("*"), "--mode is hidden, or is in two tables"},
		"Hidden":    {table("secret") + table("*"), "--secret is hidden"},
		"Unended":   {begin + "*" + closing + "\n", "has no end"},
		"Malformed": {table("[") + table("*"), "syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := fill(tc.page, someFlags(t)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want it to say %q", err, tc.says)
			}
		})
	}
}
