package workloadserver

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// keyBits is the size of kubeadm's keys, so that a handshake costs what it costs there.
const keyBits = 2048

// pki holds what TLS needs: a CA, a certificate for all servers and one for all clients.
type pki struct {
	pool                               *x509.CertPool
	caPEM, clientCertPEM, clientKeyPEM []byte
	serving                            tls.Certificate
}

// NewKeys makes a CA and a client certificate of it, as PEM, for Options.Keys.
func NewKeys() ([]byte, error) {
	caKey, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("making the CA of the workload clusters: %w", err)
	}
	template := certificate("workload-ca")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, template, template, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("making the CA of the workload clusters: %w", err)
	}
	ca, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("making the CA of the workload clusters: %w", err)
	}
	admin := certificate("kubernetes-admin")
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert, key, err := sign(admin, ca, caKey)
	if err != nil {
		return nil, err
	}
	return slices.Concat(encode("CERTIFICATE", raw), encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(caKey)), cert, key), nil
}

// newPKI makes a certificate for servers on loopback and at the given names and IPs, with what NewKeys has made.
func newPKI(keys []byte, hosts []string) (*pki, error) {
	var blocks [4]*pem.Block
	for i := range blocks {
		if blocks[i], keys = pem.Decode(keys); blocks[i] == nil {
			return nil, fmt.Errorf("the keys of the workload clusters have %d parts, want %d", i, len(blocks))
		}
	}
	ca, err := x509.ParseCertificate(blocks[0].Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the workload clusters: %w", err)
	}
	caKey, err := x509.ParsePKCS1PrivateKey(blocks[1].Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the CA of the workload clusters: %w", err)
	}
	server := certificate("kube-apiserver")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
			continue
		}
		server.DNSNames = append(server.DNSNames, host)
	}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serverCert, serverKey, err := sign(server, ca, caKey)
	if err != nil {
		return nil, err
	}
	p := &pki{
		pool: x509.NewCertPool(), caPEM: pem.EncodeToMemory(blocks[0]),
		clientCertPEM: pem.EncodeToMemory(blocks[2]), clientKeyPEM: pem.EncodeToMemory(blocks[3]),
	}
	p.pool.AddCert(ca)
	if p.serving, err = tls.X509KeyPair(serverCert, serverKey); err != nil {
		return nil, fmt.Errorf("loading the certificate of the workload clusters: %w", err)
	}
	return p, nil
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

// sign returns certificate and key as PEM.
func sign(template, ca *x509.Certificate, caKey crypto.Signer) (cert, key []byte, err error) {
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", template.Subject.CommonName, err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, private.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return encode("CERTIFICATE", raw), encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private)), nil
}

func encode(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}
