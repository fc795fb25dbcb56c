package rancher

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// Lifetimes. A CA that is kept has to outlive a cluster of tests; one that is about to end is not taken up again.
const (
	caLifetime = 365 * 24 * time.Hour
	caReserve  = 30 * 24 * time.Hour
)

// certificateAuthority is a private CA.
type certificateAuthority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// authority is what a server needs of its CA: one certificate and the CA's own.
type authority struct {
	pem     []byte // of the CA, without a trailing newline, as Rancher stores it
	serving *tls.Certificate
}

func newCA(name string) (*certificateAuthority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the CA's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name, Organization: []string{"dynamiclistener-org"}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA: %w", err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	return &certificateAuthority{certificate: certificate, key: key}, nil
}

// loadCA reads a CA as encode wrote it.
func loadCA(certPEM, keyPEM []byte) (*certificateAuthority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || pair.Leaf == nil || !pair.Leaf.IsCA {
		return nil, errors.New("reading the CA: it is none")
	}
	return &certificateAuthority{certificate: pair.Leaf, key: key}, nil
}

// ends says whether the CA is too old to be taken up again.
func (c *certificateAuthority) ends() bool { return time.Until(c.certificate.NotAfter) < caReserve }

// encode returns certificate and key as PEM.
func (c *certificateAuthority) encode() (certPEM, keyPEM []byte, err error) {
	raw, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the CA's key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// serve signs a certificate for loopback and for the given names and IPs.
func (c *certificateAuthority) serve(hosts []string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the serving key: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano() + 1),
		Subject:      pkix.Name{CommonName: "rancher-standin"},
		NotBefore:    c.certificate.NotBefore,
		NotAfter:     c.certificate.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
			continue
		}
		leaf.DNSNames = append(leaf.DNSNames, host)
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, c.certificate, key.Public(), c.key)
	if err != nil {
		return nil, fmt.Errorf("signing the serving certificate: %w", err)
	}
	certPEM, _, err := c.encode()
	if err != nil {
		return nil, err
	}
	return &authority{
		pem:     []byte(strings.TrimSpace(string(certPEM))),
		serving: &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key},
	}, nil
}
