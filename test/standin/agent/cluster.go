package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// apiServer returns the configuration with which the agent reaches its own API server.
func apiServer(opts Options) (*rest.Config, error) {
	config := opts.Config
	if config == nil {
		var err error
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("reading the Pod's access to its API server: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	if opts.APIServer != "" {
		host := opts.APIServer
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "443")
		}
		config.Host = "https://" + host
	}
	config.Timeout = requestTimeout
	return config, nil
}

// askCluster asks the agent's own cluster what Rancher wants to know of it. There may be no kubelet, so an empty
// cluster counts as one of one node.
func askCluster(ctx context.Context, opts Options) (Params, error) {
	config, err := apiServer(opts)
	if err != nil {
		return Params{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Params{}, fmt.Errorf("creating a client for the API server: %w", err)
	}
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return Params{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	version, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info)
	if err != nil {
		return Params{}, fmt.Errorf("converting the version of the API server: %w", err)
	}
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return Params{}, fmt.Errorf("asking the API server for its identity: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return Params{}, fmt.Errorf("asking the API server for its nodes: %w", err)
	}
	access, err := accessOf(config)
	return Params{
		Cluster:   access,
		SystemUID: string(system.UID),
		Version:   version,
		Nodes:     max(1, int64(len(nodes.Items))),
	}, err
}

// accessOf returns how others reach the API server with the agent's identity.
func accessOf(config *rest.Config) (Access, error) {
	out := Access{Address: config.Host, Token: config.BearerToken}
	if parsed, err := url.Parse(config.Host); err == nil && parsed.Host != "" {
		out.Address = parsed.Host
	}
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return out, fmt.Errorf("reading the CA of the API server: %w", err)
		}
	}
	out.CACert = base64.StdEncoding.EncodeToString(ca)
	return out, nil
}
