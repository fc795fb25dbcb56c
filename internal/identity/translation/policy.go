package translation

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/selector"
)

// Policy is what an administrator says of the identities that are created.
type Policy struct {
	// Namespace is where identities and principal Secrets are created.
	Namespace string
	// AllowedNamespaces and Selector are the namespaces whose clusters may use the identities.
	AllowedNamespaces []string
	Selector          *metav1.LabelSelector
	// AllowAll opens the identities to all namespaces.
	AllowAll bool
	// Region is that of credentials that name none. Optional.
	Region string
}

// NewPolicy returns a policy whose selector is written as for kubectl; empty for none.
func NewPolicy(namespace string, allowed []string, text string, allowAll bool, region string) (Policy, error) {
	p := Policy{Namespace: namespace, AllowedNamespaces: allowed, AllowAll: allowAll, Region: region}
	if text == "" {
		return p, nil
	}
	_, err := selector.Parse(text)
	if err == nil {
		p.Selector, err = metav1.ParseToLabelSelector(text)
	}
	if err != nil {
		return p, fmt.Errorf("the selector of allowed namespaces, %q: %w", text, err)
	}
	return p, nil
}

// Validate says what is wrong with it.
func (p Policy) Validate() error {
	var problems []error
	if len(validation.IsDNS1123Label(p.Namespace)) > 0 {
		problems = append(problems, fmt.Errorf("%q cannot be the namespace of identities", p.Namespace))
	}
	if p.Namespace == CredentialNamespace {
		problems = append(problems, fmt.Errorf("identities cannot be in %s, where the cloud credentials have their names",
			CredentialNamespace))
	}
	limited := len(p.AllowedNamespaces) > 0 || p.Selector != nil
	if limited == p.AllowAll {
		problems = append(problems, errors.New("say whose clusters may use the identities: name or select namespaces, "+
			"or allow all of them, and not both"))
	}
	return errors.Join(problems...)
}

// Spec is that of the identity of a name.
func (p Policy) Spec(name string) identityv1.OCIClusterIdentitySpec {
	return identityv1.OCIClusterIdentitySpec{
		Type:              identityv1.UserPrincipal,
		PrincipalSecret:   corev1.SecretReference{Namespace: p.Namespace, Name: name},
		AllowedNamespaces: p.allowed(),
	}
}

// allowed is nil, which is for no namespace, unless the policy says more. An empty object is for all, so it is not made
// of what is missing.
func (p Policy) allowed() *identityv1.AllowedNamespaces {
	switch {
	case p.AllowAll:
		return &identityv1.AllowedNamespaces{}
	case len(p.AllowedNamespaces) == 0 && p.Selector == nil:
		return nil
	default:
		return &identityv1.AllowedNamespaces{NamespaceList: p.AllowedNamespaces, Selector: p.Selector.DeepCopy()}
	}
}

// regionOf is the region of a credential, empty if nobody names one.
func (p Policy) regionOf(credential *metav1.PartialObjectMetadata) string {
	if region := strings.TrimSpace(credential.Annotations[infrav1.RegionAnnotation]); region != "" {
		return region
	}
	return p.Region
}
