package identity

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/shard"
)

func TestUnseenBy(t *testing.T) {
	all, named, without := shard.Scope{}, scopeOf(t, []string{"a", "b"}, nil), scopeOf(t, nil, []string{"c"})
	for name, tc := range map[string]struct {
		reason  string
		scope   shard.Scope
		allowed string
		want    Unseen
	}{
		"All":              {"it sees all namespaces", all, `{}`, Unseen{}},
		"AllSelector":      {"the same", all, `{"list":["x"],"selector":{"matchLabels":{"team":"x"}}}`, Unseen{}},
		"Nil":              {"it is for no namespace", named, `null`, Unseen{}},
		"EmptyList":        {"the same", named, `{"list":[]}`, Unseen{}},
		"Mine":             {"it sees these", named, `{"list":["a","b"]}`, Unseen{}},
		"Elsewhere":        {"it does not see one", named, `{"list":["a","c"]}`, Unseen{Namespaces: []string{"c"}}},
		"NotExcluded":      {"it sees what is not excluded", without, `{"list":["a","x"]}`, Unseen{}},
		"Excluded":         {"and nothing else", without, `{"list":["a","c"]}`, Unseen{Namespaces: []string{"c"}}},
		"Open":             {"it is for all", named, `{}`, Unseen{Others: true}},
		"OpenWithout":      {"also for the excluded one", without, `{}`, Unseen{Others: true}},
		"NullList":         {"CAPOCI takes it for all", named, `{"list":null}`, Unseen{Others: true}},
		"NullListSelector": {"CAPOCI goes by the selector", named, `{"list":null,"selector":{}}`, Unseen{}},
		"EmptySelector":    {"it selects none", named, `{"selector":{}}`, Unseen{}},
		"Selector": {
			"any namespace may get the label", without, `{"selector":{"matchLabels":{"team":"x"}}}`, Unseen{Others: true},
		},
		"Both": {
			"the list is not all", named, `{"list":["a","c"],"selector":{"matchLabels":{"team":"x"}}}`,
			Unseen{Namespaces: []string{"c"}, Others: true},
		},
		"BadSelector": {
			"it selects none", named, `{"list":["a"],"selector":{"matchExpressions":[{"key":"team","operator":"Is"}]}}`, Unseen{},
		},
	} {
		var allowed *identityv1.AllowedNamespaces
		if err := json.Unmarshal([]byte(tc.allowed), &allowed); err != nil {
			t.Fatal(err)
		}
		before := allowed.DeepCopy()
		got := UnseenBy(tc.scope, allowed)
		if len(got.Namespaces) == 0 {
			got.Namespaces = nil
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s:\n%s", name, tc.reason, diff)
		}
		if diff := cmp.Diff(before, allowed); diff != "" {
			t.Errorf("%s: it changed what it was given:\n%s", name, diff)
		}
	}
}

// Names in a list can be of any length and number: the API server does not check them.
func TestUnseenIsBounded(t *testing.T) {
	long := make([]string, 50)
	for i := range long {
		long[i] = strings.Repeat("x", 1000)
	}
	if text := (Unseen{Namespaces: long, Others: true}).maybe(); len(text) > 2*maxText {
		t.Errorf("the message has %d characters", len(text))
	}
}
