package identity

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"

	"github.com/oracle/oci-go-sdk/v65/common"
)

// maxIterations bounds what it costs to try a passphrase: the count is a number in a file that somebody else wrote.
const maxIterations = 1_000_000

// decodeKey reads an RSA key that PEM holds. On failure it says what is wrong with it, without a word of it: errors of
// the libraries are not quoted.
func decodeKey(raw, passphrase []byte) (*rsa.PrivateKey, string) {
	if len(raw) > maxPEM {
		return nil, fmt.Sprintf("key is larger than %d bytes", maxPEM)
	}
	if len(passphrase) > maxPassphrase {
		return nil, fmt.Sprintf("passphrase is longer than %d bytes", maxPassphrase)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, "key is not PEM: copy the whole file of the private key, with its lines BEGIN and END"
	}
	// OCI's SDK takes these three.
	encrypted := false
	switch block.Type {
	case "RSA PRIVATE KEY":
		encrypted = x509.IsEncryptedPEMBlock(block) //nolint:staticcheck // OpenSSL wrote such keys for decades
	case "PRIVATE KEY":
	case "ENCRYPTED PRIVATE KEY":
		encrypted = true
		if !affordable(block.Bytes) {
			return nil, fmt.Sprintf(
				"key is encrypted in a way that is not supported: encrypt it by PBES2 with PBKDF2 and at most %d iterations",
				maxIterations,
			)
		}
	default:
		return nil, "key is no RSA private key"
	}
	if encrypted && len(passphrase) == 0 {
		return nil, "key is encrypted, and passphrase is missing"
	}
	key, err := parseKey(block, passphrase)
	switch {
	case err != nil && encrypted:
		return nil, "passphrase does not decrypt key" + lineBreakNote(passphrase)
	case err != nil:
		return nil, "key is not an RSA private key, or is damaged"
	}
	if bits := key.N.BitLen(); bits < minKeyBits || bits > maxKeyBits {
		return nil, fmt.Sprintf("key must have %d to %d bits", minKeyBits, maxKeyBits)
	}
	return key, ""
}

// parseKey reads a block by its type. OCI's SDK tries each block as an encrypted one first, whatever its type, so it
// only gets those whose price is known.
func parseKey(block *pem.Block, passphrase []byte) (*rsa.PrivateKey, error) {
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return common.PrivateKeyFromBytesWithPassword(pem.EncodeToMemory(block), passphrase)
	case block.Type == "PRIVATE KEY":
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		if ours, ok := key.(*rsa.PrivateKey); ok {
			return ours, nil
		}
		return nil, x509.ErrUnsupportedAlgorithm
	case x509.IsEncryptedPEMBlock(block): //nolint:staticcheck // see above
		der, err := x509.DecryptPEMBlock(block, passphrase) //nolint:staticcheck // see above
		if err != nil {
			return nil, err
		}
		return x509.ParsePKCS1PrivateKey(der)
	default:
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	}
}

func lineBreakNote(passphrase []byte) string {
	if bytes.HasSuffix(passphrase, []byte("\n")) {
		return ", and ends with a line break"
	}
	return ""
}

// What PKCS #8 has of an encrypted key, as far as it is of interest.
type (
	encryptedKeyInfo struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Parameters struct {
		Derivation, Encryption pkix.AlgorithmIdentifier
	}
	pbkdf2Parameters struct {
		Salt       asn1.RawValue
		Iterations int
	}
)

// affordable reports whether a passphrase of an encrypted key can be tried at a price that is known.
func affordable(der []byte) bool {
	pbes2, pbkdf2 := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	var info encryptedKeyInfo
	var scheme pbes2Parameters
	var derivation pbkdf2Parameters
	if _, err := asn1.Unmarshal(der, &info); err != nil || !info.Algorithm.Algorithm.Equal(pbes2) {
		return false
	}
	_, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &scheme)
	if err != nil || !scheme.Derivation.Algorithm.Equal(pbkdf2) {
		return false
	}
	_, err = asn1.Unmarshal(scheme.Derivation.Parameters.FullBytes, &derivation)
	return err == nil && derivation.Iterations > 0 && derivation.Iterations <= maxIterations
}
