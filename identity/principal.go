package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/common/auth"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Providers are where principals come from that no Secret holds. OCI's SDK asks the instance or Kubernetes for them
// when it is called, so they are functions.
type Providers struct {
	// Process returns the principal of clusters without identityRef. Without it, such clusters have none.
	Process func() (common.ConfigurationProvider, error)
	// Instance returns the principal of the instance that this process runs on.
	Instance func() (common.ConfigurationProvider, error)
	// Workload returns the principal of the ServiceAccount that this process runs as.
	Workload func() (common.ConfigurationProvider, error)
}

// NewProviders returns providers that ask OCI's SDK. The principal of the process is in files of the directory, which
// are called as the keys of a principal Secret; without a directory there is none.
func NewProviders(directory string) Providers {
	p := Providers{Instance: auth.InstancePrincipalConfigurationProvider, Workload: workloadPrincipal}
	if directory != "" {
		p.Process = func() (common.ConfigurationProvider, error) { return readDirectory(directory) }
	}
	return p
}

// provide returns the principal of a type that no Secret holds; the empty type is that of the process.
func (p Providers) provide(principal identityv1.PrincipalType) (common.ConfigurationProvider, error) {
	ask := map[identityv1.PrincipalType]func() (common.ConfigurationProvider, error){
		"": p.Process, identityv1.InstancePrincipal: p.Instance, identityv1.WorkloadPrincipal: p.Workload,
	}[principal]
	if ask != nil {
		provider, err := ask()
		if err != nil {
			return nil, fmt.Errorf("building the OCI principal: %w", err)
		}
		return provider, nil
	}
	refused := &RefusedError{
		Reason:  identityv1.PrincipalUnavailableReason,
		Message: fmt.Sprintf("This controller has no OCI principal of type %s. Use an identity of type %s", principal, identityv1.UserPrincipal),
	}
	if principal == "" {
		refused.Message = "The cluster has no spec.identityRef, and this controller has no OCI principal of its own. Set spec.identityRef"
	}
	return nil, refused
}

// workloadPrincipal returns the principal of the ServiceAccount. CAPOCI sets variables of its own environment for that,
// which changes the principal of everything else in the process; here they have to be there.
func workloadPrincipal() (common.ConfigurationProvider, error) {
	var missing []string
	for _, name := range []string{auth.ResourcePrincipalVersionEnvVar, auth.ResourcePrincipalRegionEnvVar} {
		if os.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf(
			"the principal of the workload needs the environment variables %s", strings.Join(missing, ", "),
		)
	}
	return auth.OkeWorkloadIdentityConfigurationProvider()
}

// maxFile bounds what is read of a file that somebody mounted.
const maxFile = 64 << 10

// readDirectory reads a credential from files.
func readDirectory(directory string) (common.ConfigurationProvider, error) {
	data := map[string][]byte{}
	for _, name := range []string{tenancyKey, userKey, fingerprintKey, privateKeyKey, passphraseKey, regionKey} {
		info, err := os.Stat(filepath.Join(directory, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || info.Size() > maxFile {
			return nil, fmt.Errorf("the file %s of the OCI principal cannot be read, or is too large", name)
		}
		//nolint:gosec // an administrator names the directory, and the names are ours
		if data[name], err = os.ReadFile(filepath.Join(directory, name)); err != nil {
			return nil, fmt.Errorf("reading the file %s of the OCI principal: %w", name, err)
		}
	}
	credential, flaw := ParseCredential(data)
	if flaw != "" {
		return nil, fmt.Errorf(
			"the OCI principal of this process: %s", strings.NewReplacer("the Secret", "its directory", "The Secret", "its directory").Replace(flaw),
		)
	}
	return credential, nil
}
