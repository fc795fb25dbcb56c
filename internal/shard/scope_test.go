package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

func TestNew(t *testing.T) {
	var many []string
	for i := range MaxNamespaces + 1 {
		many = append(many, fmt.Sprint("n", i))
	}
	for name, tc := range map[string]struct {
		namespaces, excluded []string
		encoded              string
		says                 string
		owns, doesNot        []string
	}{
		"Neither":             {encoded: "*", says: "all namespaces", owns: []string{"a", "kube-system"}},
		"Named":               {namespaces: []string{"b", "a"}, encoded: "+a,b", says: "namespaces a, b", owns: []string{"a", "b"}, doesNot: []string{"c", "ab", ""}},
		"Excluded":            {excluded: []string{"c"}, encoded: "-c", says: "all namespaces but c", owns: []string{"a", "cc"}, doesNot: []string{"c"}},
		"ExcludedWins":        {namespaces: []string{"a", "b"}, excluded: []string{"b", "z"}, encoded: "+a", says: "namespaces a", owns: []string{"a"}, doesNot: []string{"b", "z", "c"}},
		"TrimmedAndFolded":    {namespaces: []string{" a", "a ", "b"}, encoded: "+a,b", says: "namespaces a, b"},
		"NothingLeft":         {namespaces: []string{"a"}, excluded: []string{"a"}, says: "nothing is left"},
		"Empty":               {namespaces: []string{""}, says: `--namespace: "" cannot be`},
		"Star":                {excluded: []string{"*"}, says: `--excluded-namespace: "*" cannot be`},
		"UpperCase":           {namespaces: []string{"Watch1"}, says: `"Watch1" cannot be`},
		"Dots":                {namespaces: []string{"a.b"}, says: `"a.b" cannot be`},
		"LongName":            {namespaces: []string{strings.Repeat("a", 64)}, says: "cannot be the name of a namespace"},
		"Injection":           {excluded: []string{"a,metadata.namespace=b"}, says: "cannot be the name of a namespace"},
		"AsManyAsPossible":    {excluded: many[1:], says: "all namespaces but", doesNot: []string{"n1", "n1000"}, owns: []string{"n0"}},
		"MoreThanArePossible": {excluded: many, says: "at most 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := New(tc.namespaces, tc.excluded)
			if err != nil {
				expectSaid(t, err.Error(), tc.says)
				return
			}
			if tc.encoded != "" && scope.Encode() != tc.encoded {
				t.Errorf("encoded as %s, want %s", scope.Encode(), tc.encoded)
			}
			expectSaid(t, scope.String(), tc.says)
			expectOwned(t, scope, tc.owns, true)
			expectOwned(t, scope, tc.doesNot, false)
			again, err := Decode(scope.Encode())
			if err != nil || again.Encode() != scope.Encode() {
				t.Errorf("decoded as %s, %v", again, err)
			}
		})
	}
}

// expectSaid asserts that a scope, or an error, says something. Every case wants something to be said.
func expectSaid(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("got %q, want it to say %q", text, want)
	}
}

func expectOwned(t *testing.T, scope Scope, namespaces []string, want bool) {
	t.Helper()
	for _, namespace := range namespaces {
		if got := scope.Owns(namespace); got != want {
			t.Errorf("owns %q: %t, want %t", namespace, got, want)
		}
	}
}

func TestDecodeRefusesWhatIsNoScope(t *testing.T) {
	for _, text := range []string{"", "a", "-", "+a,,b", "+A", "**", "-a, b*"} {
		if scope, err := Decode(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, scope)
		}
	}
}

