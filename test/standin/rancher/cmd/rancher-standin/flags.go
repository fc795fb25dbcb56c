package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// systemNamespace is where Rancher lives.
const systemNamespace = "cattle-system"

type flags struct {
	kubeconfig        string
	inCluster         bool
	workloads         []string
	tokenMode         string
	statusSubresource bool
	strictImport      bool
	tlsMode           string
	installCRDs       bool
	listen            string
	serverURL         string
	hosts             []string
	webhookListen     string
	webhookService    string
	controlListen     string
	stateNamespace    string
	agentImage        string
	lightListen       string
	lightURL          string
	lightKeys         string
	realTimings       bool
	timings           string
}

func parse(args []string) (flags, error) {
	var f flags
	set := pflag.NewFlagSet("rancher-standin", pflag.ContinueOnError)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster, as an administrator")
	set.BoolVar(&f.inCluster, "in-cluster", false, "the management cluster is that of the Pod, whose ServiceAccount has to be an administrator; KUBECONFIG takes its place")
	set.StringArrayVar(&f.workloads, "workload", nil, "name=path of the kubeconfig of a workload cluster in which to play the agent; repeatable")
	set.StringVar(&f.tokenMode, "token-mode", string(rancher.TokenPlaceholder), "where tokens are kept: placeholder (Rancher 2.15) or plain (older)")
	set.BoolVar(&f.statusSubresource, "status-subresource", true, "whether v3 Clusters have a status subresource (Rancher 2.15)")
	set.BoolVar(&f.strictImport, "strict-import", true, "whether the import endpoint checks tokens")
	set.StringVar(&f.tlsMode, "agent-tls-mode", "strict", "default of setting agent-tls-mode: strict or system-store")
	set.BoolVar(&f.installCRDs, "install-crds", true, "install or update Rancher's CRDs first")
	set.StringVar(&f.listen, "listen", "127.0.0.1:0", "address of Rancher's HTTPS server")
	set.StringVar(&f.serverURL, "server-url", "", "first value of setting server-url, which agents and importers are told; https:// and the address that is listened on if empty")
	set.StringArrayVar(&f.hosts, "host", nil, "name or IP in the certificate, beside those of --server-url, --listen and loopback; repeatable")
	set.StringVar(&f.webhookListen, "webhook-listen", "127.0.0.1:0", "address of the admission webhook")
	set.StringVar(&f.webhookService, "webhook-service", "", "namespace/name:port of the Service by which the API server finds the webhook; it is told the address if empty")
	set.StringVar(&f.controlListen, "control-listen", "", "address of the control API, over HTTP, with /healthz and /readyz; none if empty, :8080 with --in-cluster")
	set.StringVar(&f.stateNamespace, "state-namespace", "", "namespace in which CA and workload clusters are kept for the next start; none if empty, "+systemNamespace+" with --in-cluster")
	set.StringVar(&f.agentImage, "agent-image", "", "default of setting agent-image; that of the newest Rancher if empty")
	set.StringVar(&f.lightListen, "light-listen", "", "address of workload clusters that consist of little, for many of them; none if empty")
	set.StringVar(&f.lightKeys, "light-keys", "", "file with their CA and client certificate, so that kubeconfigs outlive a restart; new ones if empty")
	set.StringVar(&f.lightURL, "light-url", "", "where others find them, in their kubeconfigs; the address that is listened on if empty")
	set.BoolVar(&f.realTimings, "real-timings", false, "react as slowly as a real Rancher")
	set.StringVar(&f.timings, "timings", "", "delays that differ, as JSON: {\"connect\":\"3s\",\"cleanup\":\"10s\"}")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if (f.kubeconfig == "") == !f.inCluster {
		return f, errors.New("--kubeconfig is required, or --in-cluster instead")
	}
	if f.inCluster {
		for name, into := range map[string]*string{"control-listen": &f.controlListen, "state-namespace": &f.stateNamespace} {
			if !set.Changed(name) {
				*into = map[string]string{"control-listen": ":8080", "state-namespace": systemNamespace}[name]
			}
		}
	}
	return f, nil
}

// management returns the configuration of the management cluster.
func (f flags) management() (*rest.Config, error) {
	path := f.kubeconfig
	if f.inCluster {
		path = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	if path == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the Pod's access to its API server: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the management kubeconfig: %w", err)
	}
	return config, nil
}

// options returns the options of the stand-in.
func (f flags) options(config *rest.Config) (rancher.Options, error) {
	opts := rancher.DefaultOptions(config)
	opts.TokenMode = rancher.TokenMode(f.tokenMode)
	opts.StatusSubresource = f.statusSubresource
	opts.StrictImport = f.strictImport
	opts.AgentTLSMode = f.tlsMode
	opts.Listen, opts.ServerURL, opts.Hosts = f.listen, f.serverURL, f.hosts
	opts.WebhookListen = f.webhookListen
	opts.StateNamespace = f.stateNamespace
	opts.AgentImage = f.agentImage
	if f.realTimings {
		opts.Timings = rancher.RancherTimings()
	}
	if f.timings != "" {
		if err := json.Unmarshal([]byte(f.timings), &opts.Timings); err != nil {
			return opts, fmt.Errorf("--timings: %w", err)
		}
	}
	var err error
	if f.webhookService != "" {
		opts.WebhookService, opts.WebhookPort, err = service(f.webhookService)
	}
	return opts, err
}

// service reads namespace/name:port.
func service(text string) (*types.NamespacedName, int32, error) {
	namespace, found, ok := strings.Cut(text, "/")
	name, port, _ := strings.Cut(found, ":")
	number, err := strconv.ParseInt(port, 10, 32)
	if !ok || namespace == "" || name == "" || err != nil || number < 1 || number > 65535 {
		return nil, 0, fmt.Errorf("--webhook-service %q is not namespace/name:port", text)
	}
	return &types.NamespacedName{Namespace: namespace, Name: name}, int32(number), nil
}
