package docs_test

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/docs"
)

var conditionsPage = filepath.Join("operations", "conditions.md")

func TestConditionReasons(t *testing.T) {
	code := map[string]string{}
	for _, reason := range constants(parse(t, "api/v1alpha1"), "Reason") {
		code[reason] = ""
	}
	for _, reason := range refusalsOfIdentities(t) {
		code[reason] = ""
	}
	content := read(t, conditionsPage)
	documented := map[string]string{}
	for _, row := range tables(t, conditionsPage, "## Reasons") {
		for _, reason := range row.code(0) {
			if _, twice := documented[reason]; twice {
				t.Errorf("%s documents %s twice", conditionsPage, reason)
			}
			documented[reason] = ""
			if _, anchor, _ := strings.Cut(docs.Reason(reason), "#"); !strings.Contains(content, `<a id="`+anchor+`"></a>`) {
				t.Errorf("%s has no anchor for %s, to which its message leads", conditionsPage, reason)
			}
		}
		for _, cell := range row[1:] {
			if !strings.HasSuffix(cell, ".") {
				t.Errorf("%s: %q, of %s, is no sentence", conditionsPage, cell, row[0])
			}
		}
		if len(row) != 3 || row[1] == "" || row[2] == "" {
			t.Errorf("%s: the row of %s needs a cause and a remedy", conditionsPage, row[0])
		}
	}
	compare(t, conditionsPage, code, documented)
}

// refusalsOfIdentities returns why internal/identity refuses clusters.
func refusalsOfIdentities(t *testing.T) []string {
	t.Helper()
	rules, clusters := constants(parse(t, "identity/api/v1beta2"), "Reason"), constants(parse(t, "api/infrastructure/v1beta2"), "Reason")
	var reasons []string
	for _, refused := range []string{
		"IdentityNotEvaluatedReason", "IdentityNotFoundReason", "IdentityRefInvalidReason", "IdentityOutOfScopeReason",
		"NamespaceNotAllowedReason", "SelectorInvalidReason", "PrincipalTypeUnknownReason", "PrincipalTypeForbiddenReason",
		"SecretReferenceInvalidReason", "SecretNamespaceForbiddenReason",
		"CredentialRejectedReason", "CredentialInvalidReason", "SecretNotFoundReason", // what OCI says of a cluster
	} {
		reasons = append(reasons, rules[refused])
	}
	for _, refused := range []string{
		"VerificationPendingReason", "CompartmentInvalidReason", "CompartmentNotVisibleReason", "CompartmentInOtherTenancyReason",
	} {
		reasons = append(reasons, clusters[refused])
	}
	return reasons
}

func TestReasonsOfManifests(t *testing.T) {
	page, code, documented := filepath.Join("operations", "agent-delivery.md"), map[string]string{}, map[string]string{}
	for _, reason := range constants(parse(t, "internal/agentmanifest"), "Reason") {
		code[reason] = ""
	}
	for _, row := range tables(t, page, "## Condition AgentManifest") {
		for _, reason := range row.code(0) {
			documented[reason] = ""
		}
	}
	compare(t, page, code, documented)
}

func TestReasonsOfMembers(t *testing.T) {
	page, code, documented := filepath.Join("..", "examples", "members", "README.md"), map[string]string{}, map[string]string{}
	for _, reason := range constants(parse(t, "internal/members"), "Reason") {
		code[reason] = ""
	}
	_, list, _ := strings.Cut(read(t, page), "Condition `RancherMembers` is True with `")
	bound, list, _ := strings.Cut(list, "`")
	list, _, _ = strings.Cut(list, "\n\nA member")
	documented[bound] = ""
	for line := range strings.SplitSeq(list, "\n- `") {
		if reason, _, ok := strings.Cut(line, "`: "); ok {
			documented[reason] = ""
		}
	}
	compare(t, page, code, documented)
}

func TestReasonsOfIdentities(t *testing.T) {
	page := filepath.Join("operations", "identity.md")
	content := read(t, page)
	for _, reason := range constants(append(parse(t, "identity/api/v1beta2"), parse(t, "api/infrastructure/v1beta2")...), "Reason") {
		if !strings.Contains(content, "`"+reason+"`") {
			t.Errorf("%s does not mention reason `%s`", page, reason)
		}
	}
}

// Events carry a reason of their own, a reason of the condition, or whatever reason the condition has.
func TestEventReasons(t *testing.T) {
	files := parse(t, "internal/import")
	reasons := constants(parse(t, "api/v1alpha1"), "Reason")
	own := constants(files, "Event")
	code := map[string]string{}
	for _, reason := range own {
		code[reason] = ""
	}
	for _, argument := range eventReasons(files) {
		switch reason := argument.(type) {
		case *ast.Ident:
			if _, ok := own[reason.Name]; !ok {
				t.Errorf("an Event has the reason %s, which is no constant named ...Event", reason.Name)
			}
		case *ast.SelectorExpr:
			if value, ok := reasons[reason.Sel.Name]; ok {
				code[value] = ""
			}
		}
	}
	documented := map[string]string{}
	for _, row := range tables(t, conditionsPage, "## Events") {
		for _, reason := range row.code(0) {
			documented[reason] = ""
		}
	}
	compare(t, conditionsPage, code, documented)
}

// eventReasons returns what is passed as the reason to the function that publishes Events.
func eventReasons(files []*ast.File) []ast.Expr {
	var arguments []ast.Expr
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			if function, ok := call.Fun.(*ast.SelectorExpr); ok && function.Sel.Name == "event" {
				arguments = append(arguments, call.Args[2])
			}
			return true
		})
	}
	return arguments
}

// Every key that is read or written on objects of others is part of the contract with users.
func TestKeys(t *testing.T) {
	page := filepath.Join("operations", "import.md")
	code := map[string]string{}
	for _, suffix := range []string{"Label", "Annotation", "Finalizer"} {
		for _, key := range constants(parse(t, "api/v1alpha1"), suffix) {
			code[key] = ""
		}
	}
	content := read(t, page)
	for _, key := range slices.Sorted(maps.Keys(code)) {
		if !strings.Contains(content, "`"+key+"`") && !strings.Contains(content, "`"+key+": ") {
			t.Errorf("%s does not mention `%s`", page, key)
		}
	}
	for _, row := range tables(t, page, "## Keys") {
		for _, key := range row.code(0) {
			if _, ok := code[key]; !ok {
				t.Errorf("%s lists the key %s, which the code does not have", page, key)
			}
		}
	}
}
