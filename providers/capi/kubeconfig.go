package capi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
)

// Where CAPI keeps the kubeconfig of a Cluster.
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
)

// DefaultGetSecret reads the Secret NAME-kubeconfig beside a Cluster, and reduces what it holds to what is safe to use
// although a stranger wrote it: programs to run, auth-providers, files, impersonation, plain http, unverified TLS
// and proxies at local addresses are refused. The reader should not be cached, so that no cache holds credentials.
func DefaultGetSecret(secrets client.Reader) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	return getSecret(secrets, workload.Allow{})
}

func getSecret(
	secrets client.Reader, allow workload.Allow,
) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	return func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
		key := client.ObjectKey{Namespace: ccl.Namespace, Name: ccl.Name + kubeconfigSuffix}
		found := &corev1.Secret{}
		err := secrets.Get(ctx, key, found)
		switch {
		case apierrors.IsNotFound(err):
			return nil, missing("Secret %s with the kubeconfig does not exist", key.Name)
		case err != nil:
			return nil, fmt.Errorf("getting kubeconfig Secret %s: %w", key, err)
		case len(found.Data[kubeconfigKey]) == 0:
			return nil, missing("Secret %s holds no kubeconfig under key %s", key.Name, kubeconfigKey)
		}
		return workload.RESTConfig(found.Data[kubeconfigKey], allow)
	}
}

func missing(format string, args ...any) error {
	return &outcome.Problem{
		Kind: outcome.KindWait, Reason: archelonv1.KubeconfigMissingReason, Message: fmt.Sprintf(format, args...),
	}
}

// clusterOfSecret returns the Cluster whose kubeconfig a Secret holds, by its name.
func clusterOfSecret(object client.Object) []types.NamespacedName {
	name, found := strings.CutSuffix(object.GetName(), kubeconfigSuffix)
	if !found || name == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: name}}
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
