package identity

import (
	"encoding/json"
	"strings"
	"testing"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// The rules of the proposal for every shape that the API server can have stored, as it sends it.
func TestAdmitsStoredShapes(t *testing.T) {
	teamX, none := map[string]string{"team": "x"}, map[string]string{}
	cases := map[string]struct {
		reason    string
		stored    string // the spec's field, "" if it is not there
		namespace Namespace
		want      bool
		wantWhy   string
		// capoci is true where CAPOCI admits the cluster and the proposal does not.
		capoci bool
	}{
		"Absent": {
			"nil is the default and admits nobody", ``, Namespace{"a", none}, false, identityv1.NamespaceNotAllowedReason,
			false,
		},
		"Null": {
			"null is nil", `null`, Namespace{"a", none}, false, identityv1.NamespaceNotAllowedReason, false,
		},
		"EmptyObject": {"the empty object admits everybody", `{}`, Namespace{"a", none}, true, "", false},
		"PrunedTypo": {
			"a misspelled field was dropped by the API server, so this is the empty object", `{}`, Namespace{"b", none},
			true, "", false,
		},
		"NullList": {
			"a nil list admits nobody, says the proposal", `{"list":null}`, Namespace{"a", none}, false,
			identityv1.NamespaceNotAllowedReason, true,
		},
		"NullBoth": {
			"the API server may send both nulls", `{"list":null,"selector":null}`, Namespace{"a", none}, false,
			identityv1.NamespaceNotAllowedReason, true,
		},
		"EmptyList": {
			"an empty list admits nobody", `{"list":[]}`, Namespace{"a", none}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"EmptySelector": {
			"an empty selector admits nobody, not everybody", `{"selector":{}}`, Namespace{"a", teamX}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"EmptyParts": {
			"a selector with empty parts is empty", `{"selector":{"matchLabels":{},"matchExpressions":[]}}`,
			Namespace{"a", teamX}, false, identityv1.NamespaceNotAllowedReason, false,
		},
		"Listed": {"a namespace of the list", `{"list":["a"]}`, Namespace{"a", nil}, true, "", false},
		"NotListed": {
			"another one; a nil selector does not mean all", `{"list":["a"]}`, Namespace{"b", none}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"Star": {
			"names are literal", `{"list":["*"]}`, Namespace{"a", none}, false, identityv1.NamespaceNotAllowedReason,
			false,
		},
		"EmptyName": {
			"an empty name is no wildcard", `{"list":[""]}`, Namespace{"a", none}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"Selected": {
			"the labels fit", `{"selector":{"matchLabels":{"team":"x"}}}`, Namespace{"a", teamX}, true, "", false,
		},
		"NotSelected": {
			"the labels do not fit", `{"selector":{"matchLabels":{"team":"y"}}}`, Namespace{"a", teamX}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"NoLabels": {
			"there are none", `{"selector":{"matchLabels":{"team":"x"}}}`, Namespace{"a", none}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"NoNamespace": {
			"the Namespace is gone; an absent label must not admit it",
			`{"selector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}`, Namespace{"a", nil}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"SelectorOnly": {
			"a null list beside a selector leaves it to the selector",
			`{"list":null,"selector":{"matchLabels":{"team":"x"}}}`, Namespace{"a", teamX}, true, "", false,
		},
		"ListOrSelector": {
			"either is enough", `{"list":["a"],"selector":{"matchLabels":{"team":"x"}}}`, Namespace{"b", teamX}, true,
			"", false,
		},
		"Neither": {
			"neither", `{"list":["a"],"selector":{"matchLabels":{"team":"x"}}}`, Namespace{"b", none}, false,
			identityv1.NamespaceNotAllowedReason, false,
		},
		"BadSelector": {
			"it cannot be read", `{"selector":{"matchExpressions":[{"key":"team","operator":"Is","values":["x"]}]}}`,
			Namespace{"a", teamX}, false, identityv1.SelectorInvalidReason, false,
		},
		"BadSelectorList": {
			"the list comes first",
			`{"list":["a"],"selector":{"matchExpressions":[{"key":"team","operator":"Is","values":["x"]}]}}`,
			Namespace{"a", teamX}, true, "", false,
		},
		"InWithoutValues": {
			"In needs values", `{"selector":{"matchExpressions":[{"key":"team","operator":"In"}]}}`,
			Namespace{"a", teamX}, false, identityv1.SelectorInvalidReason, false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := decoded(t, strings.TrimSuffix(`{"type":"UserPrincipal","allowedNamespaces":`+tc.stored, `,"allowedNamespaces":`)+"}")
			got := admits(stored.AllowedNamespaces, tc.namespace)
			if got.allowed != tc.want || got.reason != tc.wantWhy {
				t.Errorf("%s: got %+v, want allowed %t, reason %q", tc.reason, got, tc.want, tc.wantWhy)
			}
			if !got.allowed && got.message == "" {
				t.Errorf("%s: there is no message", tc.reason)
			}
			if want := tc.want || tc.capoci; AdmittedByCAPOCI(stored.AllowedNamespaces, tc.namespace) != want {
				t.Errorf("%s: CAPOCI admits it: want %t", tc.reason, want)
			}
			if again := reencoded(t, stored); admits(again.AllowedNamespaces, tc.namespace).allowed != tc.want {
				t.Errorf("%s: after encoding it says something else", tc.reason)
			}
		})
	}
}

func decoded(t *testing.T, raw string) identityv1.OCIClusterIdentitySpec {
	t.Helper()
	var spec identityv1.OCIClusterIdentitySpec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// reencoded returns what is read of what a process writes, which must not be wider than what it has read.
func reencoded(t *testing.T, spec identityv1.OCIClusterIdentitySpec) identityv1.OCIClusterIdentitySpec {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, string(raw))
}

func TestAdmitsQuotesParserOfSelector(t *testing.T) {
	var allowed identityv1.AllowedNamespaces
	raw := `{"selector":{"matchExpressions":[{"key":"team","operator":"Resembles","values":["x"]}]}}`
	if err := json.Unmarshal([]byte(raw), &allowed); err != nil {
		t.Fatal(err)
	}
	if got := admits(&allowed, Namespace{Name: "a"}); !strings.Contains(got.message, "Resembles") {
		t.Errorf("the message does not say what is wrong: %s", got.message)
	}
}

func TestBounded(t *testing.T) {
	if got := bounded(strings.Repeat("é", 10_000)); len([]rune(got)) != maxText+3 {
		t.Errorf("got %d characters", len([]rune(got)))
	}
}
