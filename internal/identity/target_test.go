package identity

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
)

// What tenants write leads to hosts of OCI, and to those that an administrator allows, and to no others.
func TestTargetOfHostileClusters(t *testing.T) {
	hosts := []string{"identity.example.com", "identity.example.com:8443"}
	policy := oci.Policy{SecretNamespaces: []string{"a", "vault"}, TrustedNamespaces: []string{"infra"}}
	ca := func(namespace, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	for name, tc := range map[string]struct {
		namespace string
		override  string
		ca        *corev1.SecretReference
		want      string
		trusts    string
		ignored   bool
	}{
		"None":         {},
		"Allowed":      {override: "https://identity.example.com", want: "https://identity.example.com"},
		"UpperCase":    {override: "https://IDENTITY.example.com/", want: "https://identity.example.com"},
		"Port":         {override: "https://identity.example.com:8443", want: "https://identity.example.com:8443"},
		"OtherPort":    {override: "https://identity.example.com:22", ignored: true},
		"Plain":        {override: "http://identity.example.com", ignored: true},
		"Metadata":     {override: "http://169.254.169.254/opc/v2/", ignored: true},
		"Loopback":     {override: "https://127.0.0.1", ignored: true},
		"APIServer":    {override: "https://kubernetes.default.svc", ignored: true},
		"Suffix":       {override: "https://identity.example.com.evil.org", ignored: true},
		"Prefix":       {override: "https://evil-identity.example.com", ignored: true},
		"User":         {override: "https://identity.example.com@evil.org", ignored: true},
		"UserAllowed":  {override: "https://user@identity.example.com", ignored: true},
		"Path":         {override: "https://identity.example.com/other", ignored: true},
		"Query":        {override: "https://identity.example.com?x=", ignored: true},
		"EmptyQuery":   {override: "https://identity.example.com?", ignored: true},
		"Fragment":     {override: "https://identity.example.com#x", ignored: true},
		"Backslash":    {override: `https://identity.example.com\@evil.org`, ignored: true},
		"Opaque":       {override: "https:identity.example.com", ignored: true},
		"NoScheme":     {override: "identity.example.com", ignored: true},
		"Blank":        {override: " https://identity.example.com", ignored: true},
		"LineBreak":    {override: "https://identity.example.com\r\nHost: evil", ignored: true},
		"CAOfOCI":      {ca: ca("a", "ca"), ignored: true},
		"CA":           {override: "https://identity.example.com", ca: ca("", "ca"), want: "https://identity.example.com", trusts: "a/ca"},
		"CAOfOthers":   {override: "https://identity.example.com", ca: ca("vault", "ca"), ignored: true},
		"CAElsewhere":  {override: "https://identity.example.com", ca: ca("kube-system", "ca"), ignored: true},
		"CAOfTrusted":  {namespace: "infra", override: "https://identity.example.com", ca: ca("vault", "ca"), want: "https://identity.example.com", trusts: "vault/ca"},
		"CANotAllowed": {namespace: "b", override: "https://identity.example.com", ca: ca("b", "ca"), ignored: true},
	} {
		overrides := &infrav1.ClientOverrides{IdentityClientURL: tc.override, CertOverride: tc.ca}
		for kind, spec := range map[string]*infrav1.ClusterSpec{
			"OCICluster": {ClientOverrides: overrides}, "OCIManagedCluster": {HostURL: overrides},
		} {
			got, found := targetOf(spec, cmp.Or(tc.namespace, "a"), policy, hosts)
			want := target{}
			if !tc.ignored {
				want.endpoint = tc.want
				want.authorities.Namespace, want.authorities.Name, _ = strings.Cut(tc.trusts, "/")
			}
			if ignored := found.reason == infrav1.ClientOverrideIgnoredReason; ignored != tc.ignored || !ignored && got != want {
				t.Errorf("%s of %s: got %+v, %+v", name, kind, got, found)
			}
			if found.result == rejected || strings.Contains(found.message, "evil") {
				t.Errorf("%s of %s: an override is refused or quoted: %+v", name, kind, found)
			}
		}
	}
}

func TestTargetOfCompartmentsAndRegions(t *testing.T) {
	for compartment, good := range map[string]bool{
		"": true, "ocid1.compartment.oc1..aaaa": true, "ocid1.tenancy.oc1..aaaa": true, "ocidv1:tenancy:oc1:phx:1460406592660:aaaa": true,
		"ocid1.user.oc1..aaaa": false, "ocid1.compartment.oc1..a/../../users": false, "ocid1.compartment.oc1..a?x=y": false,
		"ocid1.compartment.": false, "../users/x": false, "ocid1.compartment.oc1..a%2f..": false, "ocid1.compartment.oc1..a\n": false,
		"ocid1.compartment.oc1.." + strings.Repeat("a", 300): false,
	} {
		got, found := targetOf(&infrav1.ClusterSpec{CompartmentID: compartment}, "a", oci.Policy{}, nil)
		if good != (found.result == "") || good && got.compartment != compartment {
			t.Errorf("compartment %q: got %+v, %+v", compartment, got, found)
		}
	}
	for region, want := range map[string]string{
		"us-ashburn-1": "us-ashburn-1", "iad": "us-ashburn-1", "evil.example.com": "", "us-ashburn-1/x": "", "": "",
		"us-ashburn-1@evil.org": "", "169.254.169.254": "", "us-ashburn-1#": "",
	} {
		if got, _ := targetOf(&infrav1.ClusterSpec{Region: region}, "a", oci.Policy{}, nil); got.region != want {
			t.Errorf("region %q: got %q", region, got.region)
		}
	}
}
