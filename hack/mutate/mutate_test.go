package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const source = `package some

func smaller(a, b int) bool {
	return a < b && a != 0
}

func note(names []string) {
	for range names {
		break
	}
}
`

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.go")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same seed draws the same changes, another one others, and each is of one token.
func TestDrawn(t *testing.T) {
	path := write(t, source)
	draw := func(seed uint64) []string {
		all, err := drawn([]string{path}, seed)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range all {
			names = append(names, m.name)
			if e := m.edits[0]; len(m.edits) != 1 || strings.ContainsAny(source[e.from:e.to], " \n") {
				t.Errorf("%s is no change of one token", m.name)
			}
		}
		return names
	}
	first := draw(1)
	if !slices.Equal(first, draw(1)) {
		t.Error("the same seed draws other changes")
	}
	if slices.Equal(first, draw(2)) {
		t.Error("another seed draws the same changes")
	}
	for _, want := range []string{"some.go:4 (smaller) && becomes ||", "some.go:4 (smaller) != becomes ==", "some.go:9 (note) break becomes continue"} {
		if !slices.Contains(first, want) {
			t.Errorf("%q is not among %q", want, first)
		}
	}
}

// Each change is a body of its function that is used when the program is told so, and compile errors name it.
func TestChanged(t *testing.T) {
	functions, err := functionsOf("some.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(source, "&&")
	got, err := changed("some.go", source, functions, []mutant{{id: 7, edits: []edit{{"some.go", at, at + 2, "||"}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `func smaller(a, b int) bool {
if archelonMutant == "7" {
//line mutant_7.go:1

	return a < b || a != 0

}
//line some.go:3

	return a < b && a != 0
}
`
	if !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	if _, err := functionsOf("some.go", []byte(got)); err != nil {
		t.Error(err)
	}
}

// A list whose texts are not there any more is an error: what it takes out has to be found again.
func TestListed(t *testing.T) {
	file := write(t, source)
	list := write(t, "- name: one\n  why: \"1234567: so it is\"\n  changes:\n  - file: "+file+"\n    from: 'a > b'\n    to: a\n")
	if _, err := listed(list); err == nil || !strings.Contains(err.Error(), "is to be there once") {
		t.Errorf("got %v", err)
	}
}
