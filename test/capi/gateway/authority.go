package gateway

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authority is the CA of a workload cluster.
type authority struct {
	pem  []byte
	cert *x509.Certificate
	key  crypto.Signer
}

// readAuthority reads the Secret that CAPI keeps the CA in.
func readAuthority(ctx context.Context, management client.Reader, cluster types.NamespacedName) (*authority, error) {
	secret := &corev1.Secret{}
	if err := management.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-ca"}, secret); err != nil {
		return nil, fmt.Errorf("reading the CA of %s: %w", cluster, err)
	}
	raw := secret.Data[corev1.TLSCertKey]
	parsed, err := certutil.ParseCertsPEM(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the CA of %s: %w", cluster, err)
	}
	private, err := keyutil.ParsePrivateKeyPEM(secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("parsing the key of the CA of %s: %w", cluster, err)
	}
	key, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the CA of %s has a key that cannot sign", cluster)
	}
	return &authority{pem: raw, cert: parsed[0], key: key}, nil
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// serving returns what TLS needs. Clients may come without a certificate: they are refused by an
// answer, as an API server does.
func (a *authority) serving() (*tls.Config, error) {
	template := newTemplate("kube-apiserver", time.Hour*24)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	cert, key, err := a.issue(template)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("loading the serving certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}, nil
}

// issueClient returns certificate and key of an administrator, as PEM.
func (a *authority) issueClient(name string) (cert, key []byte, err error) {
	template := newTemplate(name, 24*time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	template.Subject.Organization = []string{"system:masters"}
	return a.issue(template)
}

// knows reports whether the certificate is one of a client of this cluster.
func (a *authority) knows(cert *x509.Certificate) bool {
	_, err := cert.Verify(x509.VerifyOptions{Roots: a.pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

func newTemplate(name string, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// issue signs a certificate with a new key.
func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	signed, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing a certificate: %w", err)
	}
	if cert, err = certutil.EncodeCertificates(signed); err != nil {
		return nil, nil, err
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return cert, key, err
}
