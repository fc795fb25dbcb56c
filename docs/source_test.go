package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// parse returns the production files below a directory of the repository.
func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	var files []*ast.File
	err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(dir)), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
	return files
}

// constants returns the string constants of files whose names end in suffix, by name.
func constants(files []*ast.File, suffix string) map[string]string {
	found := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) && strings.HasSuffix(name.Name, suffix) {
					if value, ok := text(spec.Values[i]); ok {
						found[name.Name] = value
					}
				}
			}
			return true
		})
	}
	return found
}

// text returns the value of a string literal.
func text(expression ast.Expr) (string, bool) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// compare reports what only one of code and documentation has.
func compare(t *testing.T, file string, code, documented map[string]string) {
	t.Helper()
	for key, value := range code {
		switch got, ok := documented[key]; {
		case !ok:
			t.Errorf("%s does not document %s", file, key)
		case got != value:
			t.Errorf("%s documents %s with %q; the code has %q", file, key, got, value)
		}
	}
	for key := range documented {
		if _, ok := code[key]; !ok {
			t.Errorf("%s documents %s, which the code does not have", file, key)
		}
	}
}
