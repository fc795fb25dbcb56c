package docs_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// jsonNames returns the names that the fields of a type have in manifests, each with a prefix.
func jsonNames(prefix string, of reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, prefix+name)
	}
	return names
}

// The table has each field of a HostClaim once, and M where Metal3's released type has the field, too.
func TestTheTableHasEachFieldOfHostClaims(t *testing.T) {
	page, code, documented := filepath.Join("operations", "hostclaim.md"), map[string]string{}, map[string]string{}
	metal3 := slices.Concat(
		jsonNames("spec.", reflect.TypeFor[bmov1.HostClaimSpec]()), jsonNames("status.", reflect.TypeFor[bmov1.HostClaimStatus]()),
	)
	for _, name := range slices.Concat(
		jsonNames("spec.", reflect.TypeFor[metal3v1.HostClaimSpec]()), jsonNames("status.", reflect.TypeFor[metal3v1.HostClaimStatus]()),
	) {
		code[name] = ""
	}
	for _, name := range metal3 {
		if _, ok := code[name]; !ok {
			t.Errorf("Metal3's type has %s, and Archelon's has not", name)
		}
	}
	for _, row := range tables(t, page, "## Where each field comes from") {
		name := strings.Trim(row[0], "`")
		if _, twice := documented[name]; twice {
			t.Errorf("%s documents %s twice", page, name)
		}
		documented[name] = ""
		if len(row) != 3 || !strings.HasSuffix(row[2], ".") {
			t.Errorf("%s: the row of %s needs where it comes from, and a sentence", page, name)
			continue
		}
		from := strings.Split(row[1], ", ")
		if slices.Contains(from, "M") != slices.Contains(metal3, name) {
			t.Errorf("%s: %s is said to be from %s, and Metal3's type has it: %t", page, name, row[1], slices.Contains(metal3, name))
		}
		if slices.ContainsFunc(from, func(each string) bool { return !slices.Contains([]string{"D", "M", "A"}, each) }) {
			t.Errorf("%s: %s is from %q, which is none of D, M and A", page, name, row[1])
		}
	}
	compare(t, page, code, documented)
}
