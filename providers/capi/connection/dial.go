package connection

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// keepAlive is the pause between two probes of a silent connection.
const keepAlive = 30 * time.Second

// Dialer returns a function that connects to the server of a kubeconfig, or to its proxy, within a time.
func Dialer(config *rest.Config, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	if config.Dial == nil {
		return (&net.Dialer{Timeout: timeout, KeepAlive: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return config.Dial(ctx, network, address)
	}
}

// CertificateEnd returns when the client certificate of a configuration expires; zero without one.
func CertificateEnd(config *rest.Config) time.Time {
	if len(config.CertData) == 0 {
		return time.Time{}
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil || pair.Leaf == nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}
