package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"maps"
	"testing"

	youmark "github.com/youmark/pkcs8"
)

const thePassword = "correct-horse-battery"

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(tb testing.TB, key any) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der)
}

func legacyEncrypted(tb testing.TB, key *rsa.PrivateKey) []byte {
	tb.Helper()
	//nolint:staticcheck // keys like that are what is tested
	block, err := x509.EncryptPEMBlock(
		rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), []byte(thePassword), x509.PEMCipherAES256,
	)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func encryptedPKCS8(tb testing.TB, key *rsa.PrivateKey) []byte {
	tb.Helper()
	der, err := youmark.MarshalPrivateKey(key, []byte(thePassword), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return pemOf("ENCRYPTED PRIVATE KEY", der)
}

// encryptedDER returns a key that is encrypted with AES, by its looks.
func encryptedDER(tb testing.TB, derivation asn1.ObjectIdentifier, iterations int) []byte {
	tb.Helper()
	marshal := func(value any) []byte {
		der, err := asn1.Marshal(value)
		if err != nil {
			tb.Fatal(err)
		}
		return der
	}
	parameters := func(value any) asn1.RawValue { return asn1.RawValue{FullBytes: marshal(value)} }
	scheme := pbes2Parameters{
		Derivation: pkix.AlgorithmIdentifier{Algorithm: derivation, Parameters: parameters(struct {
			Salt       []byte
			Iterations int
		}{[]byte("salt"), iterations})},
		Encryption: pkix.AlgorithmIdentifier{
			Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, 42}, Parameters: parameters(make([]byte, 16)),
		},
	}
	return marshal(encryptedKeyInfo{
		Algorithm: pkix.AlgorithmIdentifier{
			Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}, Parameters: parameters(scheme),
		},
		Data: make([]byte, 32),
	})
}

func with(data map[string][]byte, changes map[string][]byte) map[string][]byte {
	maps.Copy(data, changes)
	maps.DeleteFunc(data, func(_ string, value []byte) bool { return value == nil })
	return data
}
