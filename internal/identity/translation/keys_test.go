package translation

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"
	"sync"
)

// keyPair makes keys once for all tests: that takes long.
type keyPair struct{ one, other *rsa.PrivateKey }

var theKeys = sync.OnceValue(func() keyPair {
	generate := func() *rsa.PrivateKey {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return key
	}
	return keyPair{generate(), generate()}
})

func theKeysList() []*rsa.PrivateKey { return []*rsa.PrivateKey{theKeys().one, theKeys().other} }

func pemOf(key *rsa.PrivateKey) string {
	der := x509.MarshalPKCS1PrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der}))
}

func fingerprintOf(key *rsa.PrivateKey) string {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		panic(err)
	}
	sum := md5.Sum(der)
	pairs := make([]string, len(sum))
	for i := range sum {
		pairs[i] = fmt.Sprintf("%02x", sum[i])
	}
	return strings.Join(pairs, ":")
}

// credentialData is what Rancher stores of a credential that works.
func credentialData(key *rsa.PrivateKey) map[string][]byte {
	return map[string][]byte{
		"ocicredentialConfig-tenancyId":          []byte("ocid1.tenancy.oc1..aaaatenancy"),
		"ocicredentialConfig-userId":             []byte("ocid1.user.oc1..aaaauser"),
		"ocicredentialConfig-fingerprint":        []byte(fingerprintOf(key)),
		"ocicredentialConfig-privateKeyContents": []byte(pemOf(key)),
	}
}

// principalData is what becomes of it.
func principalData(key *rsa.PrivateKey, region string) map[string][]byte {
	data := map[string][]byte{
		"tenancy": []byte("ocid1.tenancy.oc1..aaaatenancy"), "user": []byte("ocid1.user.oc1..aaaauser"),
		"fingerprint": []byte(fingerprintOf(key)), "key": []byte(pemOf(key)),
	}
	if region != "" {
		data["region"] = []byte(region)
	}
	return data
}

// with returns data with changes; what is nil is taken away.
func with(data, changes map[string][]byte) map[string][]byte {
	maps.Copy(data, changes)
	maps.DeleteFunc(data, func(_ string, value []byte) bool { return value == nil })
	return data
}
