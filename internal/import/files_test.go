package importer

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files of this package have layers, as packages have. Of two files that use each other, move what the lower one
// needs of the upper one down, into a file of its own if none fits.
func TestFilesPointDown(t *testing.T) {
	arrows := arrowsBetweenFiles(t)
	if arrows["run.go"]["decide.go"] == "" {
		t.Fatal("a run is not seen to decide")
	}
	seen := map[string]bool{}
	var follow func(file string, way []string)
	follow = func(file string, way []string) {
		if begin := slices.Index(way, file); begin >= 0 {
			circle := "files use each other in a circle:"
			for i, used := range append(way[begin+1:], file) {
				circle += fmt.Sprintf("\n%s uses %s of %s", way[begin+i], arrows[way[begin+i]][used], used)
			}
			t.Fatal(circle)
		}
		if seen[file] {
			return
		}
		seen[file] = true
		for _, used := range slices.Sorted(maps.Keys(arrows[file])) {
			follow(used, append(slices.Clip(way), file))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(arrows)) {
		follow(file, nil)
	}
}

// arrowsBetweenFiles returns of each file the files that it uses, with an identifier of each. What other packages
// export is left unknown: to read that would take seconds.
func arrowsBetweenFiles(t *testing.T) map[string]map[string]string {
	t.Helper()
	fset, parsed, arrows := token.NewFileSet(), []*ast.File{}, map[string]map[string]string{}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.DeleteFunc(paths, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed, arrows[name] = append(parsed, file), map[string]string{}
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}} // Whatever is imported is one.
	self, _ := config.Check("importer", fset, parsed, &info)
	for identifier, object := range info.Uses {
		from, to := fset.Position(identifier.Pos()).Filename, fset.Position(object.Pos()).Filename
		if object.Pkg() == self && from != to {
			arrows[from][to] = max(arrows[from][to], identifier.Name)
		}
	}
	return arrows
}
