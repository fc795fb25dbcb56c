// Package decisions writes pages about what controllers decide, from what their Decide functions say. So a page cannot
// be wrong: "make generate" writes it, and a test fails when it is stale.
package decisions

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var write = flag.Bool("archelon.decisions", false, "write the page about decisions")

// page is the one about claims, seen from a package two levels below internal.
func page() string {
	return filepath.Join("..", "..", "..", "docs", "development", "claim-decisions.md")
}

// Check fails unless the table of a section of the page about claims is what a controller decides. A section is between
// the lines "<!-- BEGIN NAME -->" and "<!-- END NAME -->". Situations are names of cases and what these are in words.
// The function says what is decided in a case, and false if there is no such case. With -archelon.decisions, Check
// writes the table.
func Check(t *testing.T, section string, situations [][2]string, follows func(name string) ([]string, bool)) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| what is known | what follows |\n|---|---|\n")
	for _, situation := range situations {
		parts, ok := follows(situation[0])
		if !ok {
			t.Errorf("there is no case %q", situation[0])
		}
		fmt.Fprintf(&table, "| %s | %s |\n", escaped(situation[1]), escaped(cmp.Or(strings.Join(parts, "; "), "nothing")))
	}
	found, err := os.ReadFile(page())
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- BEGIN "+section+" -->\n", "<!-- END "+section+" -->\n"
	before, rest, ok := strings.Cut(string(found), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section %s", page(), section)
	}
	if *write {
		if err := os.WriteFile(page(), []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table.String() {
		t.Errorf("section %s of %s is stale: run make generate", section, page())
	}
}

// Texts are the actions of a decision as they print.
func Texts[A fmt.Stringer](actions []A) []string {
	var texts []string
	for _, action := range actions {
		texts = append(texts, action.String())
	}
	return texts
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Conditions returns what some conditions say, for a row. Neighbours with one status and one reason share them:
// "Associated, Ready=False, reason `NoBareMetalHost`".
func Conditions(all []metav1.Condition, names ...string) []string {
	var said []string
	for _, name := range names {
		is := meta.FindStatusCondition(all, name)
		if is == nil {
			continue
		}
		value := fmt.Sprintf("=%s, reason `%s`", is.Status, is.Reason)
		if last := len(said) - 1; last >= 0 && strings.HasSuffix(said[last], value) {
			said[last] = strings.TrimSuffix(said[last], value) + ", " + name + value
			continue
		}
		said = append(said, name+value)
	}
	return said
}
