package identity

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
)

// target is where OCI is asked about a cluster, and about which compartment. Clusters with the same target share one
// answer. All of it was checked: tenants write what it is made of.
type target struct {
	// secret and version are the state of the principal Secret.
	secret  types.NamespacedName
	version Version
	// compartment is an OCID, empty for none.
	compartment string
	// endpoint is the URL of OCI's Identity API, empty for that of the region. The host is one that the administrator
	// allows.
	endpoint string
	// region is that of the cluster, which counts if neither the Secret nor a default has one.
	region string
	// authorities and trusts are the state of the Secret of certOverride, the zero value for none.
	authorities types.NamespacedName
	trusts      Version
}

// finding is what is known of a cluster at OCI. The zero value is nothing.
type finding struct {
	result string
	// reason is one word of the condition, and message says it to people. They have nothing of the credential.
	reason, message string
}

// pending is the result of a target that OCI was not asked about. The others are those of an answer.
const pending = "pending"

func unknown(reason, message string) finding { return finding{unreachable, reason, message} }

// maxCompartment bounds an OCID.
const maxCompartment = 255

// compartmentPattern fits OCIDs of compartments, and of tenancies, which are the root compartments.
func compartmentPattern() *regexp.Regexp {
	return regexp.MustCompile(`^(ocid1\.(compartment|tenancy)\.|ocidv1:(compartment|tenancy):)[A-Za-z0-9._:-]+$`)
}

func isCompartment(id string) bool {
	return len(id) <= maxCompartment && compartmentPattern().MatchString(id)
}

// targetOf returns what OCI is to be asked about a cluster, by its spec alone: neither the Secret nor the certificates
// are looked at. Without a target, the finding says why nothing is asked. With one, the finding says what was ignored.
func targetOf(spec *infrav1.ClusterSpec, namespace string, policy oci.Policy, hosts []string) (target, finding) {
	to := target{}
	if spec.CompartmentID != "" && !isCompartment(spec.CompartmentID) {
		return to, finding{rejected, infrav1.CompartmentInvalidReason,
			"spec.compartmentId is not the OCID of a compartment (ocid1.compartment.*). Correct it"}
	}
	to.compartment = spec.CompartmentID
	if region, ok := oci.ParseRegion(spec.Region); ok {
		to.region = region
	}
	overrides := spec.Overrides()
	if overrides == nil || overrides.IdentityClientURL == "" && overrides.CertOverride == nil {
		return to, finding{}
	}
	endpoint, ok := allowedEndpoint(overrides.IdentityClientURL, hosts)
	if !ok {
		return to, unknown(infrav1.ClientOverrideIgnoredReason, "The cluster names an address of OCI that Archelon does not ask. "+
			"Ask your administrator to add the host to the Helm value identity.verifyHosts")
	}
	to.endpoint = endpoint
	if overrides.CertOverride == nil {
		return to, finding{}
	}
	if to.authorities, ok = allowedAuthorities(*overrides.CertOverride, namespace, policy); !ok {
		return to, unknown(infrav1.ClientOverrideIgnoredReason, "Archelon does not read the Secret of certOverride. "+
			"Move the Secret to a namespace of the Helm value identity.secretNamespaces, in which the cluster is as well")
	}
	return to, finding{}
}

// allowedEndpoint returns the URL of an override if an administrator allows its host, as it is written in the list.
func allowedEndpoint(override string, hosts []string) (string, bool) {
	if override == "" {
		return "", false
	}
	to, err := url.Parse(override)
	plain := err == nil && to.Scheme == "https" && to.User == nil && to.Opaque == "" &&
		(to.Path == "" || to.Path == "/") && to.RawQuery == "" && !to.ForceQuery && to.Fragment == ""
	if !plain || !slices.Contains(hosts, strings.ToLower(to.Host)) {
		return "", false
	}
	return "https://" + strings.ToLower(to.Host), true
}

// allowedAuthorities returns the Secret of certOverride if the policy allows to read it for a cluster of the namespace.
func allowedAuthorities(ref corev1.SecretReference, namespace string, policy oci.Policy) (types.NamespacedName, bool) {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = namespace
	}
	own := key.Namespace == namespace || slices.Contains(policy.TrustedNamespaces, namespace)
	return key, key.Name != "" && own && slices.Contains(policy.SecretNamespaces, key.Namespace)
}
