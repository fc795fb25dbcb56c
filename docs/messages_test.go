package docs_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// speaking are the packages whose texts users read in conditions and Events.
func speaking() []string {
	return []string{
		"internal/agent", "internal/agentmanifest", "internal/edge", "internal/fleet", "internal/hostclaim", "internal/identity",
		"internal/import", "internal/members", "internal/rancher", "internal/workload", "identity", "providers/capi",
	}
}

// What a message must not have: users set Helm values and not flags, have no checkout of the repository, and cannot act
// on what has no name.
func TestMessagesSpeakToUsers(t *testing.T) {
	unwanted := map[string]*regexp.Regexp{
		"a flag":                   regexp.MustCompile("[ (](" + strings.Join(flagsOfManager(t), "|") + `)\b`),
		"a path of the repository": regexp.MustCompile(`(docs|examples)/[a-z/-]+\.md`),
		"no actor, or no measure":  regexp.MustCompile(`(?i)\b(somebody|nobody|yet to|let go|if that lasts|if this lasts)\b`),
	}
	for _, pkg := range speaking() {
		for _, file := range parse(t, pkg) {
			for _, text := range literals(file) {
				if strings.Count(text, " ") < 3 || strings.HasPrefix(text, "--") {
					continue // It is no sentence, or says at start what is wrong with a flag.
				}
				for what, pattern := range unwanted {
					if found := pattern.FindString(text); found != "" {
						t.Errorf("%s: %q has %s: %q", pkg, text, what, found)
					}
				}
			}
		}
	}
}

// flagsOfManager returns the flags that the page lists.
func flagsOfManager(t *testing.T) []string {
	t.Helper()
	var flags []string
	for _, row := range tables(t, filepath.Join("operations", "flags.md"), "## Flags") {
		flags = append(flags, row.code(0)...)
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// A message begins with a capital letter, or with the name of a field. Errors of Go begin with a small one, and
// package outcome makes sentences of those that become messages.
func TestMessagesBeginWithACapitalLetter(t *testing.T) {
	const kubeconfigs = " asks has holds impersonates is lacks leads mixes names refers wants "
	begins := regexp.MustCompile(`^([A-Z%]|spec\.)`)
	checked := 0
	for _, pkg := range speaking() {
		for _, file := range parse(t, pkg) {
			for _, text := range messages(file) {
				checked++
				if pkg == "providers/capi" && strings.Contains(kubeconfigs, " "+strings.SplitN(text, " ", 2)[0]+" ") {
					continue // The function that it is for begins the sentence with "The kubeconfig".
				}
				if !begins.MatchString(text) {
					t.Errorf("%s: the message %q begins with a small letter", pkg, text)
				}
			}
		}
	}
	if checked < 150 {
		t.Errorf("found %d messages, and there are more than 150", checked)
	}
}

// literals returns the strings of a file but for imports and tags.
func literals(file *ast.File) []string {
	var texts []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return node.Tag == nil
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// messages returns how the messages of a file begin: what is in a field Message or Note, and what functions get that
// make an outcome or a problem of it.
func messages(file *ast.File) []string {
	at := map[string]int{
		"Wait": 1, "Poll": 1, "Stall": 1, "wait": 1, "stall": 1, "fail": 1, "waitFor": 1, "refuse": 1, "problem": 1, "Fail": 1, "report": 1,
		"missing": 0, "refusal": 0, "waiting": 0, "invalid": 0,
	}
	var texts []string
	add := func(value ast.Expr) {
		if text := beginning(value); text != "" {
			texts = append(texts, text)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.KeyValueExpr:
			if key, ok := node.Key.(*ast.Ident); ok && (key.Name == "Message" || key.Name == "Note") {
				add(node.Value)
			}
		case *ast.CallExpr:
			if i, ok := at[nameOf(node.Fun)]; ok && i < len(node.Args) {
				add(node.Args[i])
			}
		}
		return true
	})
	return texts
}

func nameOf(function ast.Expr) string {
	switch function := function.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	default:
		return ""
	}
}

// beginning returns the literal that an expression begins with, empty if it begins with none.
func beginning(value ast.Expr) string {
	switch value := value.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(value.Value)
		return text
	case *ast.BinaryExpr:
		return beginning(value.X)
	case *ast.CallExpr:
		if nameOf(value.Fun) == "Sprintf" {
			return beginning(value.Args[0])
		}
	}
	return ""
}
