package webhook

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityLife is how long a CA lasts. It is replaced after two thirds of it.
	authorityLife = 365 * 24 * time.Hour
	// servingLife is how long a certificate lasts. It is renewed after two thirds of it. A third of a CA's life is longer, so no certificate
	// outlives its CA.
	servingLife = 90 * 24 * time.Hour
	// backdate makes what is new valid for those whose clock is behind.
	backdate = 5 * time.Minute
)

// authority is a CA that can sign.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newAuthority makes a CA.
func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of a CA: %w", err)
	}
	template := &x509.Certificate{
		// Two CAs at the same time have different names, so that verifiers find the right one.
		Subject:               pkix.Name{CommonName: "archelon-webhook-ca-" + now.UTC().Format("20060102150405"), Organization: []string{"archelon"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	certificate, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key}, nil
}

// issue makes a certificate for the names, with its key, in PEM.
func (a *authority) issue(names []string, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of a certificate: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "archelon-webhook", Organization: []string{"archelon"}},
		DNSNames:              names,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(servingLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	signed, err := sign(template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	if certificate, err = cert.EncodeCertificates(signed); err != nil {
		return nil, nil, fmt.Errorf("encoding a certificate: %w", err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, errors.New("encoding the key of a certificate failed")
	}
	return certificate, key, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// able reports whether clients would accept what the CA signs now, for all of its life. Only a trial tells: a CA that somebody else has put into the Secret may be
// limited in its names, its uses or its time.
func (a *authority) able(names []string, now time.Time) bool {
	certificate, key, err := a.issue(names, now)
	if err != nil {
		return false
	}
	pair := parsePair(certificate, key)
	trusted := []*x509.Certificate{a.certificate}
	return pair != nil && verifies(pair, trusted, names, now) && verifies(pair, trusted, names, pair.Leaf.NotAfter)
}

// parseAuthorities returns the certificates of CAs in PEM text, in their order, each once. What is none is left out: others may have written the
// text, and one bad block must not take the good ones along.
func parseAuthorities(text []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return found
		}
		if block.Type != cert.CertificateBlockType {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && certificate.IsCA {
			found = appendNew(found, certificate)
		}
	}
}

// appendNew appends what is not there yet.
func appendNew(list []*x509.Certificate, more ...*x509.Certificate) []*x509.Certificate {
	for _, candidate := range more {
		if !contains(list, candidate) {
			list = append(list, candidate)
		}
	}
	return list
}

func contains(list []*x509.Certificate, wanted *x509.Certificate) bool {
	for _, certificate := range list {
		if certificate.Equal(wanted) {
			return true
		}
	}
	return false
}

// parseKey returns a private key in PEM text, nil if there is none. Errors about keys are not passed on, for they may quote what they are about.
func parseKey(text []byte) crypto.Signer {
	key, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil
	}
	signer, _ := key.(crypto.Signer)
	return signer
}

// parsePair returns a certificate with its key, nil if they do not make a pair.
func parsePair(certificate, key []byte) *tls.Certificate {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil
	}
	return &pair
}

// belongs reports whether a key is that of a certificate.
func belongs(key crypto.Signer, certificate *x509.Certificate) bool {
	if key == nil {
		return false
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	return err == nil && bytes.Equal(public, certificate.RawSubjectPublicKeyInfo)
}

// verifies reports whether a client that trusts the CAs accepts a certificate under all of the names.
func verifies(pair *tls.Certificate, trusted []*x509.Certificate, names []string, now time.Time) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, certificate := range trusted {
		roots.AddCert(certificate)
	}
	for _, der := range pair.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(certificate)
		}
	}
	for _, name := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

// valid reports whether a certificate is within its life.
func valid(certificate *x509.Certificate, now time.Time) bool {
	return !now.Before(certificate.NotBefore) && now.Before(certificate.NotAfter)
}

// renewal is when two thirds of a certificate's life are over.
func renewal(certificate *x509.Certificate) time.Time {
	return certificate.NotBefore.Add(certificate.NotAfter.Sub(certificate.NotBefore) / 3 * 2)
}

// fingerprint tells certificates apart.
type fingerprint [sha256.Size]byte

func fingerprintOf(certificate *x509.Certificate) fingerprint { return sha256.Sum256(certificate.Raw) }
