package capi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// DefaultGetSecret reads the Secret NAME-kubeconfig beside a Cluster, and reduces what it holds to what is safe to use
// although a stranger wrote it: programs to run, auth-providers, files, impersonation, plain http, unverified TLS
// and proxies at local addresses are refused. The reader should not be cached, so that no cache holds credentials.
func DefaultGetSecret(secrets client.Reader) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	return getSecret(secrets, located, kubeconfig.Allow{})
}

// locate says where the kubeconfig of a Cluster is.
type locate func(*clusterv1.Cluster) (kubeconfig.Source, error)

// located is where CAPI's contract has it.
func located(ccl *clusterv1.Cluster) (kubeconfig.Source, error) {
	return kubeconfig.Default(client.ObjectKeyFromObject(ccl)), nil
}

// annotated is where annotations of the Cluster have it.
func annotated(ccl *clusterv1.Cluster) (kubeconfig.Source, error) {
	return kubeconfig.Of(ccl)
}

// moved reports whether annotations of a Cluster have another kubeconfig than before.
func moved(before, after *clusterv1.Cluster) bool {
	return slices.ContainsFunc([]string{kubeconfig.SecretAnnotation, kubeconfig.ContextAnnotation}, func(key string) bool {
		return before.Annotations[key] != after.Annotations[key]
	})
}

func getSecret(
	secrets client.Reader, where locate, allow kubeconfig.Allow,
) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	return func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
		from, err := where(ccl)
		if err != nil {
			return nil, err
		}
		raw, err := from.Read(ctx, secrets)
		if err != nil {
			return nil, err
		}
		access, err := from.Access(raw, allow)
		return access.Config, err
	}
}

// fingerprintOf tells one access from another.
func fingerprintOf(config *rest.Config) string {
	sum := sha256.New()
	for _, part := range []string{
		config.Host, config.APIPath, config.ServerName, proxyOf(config), fmt.Sprint(config.Insecure), config.CAFile,
		config.CertFile, config.KeyFile, string(config.CAData), string(config.CertData), string(config.KeyData),
		config.BearerToken, config.BearerTokenFile, config.Username, config.Password,
	} {
		_, _ = fmt.Fprintf(sum, "%d:", len(part)) // a hash returns no error
		_, _ = io.WriteString(sum, part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func proxyOf(config *rest.Config) string {
	if config.Proxy == nil {
		return ""
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return ""
	}
	proxy, err := config.Proxy(&http.Request{URL: server})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.String()
}
