package options

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Identity are the settings of gate oci-cluster-identity.
type Identity struct {
	// SecretNamespaces are where principal Secrets may live. Secrets are read there and nowhere else.
	SecretNamespaces []string
	// TrustedNamespaces are where administrators alone can write identities.
	TrustedNamespaces []string
	// RefuseOpen takes an empty allowedNamespaces for no namespace.
	RefuseOpen bool
	// Verify asks OCI whether it accepts an API key.
	Verify bool
	// VerifyClusters asks OCI about each cluster, with its own principal, before it is imported.
	VerifyClusters bool
	// VerifyHosts are the hosts that clientOverrides of clusters may name for that.
	VerifyHosts []string
	// VerifyEndpoint is the URL of OCI's Identity API; by default that of the region.
	VerifyEndpoint string
	// VerifyCAFile has the certificates of authorities to trust there, in PEM; by default those of the system.
	VerifyCAFile string
	// VerifyTimeout bounds one question.
	VerifyTimeout time.Duration
	// DefaultRegion is asked about keys whose Secret names none.
	DefaultRegion string
}

func (i *Identity) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&i.SecretNamespaces, "oci-principal-secret-namespace", i.SecretNamespaces,
		"Namespace where principal Secrets may live, and are read.")
	fs.StringSliceVar(&i.TrustedNamespaces, "oci-trusted-identity-namespace", i.TrustedNamespaces,
		"Namespace where administrators alone can write OCIClusterIdentities. "+
			"These may name Secrets elsewhere, and may be InstancePrincipal or Workload.")
	fs.BoolVar(&i.RefuseOpen, "oci-refuse-open-identities", i.RefuseOpen,
		"Take an empty allowedNamespaces of an OCIClusterIdentity for none, instead of all.")
	fs.BoolVar(&i.Verify, "oci-verify", i.Verify,
		"Ask OCI whether it accepts an API key, when its Secret has changed and once an hour.")
	fs.BoolVar(&i.VerifyClusters, "oci-verify-clusters", i.VerifyClusters,
		"Ask OCI about the compartment of each cluster, with the principal of the cluster, before it is imported.")
	fs.StringSliceVar(&i.VerifyHosts, "oci-verify-host", i.VerifyHosts,
		"Host, or HOST:PORT, that clientOverrides of clusters may name for that. Others are not asked.")
	fs.StringVar(&i.VerifyEndpoint, "oci-verify-endpoint", i.VerifyEndpoint,
		"URL of OCI's Identity API, over HTTPS. Default: that of the region in the Secret.")
	fs.StringVar(&i.VerifyCAFile, "oci-verify-ca-file", i.VerifyCAFile,
		"File with the authorities to trust there, in PEM. Default: those of the system.")
	fs.DurationVar(&i.VerifyTimeout, "oci-verify-timeout", i.VerifyTimeout,
		"Time limit for one question to OCI.")
	fs.StringVar(&i.DefaultRegion, "oci-default-region", i.DefaultRegion,
		"Region to ask in if the Secret names none.")
}

func (i *Identity) validate() error {
	var problems []error
	for option, names := range map[string][]string{
		"oci-principal-secret-namespace": i.SecretNamespaces, "oci-trusted-identity-namespace": i.TrustedNamespaces,
	} {
		for _, name := range names {
			if len(validation.IsDNS1123Label(name)) > 0 {
				problems = append(problems, fmt.Errorf("--%s %q must be the name of a namespace: "+
					"lower-case letters, digits and dashes, at most 63 characters", option, name))
			}
		}
	}
	for n, host := range i.VerifyHosts {
		i.VerifyHosts[n] = strings.ToLower(host)
		if to, err := url.Parse("https://" + host); err != nil || to.Host != host || to.Hostname() == "" {
			problems = append(problems, fmt.Errorf("--oci-verify-host %q must be a host, or HOST:PORT", host))
		}
	}
	if i.VerifyTimeout <= 0 {
		problems = append(problems, errors.New("--oci-verify-timeout must be greater than zero"))
	}
	return errors.Join(problems...)
}
