package translation

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is missing never becomes an empty object, which opens an identity to all namespaces.
func TestAllowedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		policy   func() (Policy, error)
		want     string // allowedNamespaces
		problems string
	}{
		"List": {
			"names", func() (Policy, error) { return NewPolicy("oci", []string{"a", "b"}, "", false, "") }, `{"list":["a","b"]}`, "",
		},
		"Selector": {
			"labels", func() (Policy, error) { return NewPolicy("oci", nil, "team=x", false, "") },
			`{"selector":{"matchLabels":{"team":"x"}}}`, "",
		},
		"Both": {
			"one of them is enough", func() (Policy, error) { return NewPolicy("oci", []string{"a"}, "team", false, "") },
			`{"list":["a"],"selector":{"matchExpressions":[{"key":"team","operator":"Exists"}]}}`, "",
		},
		"All": {"somebody has said so", func() (Policy, error) { return NewPolicy("oci", nil, "", true, "") }, `{}`, ""},
		"Nothing": {
			"nobody has said anything", func() (Policy, error) { return NewPolicy("oci", nil, "", false, "") }, `null`,
			"say whose clusters",
		},
		"Contradiction": {
			"some, and all", func() (Policy, error) { return NewPolicy("oci", []string{"a"}, "", true, "") }, `{}`, "not both",
		},
		"EmptySelector": {
			"CAPOCI takes it for none", func() (Policy, error) { return NewPolicy("oci", nil, " ", false, "") }, `null`, "selects everything",
		},
		"NoSelector": {
			"it cannot be read", func() (Policy, error) { return NewPolicy("oci", nil, "a in", false, "") }, `null`, "cannot be read",
		},
		"NoNamespace": {
			"no name stands for all", func() (Policy, error) { return NewPolicy("", []string{"a"}, "", false, "") }, `{"list":["a"]}`,
			"cannot be the namespace",
		},
		"SameNamespace": {
			"an identity's Secret would be the credential itself",
			func() (Policy, error) { return NewPolicy(CredentialNamespace, []string{"a"}, "", false, "") }, `{"list":["a"]}`,
			"cannot be in cattle-global-data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := tc.policy()
			if err == nil {
				err = policy.Validate()
			}
			if (err == nil) != (tc.problems == "") || err != nil && !strings.Contains(err.Error(), tc.problems) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.problems)
			}
			raw, err := json.Marshal(policy.Spec("cc-1").AllowedNamespaces)
			if err != nil || string(raw) != tc.want {
				t.Errorf("%s: got %s, %v, want %s", tc.reason, raw, err, tc.want)
			}
		})
	}
}
