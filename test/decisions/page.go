// Package decisions writes pages about what controllers decide, from what their Decide functions say. So a page cannot
// be wrong: "make generate" writes it, and a test fails when it is stale.
package decisions

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var write = flag.Bool("archelon.decisions", false, "write the page about decisions")

// Row is one row of a table: a situation in words, and what is decided in it.
type Row struct{ Situation, Follows string }

// Check fails unless the table of a section of a page has these rows. A section is between the lines
// "<!-- BEGIN NAME -->" and "<!-- END NAME -->". With -archelon.decisions it writes the table first.
func Check(t *testing.T, page, section string, rows []Row) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| what is known | what follows |\n|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s | %s |\n", escaped(row.Situation), escaped(row.Follows))
	}
	found, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- BEGIN "+section+" -->\n", "<!-- END "+section+" -->\n"
	before, rest, ok := strings.Cut(string(found), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section %s", page, section)
	}
	if *write && old != table.String() {
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table.String() {
		t.Errorf("section %s of %s is stale: run make generate", section, page)
	}
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
