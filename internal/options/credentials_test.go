package options

import (
	"strings"
	"testing"
)

// What is forgotten opens nothing, and does not go unnoticed.
func TestCredentials(t *testing.T) {
	gates := "--feature-gates=oci-cluster-identity=true,oci-credential-translation=true"
	whole := []string{gates, "--oci-principal-secret-namespace=oci", "--oci-credential-namespace=oci"}
	some := "--oci-credential-allowed-namespace=tenant"
	for name, tc := range map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"Whole":       {"it is complete", append(whole, some), ""},
		"Selector":    {"the same", append(whole, "--oci-credential-allowed-selector=team=x"), ""},
		"All":         {"somebody has said so", append(whole, "--oci-credential-allow-all-namespaces"), ""},
		"Alone":       {"use is not known", []string{"--feature-gates=oci-credential-translation=true"}, "needs gate oci-cluster-identity"},
		"Off":         {"nobody looks at it", []string{"--oci-credential-namespace=x"}, ""},
		"Nobody":      {"nobody has said for whom", whole, "say whose clusters may use the identities"},
		"Bad":         {"it cannot be read", append(whole, "--oci-credential-allowed-selector=team in"), "--oci-credential-allowed-selector"},
		"NoNamespace": {"nobody has said where", []string{gates, some}, `"" cannot be the namespace of identities`},
		"OtherNamespace": {
			"keys are not read there", []string{gates, some, "--oci-credential-namespace=oci"}, "--oci-principal-secret-namespace",
		},
		"Rancher": {
			"credentials have their names there",
			[]string{gates, some, "--oci-principal-secret-namespace=cattle-global-data", "--oci-credential-namespace=cattle-global-data"},
			"cannot be in cattle-global-data",
		},
		"Elsewhere": {"another instance works there", append(whole, some, "--namespace=tenant"), "is none that this instance works in"},
		"Refused": {
			"it would be refused", append(whole, "--oci-credential-allow-all-namespaces", "--oci-refuse-open-identities"),
			"--oci-refuse-open-identities refuses",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tc.args...).Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}
