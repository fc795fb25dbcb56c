// Package identitytest makes API keys, principal Secrets and identities for tests. No program needs it.
package identitytest

import (
	"crypto/md5" //nolint:gosec // OCI names API keys by the MD5 of their public half
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"sync"
)

// What the Secret of Data names.
const (
	Tenancy = "ocid1.tenancy.oc1..aaaaaaaatenancy"
	User    = "ocid1.user.oc1..aaaaaaaauser"
)

// keys are made once for all tests of a process: that takes long.
//
//nolint:gochecknoglobals // see above
var one, other = sync.OnceValue(generate), sync.OnceValue(generate)

// One returns the key of Data.
func One() *rsa.PrivateKey { return one() }

// Other returns another key.
func Other() *rsa.PrivateKey { return other() }

func generate() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// PKCS1 returns the key as PEM, in the form that OCI's console shows.
func PKCS1(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// Fingerprint returns the fingerprint that OCI shows for a key.
func Fingerprint(key *rsa.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	sum := md5.Sum(der) //nolint:gosec // see the import
	pairs := make([]string, len(sum))
	for i := range sum {
		pairs[i] = hex.EncodeToString(sum[i : i+1])
	}
	return strings.Join(pairs, ":")
}

// Data returns the data of a principal Secret that works.
func Data() map[string][]byte {
	return map[string][]byte{
		"tenancy": []byte(Tenancy), "user": []byte(User), "region": []byte("us-ashburn-1"),
		"fingerprint": []byte(Fingerprint(&One().PublicKey)), "key": PKCS1(One()),
	}
}
