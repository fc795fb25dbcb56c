// Command floor is the cheapest importer that there can be, which the benchmark compares the manager with. For each
// CAPI cluster of a labelled namespace it creates a v3 Rancher cluster, reads two Secrets, downloads the manifest of
// the agent and applies each document of it. It takes the flags of the manager, of which it needs two.
//
// It promises nothing: it elects no leader, writes no condition and no Event, remembers nothing, repairs nothing and
// deletes nothing. A second one beside it would import everything twice.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run() error {
	ctrllog.SetLogger(logr.Discard())
	flags := pflag.NewFlagSet("floor", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	kubeconfig := flags.String("kubeconfig", "", "Path of the kubeconfig of the management cluster.")
	health := flags.String("health-probe-bind-address", "", "Address of the readiness probe.")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ready := serve(ctx, *health)
	return newImporter(config).run(ctx, func() { ready.Store(true) })
}

// serve answers the readiness probe until the context ends.
func serve(ctx context.Context, address string) *atomic.Bool {
	ready := &atomic.Bool{}
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.ListenAndServe() }() // Whoever waits for the probe finds out.
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return ready
}
