// Command rancher-standin plays Rancher against real API servers, for the demo and for trying
// an importer by hand. It writes what happens, in plain words, to standard error and its URL to
// standard output, and runs until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// startTimeout bounds the installation of CRDs and the start of the stand-in.
const startTimeout = time.Minute

type flags struct {
	kubeconfig        string
	workloads         []string
	tokenMode         string
	statusSubresource bool
	strictImport      bool
	tlsMode           string
	installCRDs       bool
	listen            string
	realTimings       bool
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rancher-standin:", err)
		os.Exit(1)
	}
}

func parse(args []string) (flags, error) {
	var f flags
	set := pflag.NewFlagSet("rancher-standin", pflag.ContinueOnError)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster, as an administrator")
	set.StringArrayVar(&f.workloads, "workload", nil, "name=path of the kubeconfig of a workload cluster in which to play the agent; repeatable")
	set.StringVar(&f.tokenMode, "token-mode", string(rancher.TokenPlaceholder), "where tokens are kept: placeholder (Rancher 2.15) or plain (older)")
	set.BoolVar(&f.statusSubresource, "status-subresource", true, "whether v3 Clusters have a status subresource (Rancher 2.15)")
	set.BoolVar(&f.strictImport, "strict-import", true, "whether the import endpoint checks tokens")
	set.StringVar(&f.tlsMode, "agent-tls-mode", "strict", "default of setting agent-tls-mode: strict or system-store")
	set.BoolVar(&f.installCRDs, "install-crds", true, "install or update Rancher's CRDs first")
	set.StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback address of Rancher's HTTPS server")
	set.BoolVar(&f.realTimings, "real-timings", false, "react as slowly as a real Rancher")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if f.kubeconfig == "" {
		return f, errors.New("--kubeconfig is required")
	}
	return f, nil
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(plainLog(os.Stderr))
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the management kubeconfig: %w", err)
	}
	if err := installCRDs(config, f); err != nil {
		return err
	}
	opts := rancher.DefaultOptions(config)
	opts.TokenMode = rancher.TokenMode(f.tokenMode)
	opts.StatusSubresource = f.statusSubresource
	opts.StrictImport = f.strictImport
	opts.AgentTLSMode = f.tlsMode
	opts.Listen = f.listen
	opts.Logger = plainLog(os.Stderr)
	if f.realTimings {
		opts.Timings = rancher.RancherTimings()
	}
	standin, err := rancher.New(opts)
	if err != nil {
		return err
	}
	defer standin.Stop()
	if err := addWorkloads(standin, f.workloads); err != nil {
		return err
	}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := standin.Start(startCtx); err != nil {
		return err
	}
	fmt.Println(standin.URL())
	<-ctx.Done()
	return nil
}

// installCRDs brings Rancher's CRDs into the management cluster and waits until they are served.
func installCRDs(config *rest.Config, f flags) error {
	if !f.installCRDs {
		return nil
	}
	definitions, err := rancher.CRDs(f.statusSubresource)
	if err != nil {
		return err
	}
	opts := envtest.CRDInstallOptions{CRDs: append([]*apiextensionsv1.CustomResourceDefinition{}, definitions...)}
	if _, err := envtest.InstallCRDs(config, opts); err != nil {
		return fmt.Errorf("installing Rancher's CRDs: %w", err)
	}
	return nil
}

func addWorkloads(standin *rancher.Standin, workloads []string) error {
	for _, workload := range workloads {
		name, path, ok := strings.Cut(workload, "=")
		if !ok || name == "" || path == "" {
			return fmt.Errorf("--workload %q is not name=path", workload)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return fmt.Errorf("reading the kubeconfig of workload cluster %s: %w", name, err)
		}
		if err := standin.AddWorkload(name, config); err != nil {
			return err
		}
	}
	return nil
}
