package identity

import (
	"crypto/md5" //nolint:gosec // OCI names API keys by the MD5 of their public half; nothing is protected by it
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/common"
)

// Keys of a principal Secret.
const (
	tenancyKey     = "tenancy"
	userKey        = "user"
	fingerprintKey = "fingerprint"
	privateKeyKey  = "key"
	passphraseKey  = "passphrase"
	regionKey      = "region"
)

// Bounds of what a Secret may hold. A key of 8192 bits has 6.5 KiB as PEM.
const (
	maxIdentifier = 255
	maxPEM        = 10 << 10
	maxPassphrase = 1 << 10
	minKeyBits    = 2048
	maxKeyBits    = 8192
)

// patterns of what OCI calls things. Old tenancies have OCIDs of the form ocidv1:tenancy:...
type patterns struct{ tenancy, user, fingerprint, region *regexp.Regexp }

func newPatterns() patterns {
	return patterns{
		tenancy:     regexp.MustCompile(`^(ocid1\.tenancy\.|ocidv1:tenancy:)[A-Za-z0-9.:_-]+$`),
		user:        regexp.MustCompile(`^(ocid1\.user\.|ocidv1:user:)[A-Za-z0-9.:_-]+$`),
		fingerprint: regexp.MustCompile(`^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){15}$`),
		// It becomes a part of a host's name, so it has to be a harmless one.
		region: regexp.MustCompile(`^[a-z]{2,}(-[a-z0-9]+)*-[0-9]+$`),
	}
}

// Credential is the API key of an OCI user. It is a ConfigurationProvider of OCI's SDK, and prints as nothing of what
// it holds.
type Credential struct {
	tenancy, user, fingerprint, region string
	// key is in a function, so that what prints or compares fields by reflection, such as a failing assertion, does not
	// reach it.
	key func() *rsa.PrivateKey
}

var _ common.ConfigurationProvider = &Credential{}

// TenancyOCID implements common.ConfigurationProvider.
func (c *Credential) TenancyOCID() (string, error) { return c.tenancy, nil }

// UserOCID implements common.ConfigurationProvider.
func (c *Credential) UserOCID() (string, error) { return c.user, nil }

// KeyFingerprint implements common.ConfigurationProvider.
func (c *Credential) KeyFingerprint() (string, error) { return c.fingerprint, nil }

// Region implements common.ConfigurationProvider. It is empty if the Secret names none: then the cluster has to.
func (c *Credential) Region() (string, error) { return c.region, nil }

// KeyID implements common.ConfigurationProvider.
func (c *Credential) KeyID() (string, error) {
	return c.tenancy + "/" + c.user + "/" + c.fingerprint, nil
}

// PrivateRSAKey implements common.ConfigurationProvider.
func (c *Credential) PrivateRSAKey() (*rsa.PrivateKey, error) { return c.key(), nil }

// AuthType implements common.ConfigurationProvider.
func (c *Credential) AuthType() (common.AuthConfig, error) {
	return common.AuthConfig{AuthType: common.UserPrincipal}, nil
}

const redacted = "OCI user principal (redacted)"

// String implements fmt.Stringer.
func (c *Credential) String() string { return redacted }

// Format implements fmt.Formatter, so that no verb prints fields.
func (c *Credential) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// MarshalJSON has loggers print no fields.
func (c *Credential) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// ParseCredential reads the data of a principal Secret. On failure it says all that is wrong in one text, which quotes
// nothing of the data: people put keys into wrong fields.
func ParseCredential(data map[string][]byte) (*Credential, string) {
	if missing := missingKeys(data); len(missing) > 0 {
		return nil, "The Secret lacks " + strings.Join(missing, ", ") + ". Add what is missing"
	}
	known := newPatterns()
	c := &Credential{
		tenancy: string(data[tenancyKey]), user: string(data[userKey]),
		fingerprint: strings.ToLower(string(data[fingerprintKey])), region: string(data[regionKey]),
	}
	var wrong []string
	for _, field := range []struct {
		name, value string
		pattern     *regexp.Regexp
		want        string
	}{
		{tenancyKey, c.tenancy, known.tenancy, "the OCID of a tenancy (ocid1.tenancy.*)"},
		{userKey, c.user, known.user, "the OCID of a user (ocid1.user.*)"},
		{fingerprintKey, c.fingerprint, known.fingerprint, "16 pairs of hexadecimal digits with colons between them"},
		{regionKey, c.region, known.region, "the identifier or the short name of a region, such as us-ashburn-1 or iad"},
	} {
		switch {
		case field.name == regionKey && (field.value == "" || regionNamed(field.value) != field.value):
		case strings.TrimSpace(field.value) != field.value:
			wrong = append(wrong, field.name+" has white space at one of its ends, such as a line break")
		case len(field.value) > maxIdentifier || !field.pattern.MatchString(field.value):
			wrong = append(wrong, field.name+" is not "+field.want)
		}
	}
	key, flaw := decodeKey(data[privateKeyKey], data[passphraseKey])
	switch {
	case flaw != "":
		wrong = append(wrong, flaw)
	case known.fingerprint.MatchString(c.fingerprint) && fingerprintOf(&key.PublicKey) != c.fingerprint:
		wrong = append(wrong, "fingerprint belongs to another key")
	}
	if len(wrong) > 0 {
		return nil, "In the Secret, " + strings.Join(wrong, "; ") + ". Correct the Secret"
	}
	c.key = func() *rsa.PrivateKey { return key }
	c.region = regionNamed(c.region)
	return c, ""
}

func missingKeys(data map[string][]byte) []string {
	var missing []string
	for _, name := range []string{fingerprintKey, privateKeyKey, tenancyKey, userKey} {
		if len(data[name]) == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// ParseRegion returns the identifier of a region, which may be given by its short name, and whether it can be one. It
// becomes a part of a host's name, so it is refused unless it is harmless.
func ParseRegion(name string) (string, bool) {
	name = regionNamed(name)
	return name, len(name) <= maxIdentifier && newPatterns().region.MatchString(name)
}

// regionNamed returns the identifier of a region that the SDK of OCI has a short name for, such as us-ashburn-1 for
// iad, and any other name as it is. The SDK is asked for short names alone: it looks for others in files.
func regionNamed(name string) string {
	if len(name) != len("iad") {
		return name
	}
	return string(common.StringToRegion(name))
}

// fingerprintOf returns the fingerprint that OCI shows for a key.
func fingerprintOf(key *rsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	sum := md5.Sum(der) //nolint:gosec // see the import
	pairs := make([]string, len(sum))
	for i := range sum {
		pairs[i] = hex.EncodeToString(sum[i : i+1])
	}
	return strings.Join(pairs, ":")
}
