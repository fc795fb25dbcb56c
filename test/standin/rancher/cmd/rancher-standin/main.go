// Command rancher-standin plays Rancher against real API servers, for the demo and for trying
// an importer by hand. It writes what happens, in plain words, to standard error and its URL to
// standard output, and runs until it is interrupted.
//
// In a Pod of the management cluster it runs with --in-cluster, its ports set by --listen, --webhook-listen and
// --control-listen, and --server-url and --webhook-service saying how others find them; remote.Remote is the way in
// from outside. A restart is harmless: the CA and the registered workload clusters are kept in --state-namespace, all
// else is in Rancher's own objects. Faults, holds and the list of requests are forgotten, and Rancher is up.
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

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
	"github.com/archelon-io/archelon/test/standin/rancher"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

// startTimeout bounds the installation of CRDs and the start of the stand-in.
const startTimeout = time.Minute

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "rancher-standin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	log := plainLog(os.Stderr)
	ctrllog.SetLogger(log)
	config, err := f.management()
	if err != nil {
		return err
	}
	opts, err := f.options(config)
	if err != nil {
		return err
	}
	opts.Logger = log
	standin, err := rancher.New(opts)
	if err != nil {
		return err
	}
	light, err := startLight(ctx, f)
	if err != nil {
		return err
	}
	if light != nil {
		// After the stand-in, which watches them.
		defer func() { _ = light.Stop() }() // the listener is closed whatever it returns
	}
	defer standin.Stop()
	ready := func() {}
	if f.controlListen != "" {
		control, err := startControl(ctx, f.controlListen, log)
		if err != nil {
			return err
		}
		defer control.stop()
		ready = func() { control.serve(remote.Handler(standin, lights(light))) }
	}
	if err := start(ctx, standin, config, f); err != nil {
		return err
	}
	ready()
	fmt.Println(standin.URL())
	<-ctx.Done()
	return nil
}

// startLight serves light workload clusters if that is asked for.
func startLight(ctx context.Context, f flags) (*workloadserver.Server, error) {
	if f.lightListen == "" {
		return nil, nil
	}
	opts := workloadserver.Options{Listen: f.lightListen, URL: f.lightURL}
	if f.lightKeys != "" {
		var err error
		if opts.Keys, err = os.ReadFile(f.lightKeys); err != nil {
			return nil, fmt.Errorf("reading the keys of light workload clusters: %w", err)
		}
	}
	return workloadserver.StartAt(ctx, opts, func(workloadserver.Request) {})
}

// lights is a server as an interface, which is nil without one.
func lights(server *workloadserver.Server) remote.Light {
	if server == nil {
		return nil
	}
	return server
}

// start does what has to be done before the stand-in is ready.
func start(ctx context.Context, standin *rancher.Standin, config *rest.Config, f flags) error {
	if err := installCRDs(config, f); err != nil {
		return err
	}
	if err := addWorkloads(standin, f.workloads); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return standin.Start(ctx)
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
