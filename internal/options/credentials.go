package options

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/identity/translation"
)

// Credentials are the settings of gate oci-credential-translation.
type Credentials struct {
	// Namespace is where identities and principal Secrets are created.
	Namespace string
	// AllowedNamespaces and AllowedSelector are the namespaces whose clusters may use the identities.
	AllowedNamespaces []string
	AllowedSelector   string
	// AllowAll opens the identities to all namespaces.
	AllowAll bool
	// Region is that of cloud credentials that name none.
	Region string
}

func (c *Credentials) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Namespace, "oci-credential-namespace", c.Namespace,
		"Namespace of what is created for Rancher's cloud credentials, one of --oci-principal-secret-namespace.")
	fs.StringSliceVar(&c.AllowedNamespaces, "oci-credential-allowed-namespace", c.AllowedNamespaces,
		"Namespace whose clusters may use these identities. This, a selector or all namespaces is required.")
	fs.StringVar(&c.AllowedSelector, "oci-credential-allowed-selector", c.AllowedSelector,
		"The same by labels of the Namespace, such as team=x.")
	fs.BoolVar(&c.AllowAll, "oci-credential-allow-all-namespaces", c.AllowAll,
		"Clusters of all namespaces may use these identities.")
	fs.StringVar(&c.Region, "oci-credential-region", c.Region,
		"Region of cloud credentials without annotation archelon.io/oci-region.")
}

// Policy is what the settings say of the identities.
func (c *Credentials) Policy() (translation.Policy, error) {
	return translation.NewPolicy(c.Namespace, c.AllowedNamespaces, c.AllowedSelector, c.AllowAll, c.Region)
}

// validate is called if the gate is on.
func (c *Credentials) validate(o *Options) error {
	var problems []error
	if !o.Gates.Enabled(feature.OCIClusterIdentity) {
		problems = append(problems, fmt.Errorf("gate %s needs gate %s, which says who uses an identity",
			feature.OCICredentialTranslation, feature.OCIClusterIdentity))
	}
	policy, err := c.Policy()
	if err != nil {
		problems = append(problems, fmt.Errorf("--oci-credential-allowed-selector: %w", err))
	} else if err := policy.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("--oci-credential-...: %w", err))
	}
	if !slices.Contains(o.Identity.SecretNamespaces, c.Namespace) {
		problems = append(problems, fmt.Errorf("--oci-credential-namespace %q has to be one of "+
			"--oci-principal-secret-namespace", c.Namespace))
	}
	if scope, err := o.Scope(); err == nil && !scope.Owns(c.Namespace) {
		problems = append(problems, fmt.Errorf("--oci-credential-namespace %q is none that this instance works in",
			c.Namespace))
	}
	if c.AllowAll && o.Identity.RefuseOpen {
		problems = append(problems, errors.New("--oci-credential-allow-all-namespaces creates what "+
			"--oci-refuse-open-identities refuses"))
	}
	return errors.Join(problems...)
}
