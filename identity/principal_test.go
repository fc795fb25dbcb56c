package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oracle/oci-go-sdk/v65/common/auth"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

func TestProcessPrincipalComesFromFiles(t *testing.T) {
	directory := t.TempDir()
	for name, value := range identitytest.Data() {
		if err := os.WriteFile(filepath.Join(directory, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	provider, err := NewProviders(directory).provide("")
	if err != nil {
		t.Fatal(err)
	}
	if tenancy, _ := provider.TenancyOCID(); tenancy != identitytest.Tenancy {
		t.Errorf("got tenancy %s", tenancy)
	}

	if err := os.Remove(filepath.Join(directory, "key")); err != nil {
		t.Fatal(err)
	}
	_, err = NewProviders(directory).provide("")
	if err == nil || !strings.Contains(err.Error(), "its directory lacks key") {
		t.Errorf("without a key: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(directory, "key"), make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = NewProviders(directory).provide(""); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("with a huge key: got %v", err)
	}
}

// CAPOCI sets these variables. Here that would change the principal of everything else in the process.
func TestWorkloadPrincipalChangesNoEnvironment(t *testing.T) {
	names := []string{auth.ResourcePrincipalVersionEnvVar, auth.ResourcePrincipalRegionEnvVar}
	for _, name := range names {
		t.Setenv(name, "") // restores what is there
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	_, err := NewProviders("").provide(identityv1.WorkloadPrincipal)
	if err == nil || !strings.Contains(err.Error(), names[0]) || !strings.Contains(err.Error(), names[1]) {
		t.Errorf("got %v, want what is missing", err)
	}
	for _, name := range names {
		if value, set := os.LookupEnv(name); set {
			t.Errorf("%s is %q now", name, value)
		}
	}
}

func TestProvideWithoutProviders(t *testing.T) {
	for _, principal := range []identityv1.PrincipalType{"", identityv1.InstancePrincipal, identityv1.WorkloadPrincipal, "else"} {
		if _, err := (Providers{}).provide(principal); err == nil {
			t.Errorf("%q: there is a principal", principal)
		}
	}
}
