package docs_test

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The page of writes names each file that sends some, and each one with a call of Patch or Delete that does not show
// its precondition: a new write is thought about.
func TestThePageOfWrites(t *testing.T) {
	sends, hides := writers(t)
	page, err := os.ReadFile(filepath.Join("development", "writes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), "\n## Files that write\n")
	sent, hidden, _ := strings.Cut(tables, "\nA call of `Patch` or `Delete`")
	for _, table := range []struct {
		what, text string
		want       map[string]bool
	}{
		{"files that write", sent, sends}, {"files with a precondition that the call does not show", hidden, hides},
	} {
		var found []string
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\S+\\.go)` \\|").FindAllStringSubmatch(table.text, -1) {
			found = append(found, row[1])
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(table.want)), found); diff != "" {
			t.Errorf("docs/development/writes.md, %s: -code +page:\n%s", table.what, diff)
		}
	}
}

// writers returns the files that call what writes, and those of them with calls of Patch or Delete that name neither a
// lock nor preconditions.
func writers(t *testing.T) (sends, hides map[string]bool) {
	t.Helper()
	sends, hides = map[string]bool{}, map[string]bool{}
	for _, dir := range []string{"identity", "internal", "providers"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			for method, arguments := range calls(t, path) {
				name := filepath.ToSlash(name)
				sends[name] = true
				shows := regexp.MustCompile("(?i)locked|preconditions").MatchString(arguments)
				if (method == "Patch" || method == "Delete") && !shows {
					hides[name] = true
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sends, hides
}

// calls returns the methods and the texts of the calls of a file that write to an API server.
func calls(t *testing.T, path string) iter.Seq2[string, string] {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(method, text string) bool) {
		for node := range ast.Preorder(file) {
			if method, text := written(t, set, node); method != "" && !yield(method, text) {
				return
			}
		}
	}
}

// written returns the method and the text of a call that writes to an API server, nothing for any other node.
func written(t *testing.T, set *token.FileSet, node ast.Node) (method, text string) {
	t.Helper()
	call, ok := node.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return "", ""
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if ctx, isName := call.Args[0].(*ast.Ident); !ok || !isName || ctx.Name != "ctx" ||
		!slices.Contains([]string{"Create", "Update", "Patch", "Delete", "DeleteAllOf", "Apply"}, selector.Sel.Name) {
		return "", ""
	}
	var whole strings.Builder
	if err := format.Node(&whole, set, call); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(whole.String(), "Review") || strings.Contains(whole.String(), "DryRunAll") ||
		strings.Contains(whole.String(), "asked, metav1.CreateOptions") || strings.Contains(whole.String(), "review(") {
		return "", "" // A question.
	}
	return selector.Sel.Name, whole.String()
}
