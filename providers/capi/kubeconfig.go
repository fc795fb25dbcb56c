package capi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// DefaultGetSecret reads the Secret NAME-kubeconfig beside a Cluster, and reduces what it holds to what is safe to use
// although a stranger wrote it: programs to run, auth-providers, files, impersonation, plain http, unverified TLS
// and proxies at local addresses are refused. The reader should not be cached, so that no cache holds credentials.
func DefaultGetSecret(secrets client.Reader) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	o := Options{}
	o.completeKubeconfigs(secrets)
	return o.GetSecret
}

// completeKubeconfigs fills in the defaults of what says where kubeconfigs are, and reads them.
func (o *Options) completeKubeconfigs(secrets client.Reader) {
	labelled := o.Source == nil && o.KubeconfigAnnotations
	byDefault := o.Source == nil && !labelled
	ofOthers := o.GetSecret != nil && o.Source == nil
	switch {
	case labelled:
		o.Source = func(ccl *clusterv1.Cluster) (kubeconfig.Source, error) { return kubeconfig.Of(ccl) }
	case byDefault:
		o.Source = func(ccl *clusterv1.Cluster) (kubeconfig.Source, error) {
			return kubeconfig.Default(client.ObjectKeyFromObject(ccl)), nil
		}
	}
	if o.GetSecret == nil {
		o.GetSecret = o.getSecret(secrets)
	}
	o.moved = o.sourceMoved
	if ofOthers {
		o.moved = metadataChanged
	}
	switch {
	case o.ClustersOf != nil:
	case labelled:
		o.ClustersOf = labelledClusters
	case byDefault:
		o.ClustersOf = namedClusters
	}
}

// labelledClusters are those of CAPI's label, and of the name. A Secret of a cluster that holds something else is left
// out.
func labelledClusters(secret client.Object) []types.NamespacedName {
	if kubeconfig.Lacks(secret) {
		return nil
	}
	return kubeconfig.ClustersOf(secret)
}

// namedClusters are those of the name alone.
func namedClusters(secret client.Object) []types.NamespacedName {
	return kubeconfig.ClustersOf(&metav1.ObjectMeta{Namespace: secret.GetNamespace(), Name: secret.GetName()})
}

// sourceMoved reports whether the kubeconfig of a Cluster is elsewhere than before.
func (o *Options) sourceMoved(before, after *clusterv1.Cluster) bool {
	earlier, earlierErr := o.Source(before)
	now, err := o.Source(after)
	return earlier != now || (earlierErr == nil) != (err == nil)
}

// metadataChanged reports whether people or controllers changed a Cluster, beside its status.
func metadataChanged(before, after *clusterv1.Cluster) bool {
	return before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
		!maps.Equal(before.Labels, after.Labels)
}

func (o *Options) getSecret(secrets client.Reader) func(context.Context, *clusterv1.Cluster) (*rest.Config, error) {
	return func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
		from, err := o.Source(ccl)
		if err != nil {
			return nil, err
		}
		from.Name, from.UID = ccl.Name, ccl.UID
		raw, err := from.Read(ctx, secrets)
		if err != nil {
			return nil, err
		}
		access, err := from.Access(raw, kubeconfig.Allow{LocalProxies: o.AllowLocalProxies, Exec: func(program *clientcmdapi.ExecConfig) bool {
			return o.AllowExec != nil && o.AllowExec(ccl, program)
		}})
		return access.Config, err
	}
}

// fingerprintOf tells one access from another: the server, who vouches for it, who asks, and on which way. Functions
// and transports count as the same if they are the same value; the session of a fingerprint keeps them, so that no
// other one comes to their place in memory.
func fingerprintOf(config *rest.Config) string {
	sum := sha256.New()
	for _, part := range []string{
		config.Host, config.APIPath, config.ServerName, proxyOf(config), fmt.Sprint(config.Insecure), config.CAFile,
		config.CertFile, config.KeyFile, string(config.CAData), string(config.CertData), string(config.KeyData),
		config.BearerToken, config.BearerTokenFile, config.Username, config.Password, impersonated(config), programOf(config),
		valueOf(config.Dial), valueOf(config.WrapTransport), valueOf(config.Transport), strings.Join(config.NextProtos, ","),
	} {
		_, _ = fmt.Fprintf(sum, "%d:", len(part)) // a hash returns no error
		_, _ = io.WriteString(sum, part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// impersonated is as whom requests are made, in an order of its own.
func impersonated(config *rest.Config) string {
	as := config.Impersonate
	var extra []string
	for _, key := range slices.Sorted(maps.Keys(as.Extra)) {
		extra = append(extra, fmt.Sprintf("%q=%q", key, as.Extra[key]))
	}
	return fmt.Sprintf("%q %q %q %s", as.UserName, as.UID, as.Groups, extra)
}

// programOf is which program gets credentials.
func programOf(config *rest.Config) string {
	if config.ExecProvider == nil {
		return ""
	}
	program := config.ExecProvider
	return fmt.Sprintf("%q %q %q %q %t", program.Command, program.Args, program.Env, program.APIVersion, program.ProvideClusterInfo)
}

// valueOf tells values of functions and transports apart. The address of a function's code is not enough: closures
// share it. What a variable of a function type holds is the address of the closure.
func valueOf[T any](value T) string {
	variable := reflect.ValueOf(&value)
	switch of := variable.Elem(); {
	case of.IsZero():
		return ""
	case of.Kind() == reflect.Func:
		return fmt.Sprintf("%x", reflect.NewAt(reflect.TypeFor[uintptr](), variable.UnsafePointer()).Elem().Uint())
	case of.Kind() == reflect.Interface && of.Elem().Kind() == reflect.Pointer:
		return fmt.Sprintf("%x", of.Elem().Pointer())
	default:
		return fmt.Sprintf("%T %v", value, value)
	}
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
