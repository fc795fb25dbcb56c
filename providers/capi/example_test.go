package capi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	capiv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // it is for those who have not moved on
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/providers/capi"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// One manager is enough: it discovers CAPI Clusters, and runs controllers of the management cluster and of the workload
// clusters. With leader election it engages clusters in the leader only.
func ExampleNew() {
	run := func(ctx context.Context, config *rest.Config, options ctrl.Options) error {
		// Of Secrets the cache keeps metadata, and of those that belong to Clusters only.
		ofClusters, err := labels.Parse(clusterv1.ClusterNameLabel)
		if err != nil {
			return err
		}
		options.Cache.ByObject = map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: ofClusters}}
		local, err := ctrl.NewManager(config, options)
		if err != nil {
			return err
		}
		provider, err := capi.New(local, capi.Options{})
		if err != nil {
			return err
		}
		fleet, err := mcmanager.WithMultiCluster(local, provider, capi.EndSources())
		if err != nil {
			return err
		}
		return fleet.Start(ctx) // It starts the local manager and the provider, too.
	}
	_ = run
}

// A kubeconfig that is in another Secret than CAPI's contract says. Its rotation and deletion are noticed.
func ExampleOptions_source() {
	options := capi.Options{
		Source: func(ccl *clusterv1.Cluster) (kubeconfig.Source, error) {
			return kubeconfig.Source{
				Secret: types.NamespacedName{Namespace: ccl.Namespace, Name: ccl.Name + "-admin"},
				Key:    "value", Author: "the team that runs the cluster",
			}, nil
		},
	}
	from, _ := options.Source(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "eu-1"}})
	fmt.Println(from.Secret)
	// Output: prod/eu-1-admin
}

// Credentials that come from elsewhere. ErrAccessEnded ends the connection at once; with any other error that is no
// Problem and no "not found" it stays.
func ExampleOptions_getSecret() {
	ask := func(context.Context, string) (server, token string, revoked bool, err error) {
		return "", "", true, nil
	}
	options := capi.Options{
		GetSecret: func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
			server, token, revoked, err := ask(ctx, ccl.Name)
			switch {
			case err != nil:
				return nil, err
			case revoked:
				return nil, fmt.Errorf("asking the vault: %w", capi.ErrAccessEnded)
			default:
				return &rest.Config{Host: server, BearerToken: token}, nil
			}
		},
	}
	_, err := options.GetSecret(context.Background(), &clusterv1.Cluster{})
	fmt.Println(errors.Is(err, capi.ErrAccessEnded), err)
	// Output: true asking the vault: the access to the workload cluster has ended
}

// A program that gets credentials is allowed by its path, and with no other arguments than those that are meant.
func ExampleOptions_allowExec() {
	options := capi.Options{
		AllowExec: func(_ *clusterv1.Cluster, program *clientcmdapi.ExecConfig) bool {
			return filepath.Clean(program.Command) == "/usr/local/bin/aws-iam-authenticator" &&
				len(program.Args) == 3 && program.Args[0] == "token" && program.Args[1] == "-i" && len(program.Env) == 0
		},
	}
	fmt.Println(options.AllowExec(nil, &clientcmdapi.ExecConfig{Command: "/usr/local/bin/aws-iam-authenticator", Args: []string{"token", "-i", "eu-1"}}))
	fmt.Println(options.AllowExec(nil, &clientcmdapi.ExecConfig{Command: "/bin/sh"}))
	// Output:
	// true
	// false
}

// A callback that was written for the types of v1beta1.
func ExampleOptions_v1beta1() {
	older := func(_ context.Context, ccl *capiv1beta1.Cluster) (*rest.Config, error) {
		return &rest.Config{Host: "https://" + ccl.Spec.ControlPlaneEndpoint.String()}, nil
	}
	options := capi.Options{
		GetSecret: func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
			converted := &capiv1beta1.Cluster{}
			if err := capiv1beta1.Convert_v1beta2_Cluster_To_v1beta1_Cluster(ccl, converted, nil); err != nil {
				return nil, err
			}
			return older(ctx, converted)
		},
	}
	ccl := &clusterv1.Cluster{}
	ccl.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "eu-1.example.com", Port: 6443}
	config, err := options.GetSecret(context.Background(), ccl)
	fmt.Println(config.Host, err)
	// Output: https://eu-1.example.com:6443 <nil>
}

// Two providers in one process: each has a name, for its controller and its metrics.
func ExampleOptions_severalProviders() {
	provider := func(local ctrl.Manager, name string) (*capi.Provider, error) {
		return capi.New(local, capi.Options{
			Name:    "fleet-" + name,
			Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"provider": name}, metrics.Registry),
		})
	}
	_ = provider
}

// The rest.Config of a cluster leads to it by its transport: what goes by HTTP works with it, also after the kubeconfig
// was replaced.
func ExampleProvider_Get() {
	version := func(ctx context.Context, cl cluster.Cluster) (string, error) {
		config := cl.GetConfig()
		transport, err := rest.TransportFor(config)
		if err != nil {
			return "", err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", nil)
		if err != nil {
			return "", err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", err
		}
		return response.Status, response.Body.Close()
	}
	_ = version
}

// A reconciler tells a cluster that has left from one that does not answer.
func ExampleErrNotConnected() {
	handle := func(err error) string {
		switch {
		case errors.Is(err, multicluster.ErrClusterNotFound):
			return "it has left: nothing to do"
		case errors.Is(err, capi.ErrNotConnected):
			return "it does not answer: return the error, and the request is tried again"
		default:
			return "something else"
		}
	}
	fmt.Println(handle(fmt.Errorf("cluster eu-1: %w", capi.ErrNotConnected)))
	// Output: it does not answer: return the error, and the request is tried again
}

// What is wrong with a kubeconfig has a reason and a message that says what to do.
func ExampleDefaultGetSecret() {
	_, err := kubeconfig.RESTConfig([]byte(`
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://eu-1.example.com:6443"}}]
users: [{name: u, user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`), kubeconfig.Allow{})
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		fmt.Println(p.Reason)
		what, remedy, _ := strings.Cut(p.Message, ". ")
		fmt.Println(what)
		fmt.Println(strings.Split(remedy, " into ")[0])
	}
	// Output:
	// KubeconfigFilePathRefused
	// The kubeconfig refers to files (client-certificate, client-key or tokenFile)
	// Put their contents
}