func mustScope(t *testing.T, text string) Scope {
	t.Helper()
	scope, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

func TestOverlaps(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"*", "*", true},
		{"*", "+a", true},
		{"*", "-a", true},
		{"+a", "+a,b", true},
		{"+a", "+b", false},
		{"+a,b", "-a,b", false},
		{"+a,b", "-a", true},
		{"-a", "-b", true},
	} {
		a, b := mustScope(t, tc.a), mustScope(t, tc.b)
		if a.Overlaps(b) != tc.want || b.Overlaps(a) != tc.want {
			t.Errorf("%s and %s: got %t and %t, want %t", tc.a, tc.b, a.Overlaps(b), b.Overlaps(a), tc.want)
		}
	}
}

func TestSets(t *testing.T) {
	for _, tc := range []struct{ a, b, within, without string }{
		{"*", "*", "*", "+"},
		{"*", "+a", "+a", "-a"},
		{"*", "-a", "-a", "+a"},
		{"*", "+", "+", "*"},
		{"+", "*", "+", "+"},
		{"+a,b", "+b,c", "+b", "+a"},
		{"+a,b", "-a", "+b", "+a"},
		{"-a", "+a,b", "+b", "-a,b"},
		{"-a", "-b", "-a,b", "+b"},
		{"-a,b", "-b,c", "-a,b,c", "+c"},
		{"+a", "+a", "+a", "+"},
	} {
		a, b := mustScope(t, tc.a), mustScope(t, tc.b)
		if got := a.Within(b).Encode(); got != tc.within {
			t.Errorf("%s within %s is %s, want %s", tc.a, tc.b, got, tc.within)
		}
		if got := a.Without(b).Encode(); got != tc.without {
			t.Errorf("%s without %s is %s, want %s", tc.a, tc.b, got, tc.without)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			if got, want := a.Within(b).Owns(name), a.Owns(name) && b.Owns(name); got != want {
				t.Errorf("%s within %s owns %s: %t", tc.a, tc.b, name, got)
			}
			if got, want := a.Without(b).Owns(name), a.Owns(name) && !b.Owns(name); got != want {
				t.Errorf("%s without %s owns %s: %t", tc.a, tc.b, name, got)
			}
		}
	}
}

func TestLeaseName(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"*", "+a", "-a", "+a,b", "+ab"} {
		name := mustScope(t, text).LeaseName("archelon")
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s share the Lease %s", text, other, name)
		}
		seen[name] = text
	}
	if got := mustScope(t, "*").LeaseName("archelon"); got != "archelon" {
		t.Errorf("got %s for all namespaces, want archelon", got)
	}
	if a, b := mustScope(t, "+b,a").LeaseName("x"), mustScope(t, "+a,b,b").LeaseName("x"); a != b {
		t.Errorf("one scope has two Leases, %s and %s", a, b)
	}
}

func TestNamespaces(t *testing.T) {
	if got := mustScope(t, "*").Namespaces(); got != nil {
		t.Errorf("all namespaces: got %v, want nil", got)
	}
	if got := mustScope(t, "+a,b").Namespaces(); len(got) != 2 || got["a"].FieldSelector != nil {
		t.Errorf("named: got %v, want a and b without selectors", got)
	}
	got := mustScope(t, "-a,b").Namespaces()
	if len(got) != 1 || got[cache.AllNamespaces].FieldSelector.String() != "metadata.namespace!=a,metadata.namespace!=b" {
		t.Errorf("excluded: got %v, want a selector under all namespaces", got)
	}
}

func TestLabelled(t *testing.T) {
	for text, want := range map[string][]string{
		"*":    {"a", "b", "c", ""},
		"+a,b": {"a", "b"},
		"-a,b": {"c", ""},
	} {
		selector := mustScope(t, text).Labelled("owner")
		for _, value := range []string{"a", "b", "c", ""} {
			set := labels.Set{}
			if value != "" {
				set["owner"] = value
			}
			if got := selector.Matches(set); got != slices.Contains(want, value) {
				t.Errorf("%s, label %q: selected %t", text, value, got)
			}
		}
	}
	if got := mustScope(t, "+a").NamespaceObjects().String(); got != "kubernetes.io/metadata.name in (a)" {
		t.Errorf("got %s", got)
	}
}
