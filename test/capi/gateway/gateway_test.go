package gateway

import (
	"context"
	"crypto"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An API server that is not there yet refuses connections. One that resets them has each client of
// client-go try again at once.
func TestRefusesUntilThereIsAnAPIServer(t *testing.T) {
	g := NewWithT(t)
	cluster := types.NamespacedName{Namespace: "default", Name: "c1"}
	ca, server := apiServer(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c1-ca"}, Data: ca}
	var running atomic.Bool
	gate, err := Start(t.Context(), Options{
		Cluster: cluster, Management: fake.NewClientBuilder().WithObjects(secret).Build(),
		APIServer: func(context.Context, types.NamespacedName) (string, error) {
			if !running.Load() {
				return "", errors.New("no infrastructure yet")
			}
			return server, nil
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(gate.Stop()).To(Succeed()) })
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(gate.Port()))

	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
	_, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	g.Expect(err).To(MatchError(syscall.EADDRINUSE), "the port is nobody else's")

	running.Store(true)
	g.Eventually(func() (string, error) {
		config, err := gate.Config(t.Context())
		if err != nil {
			return "", err
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return "", err
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/api", http.NoBody)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		return response.Header.Get("Served-By"), response.Body.Close()
	}).WithTimeout(time.Minute).Should(Equal("the API server"))
}

func TestStopsWithoutAnAPIServer(t *testing.T) {
	g := NewWithT(t)
	gate, err := Start(t.Context(), Options{
		APIServer: func(context.Context, types.NamespacedName) (string, error) {
			return "", errors.New("no infrastructure yet")
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gate.Stop()).To(Succeed())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(gate.Port())))
	g.Expect(err).NotTo(HaveOccurred(), "the port is free again")
	g.Expect(listener.Close()).To(Succeed())
}

// apiServer returns the CA of a workload cluster, as CAPI keeps it, and the address of an API
// server with a certificate of it.
func apiServer(t *testing.T) (kept map[string][]byte, address string) {
	t.Helper()
	g := NewWithT(t)
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	g.Expect(err).NotTo(HaveOccurred())
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	g.Expect(err).NotTo(HaveOccurred())
	signer, ok := parsed.(crypto.Signer)
	g.Expect(ok).To(BeTrue())
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "kubernetes"}, signer)
	g.Expect(err).NotTo(HaveOccurred())
	raw, err := certutil.EncodeCertificates(cert)
	g.Expect(err).NotTo(HaveOccurred())

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Served-By", "the API server")
	}))
	server.TLS, err = (&authority{pem: raw, cert: cert, key: signer}).serving()
	g.Expect(err).NotTo(HaveOccurred())
	server.StartTLS()
	t.Cleanup(server.Close)
	return map[string][]byte{corev1.TLSCertKey: raw, corev1.TLSPrivateKeyKey: key}, server.Listener.Addr().String()
}
