package workload

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/test/problem"
)

const (
	credential  = "s3cret"
	secretToken = credential + "-bearer-token-of-the-workload"
)

// certificate is self-signed, so it is its own CA.
type certificate struct {
	tls             tls.Certificate
	certPEM, keyPEM []byte
}

func newCertificate(tb testing.TB, host string, end time.Time) certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: end,
		IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return certificate{
		tls:     tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
}

// apiServer plays the API of a workload cluster that may be broken or hostile.
type apiServer struct {
	*httptest.Server
	certificate certificate
	requests    atomic.Int64
	opened      atomic.Int64
	closed      chan struct{}
}

func newAPIServer(t *testing.T, handler http.HandlerFunc) *apiServer {
	t.Helper()
	return newAPIServerWith(t, newCertificate(t, "127.0.0.1", time.Now().Add(time.Hour)), handler)
}

func newAPIServerWith(t *testing.T, c certificate, handler http.HandlerFunc) *apiServer {
	t.Helper()
	s := &apiServer{certificate: c, closed: make(chan struct{}, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		handler(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{c.tls}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.opened.Add(1)
		case http.StateClosed:
			s.closed <- struct{}{}
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// written returns a kubeconfig for a server, changed as the test wants it.
func written(tb testing.TB, server string, ca []byte, change ...func(*api.Cluster, *api.AuthInfo)) []byte {
	tb.Helper()
	cluster := &api.Cluster{Server: server, CertificateAuthorityData: ca}
	user := &api.AuthInfo{Token: secretToken}
	for _, c := range change {
		c(cluster, user)
	}
	raw, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"workload": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"admin": user},
		Contexts:       map[string]*api.Context{"admin@workload": {Cluster: "workload", AuthInfo: "admin"}},
		CurrentContext: "admin@workload",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

var testKubeconfig = kubeconfig.Source{Secret: types.NamespacedName{Namespace: "tenant", Name: "workload"}, Key: "value", Author: "its owner"}

func kubeconfigSecret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "workload"}, Data: data}
}

// clientsOf returns clients that are patient, unless the test wants to see a timeout.
func clientsOf(t *testing.T, o Options, secrets ...client.Object) (*Clients, client.Client) {
	t.Helper()
	o.Timeout, o.DialTimeout = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.DialTimeout, time.Minute)
	management := fake.NewClientBuilder().WithObjects(secrets...).Build()
	clients, err := NewClients(management, o)
	if err != nil {
		t.Fatal(err)
	}
	return clients, management
}

// connect returns the client for a kubeconfig.
func connect(t *testing.T, o Options, raw []byte) *Client {
	t.Helper()
	clients, _ := clientsOf(t, o, kubeconfigSecret(map[string][]byte{"value": raw}))
	c, err := clients.Get(t.Context(), testKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clients.Forget(testKubeconfig) })
	return c
}

// getDeployment asks for one object, and findJob for those of a kind.
func getDeployment(ctx context.Context, c *Client) error {
	_, err := c.Get(ctx, appsv1.SchemeGroupVersion.WithKind("Deployment"), client.ObjectKey{Namespace: "a", Name: "b"}, &struct{}{})
	return err
}

func findJob(ctx context.Context, c *Client) error {
	_, err := c.Find(ctx, batchv1.SchemeGroupVersion.WithKind("Job"), labels.Set{"a": "b"}, func(*unstructured.Unstructured) bool { return false })
	return err
}

// wantProblem fails the test unless err is a Problem of the kind and reason that shows no credential.
func wantProblem(t *testing.T, err error, kind outcome.Kind, reason string) {
	t.Helper()
	problem.Want(t, err, kind, reason, credential)
}

// wantNoSecret fails the test when a value shows a credential.
func wantNoSecret(t *testing.T, value any) {
	t.Helper()
	problem.Hides(t, value, credential)
}
