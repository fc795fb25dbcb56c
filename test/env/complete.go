package env

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// frontProxy is the name under which the API server passes requests on to other API servers.
const frontProxy = "front-proxy"

// configureAggregation lets Pods reach the API server, and the API server others that serve some of its groups.
func (c *ControlPlane) configureAggregation(server *envtest.APIServer) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(c.opts.Address, "0")) //nolint:noctx // it is closed at once
	if err != nil {
		return fmt.Errorf("looking for a free port: %w", err)
	}
	server.SecureServing.Address = c.opts.Address
	server.SecureServing.Port = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // it listens on TCP
	if err := listener.Close(); err != nil {
		return err
	}
	// A certificate that is its own authority is enough for one client.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("creating the key of the front proxy: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: frontProxy}, key)
	if err != nil {
		return fmt.Errorf("creating the certificate of the front proxy: %w", err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("encoding the key of the front proxy: %w", err)
	}
	certificates, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return fmt.Errorf("encoding the certificate of the front proxy: %w", err)
	}
	for path, content := range map[string][]byte{c.path("front-proxy.key"): encoded, c.path("front-proxy.crt"): certificates} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing the certificate of the front proxy: %w", err)
		}
	}
	server.Configure().
		Set("requestheader-client-ca-file", c.path("front-proxy.crt")).
		Set("requestheader-allowed-names", frontProxy).
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("proxy-client-cert-file", c.path("front-proxy.crt")).
		Set("proxy-client-key-file", c.path("front-proxy.key")).
		// No kube-proxy makes the addresses of Services work.
		Set("enable-aggregator-routing", "true")
	return nil
}

// completeControllers are all that need no machines.
func completeControllers() []string {
	return []string{
		"*", "-node-lifecycle-controller", "-node-ipam-controller", "-cloud-node-lifecycle-controller", "-taint-eviction-controller",
		"-horizontal-pod-autoscaler-controller", "-persistentvolume-attach-detach-controller",
	}
}

// completeFlags are what kube-controller-manager needs for tokens in Secrets, which Rancher creates.
func (c *ControlPlane) completeFlags() ([]string, error) {
	root := c.path("root-ca.crt")
	if err := os.WriteFile(root, c.Config.CAData, 0o600); err != nil {
		return nil, fmt.Errorf("writing the CA for kube-controller-manager: %w", err)
	}
	return []string{"--service-account-private-key-file=" + c.path("certs", "sa-signer.key"), "--root-ca-file=" + root}, nil
}
