package selector

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, wanted := range map[string]string{
		"team=blue":                  "",
		"team=":                      "", // What has the label with an empty value.
		"team,!old,env in (a,b)":     "",
		"env notin (a,b),team!=blue": "",
		"":                           "everything",
		"  ":                         "everything",
		"team notin ()":              "has no value",
		"team notin (a,)":            "has no value",
		"team in ()":                 "has no value",
		"team!=":                     "has no value",
		"env=a,team notin ()":        "has no value",
		"a b c":                      "cannot be read",
		"team=not/a/value":           "cannot be read",
	} {
		parsed, err := Parse(text)
		if wanted == "" {
			if err != nil || parsed.Empty() {
				t.Errorf("%q: got %v, %v", text, parsed, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%q: got %v, %v, want an error with %q", text, parsed, err, wanted)
		}
		if (wanted == "everything") != errors.Is(err, ErrEverything) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
