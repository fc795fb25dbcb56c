package docs_test

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	page := filepath.Join("operations", "metrics.md")
	documented := map[string]string{}
	for _, row := range tables(t, page, "## Metrics") {
		documented[row.code(0)[0]] = strings.Join(row.code(1), ",")
	}
	code := map[string]string{}
	for _, file := range append(parse(t, "internal"), parse(t, "providers")...) {
		ast.Inspect(file, func(node ast.Node) bool {
			if name, labels, ok := metric(node); ok {
				code[name] = labels
			}
			if name, labels, ok := description(node); ok {
				code[name] = labels
			}
			return true
		})
	}
	compare(t, page, code, documented)
}

// metric recognises prometheus.New...Vec(prometheus.Opts{Name: "..."}, []string{...}) and its siblings without labels.
func metric(node ast.Node) (name, labels string, ok bool) {
	call, isCall := node.(*ast.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return "", "", false
	}
	opts, isOpts := call.Args[0].(*ast.CompositeLit)
	if !isOpts {
		return "", "", false
	}
	if kind, isKind := opts.Type.(*ast.SelectorExpr); !isKind || !strings.HasSuffix(kind.Sel.Name, "Opts") {
		return "", "", false
	}
	for _, element := range opts.Elts {
		if field, isField := element.(*ast.KeyValueExpr); isField {
			if key, isKey := field.Key.(*ast.Ident); isKey && key.Name == "Name" {
				name, ok = text(field.Value)
			}
		}
	}
	if len(call.Args) > 1 {
		labels = texts(call.Args[1])
	}
	return name, labels, ok
}

// description recognises prometheus.NewDesc("...", help, []string{...}, nil).
func description(node ast.Node) (name, labels string, ok bool) {
	call, isCall := node.(*ast.CallExpr)
	if !isCall || len(call.Args) != 4 {
		return "", "", false
	}
	if function, isSelector := call.Fun.(*ast.SelectorExpr); !isSelector || function.Sel.Name != "NewDesc" {
		return "", "", false
	}
	name, ok = text(call.Args[0])
	return name, texts(call.Args[2]), ok
}

// texts joins the elements of a []string{...}.
func texts(node ast.Node) string {
	list, ok := node.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	var values []string
	for _, element := range list.Elts {
		value, _ := text(element)
		values = append(values, value)
	}
	return strings.Join(values, ",")
}
