package realrancher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/node"
	"github.com/archelon-io/archelon/test/process"
)

const (
	// address is that of the bridge in run.sh.
	address = "10.98.0.1"
	// directory is the variable by which run.sh says that it has prepared everything, and where files may be.
	directory = "ARCHELON_REAL_RANCHER"
	// defaultVersion is that of the programs, unless the file version beside them has another one.
	defaultVersion = "v2.15.0"
	agentImage     = "rancher/rancher-agent"
	// startTimeout is how long Rancher may take to do what it does when it starts.
	startTimeout = 4 * time.Minute
	stopTimeout  = 30 * time.Second
)

// Options say what to start.
type Options struct {
	// Programs is the directory with the programs.
	Programs string
	// Out receives the logs of Rancher and of its agents; nil discards them.
	Out io.Writer
}

// World is a management cluster with Rancher and one workload cluster, in which agents run.
type World struct {
	Management *env.ControlPlane
	Workload   *env.ControlPlane
	// Client is an administrator's of the management cluster, without a cache.
	Client client.Client

	opts     Options
	dir      string
	version  string
	watchdog *process.Watchdog
	node     *node.Node
	rancher  *process.Process
	webhook  *process.Process
	// turtles is whether Rancher starts with its feature turtles.
	turtles bool
}

// Start starts all of it, which takes most of a minute. The caller has to run below run.sh, and to call Stop.
func Start(ctx context.Context, opts Options) (*World, error) {
	dir := os.Getenv(directory)
	if dir == "" {
		return nil, errors.New("test/realrancher works below test/realrancher/run.sh only: make test-e2e-rancher does that")
	}
	for _, program := range []string{"bin/rancher", "bin/webhook", "podbin/agent", "podbin/run.sh", "podbin/kubectl"} {
		if _, err := os.Stat(filepath.Join(opts.Programs, program)); err != nil {
			return nil, fmt.Errorf("looking for a program of Rancher: %w", err)
		}
	}
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	w := &World{opts: opts, dir: dir, version: defaultVersion}
	said, err := os.ReadFile(filepath.Join(opts.Programs, "version"))
	if err == nil {
		w.version = strings.TrimSpace(string(said))
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a real Rancher: %w", err), w.Stop())
	}
	return w, nil
}

func (w *World) start(ctx context.Context) error {
	var err error
	if w.watchdog, err = process.Watch(w.dir); err != nil {
		return err
	}
	crds, err := env.CAPICRDs("clusters", "clusterclasses", "machines", "machinesets", "machinedeployments", "machinehealthchecks", "machinepools") // Rancher waits for most of them.
	if err != nil {
		return err
	}
	if w.Management, err = w.plane(ctx, "management", crds); err != nil {
		return err
	}
	if w.Workload, err = w.plane(ctx, "workload", nil); err != nil {
		return err
	}
	known, err := scheme.New()
	if err != nil {
		return err
	}
	if w.Client, err = client.New(w.Management.Config, client.Options{Scheme: known}); err != nil {
		return err
	}
	if err := w.startNode(ctx); err != nil {
		return err
	}
	if err := w.createObjects(ctx); err != nil {
		return err
	}
	if err := w.startRancher(ctx); err != nil {
		return err
	}
	return w.startWebhook(ctx)
}

func (w *World) plane(ctx context.Context, name string, crds []*apiextensionsv1.CustomResourceDefinition) (*env.ControlPlane, error) {
	return env.Start(ctx, env.Options{Name: name, CRDs: crds, Address: address, Audit: true})
}

// startNode runs the agents of the workload cluster.
func (w *World) startNode(ctx context.Context) error {
	source, err := sources()
	if err != nil {
		return err
	}
	// The environment of a container is its Pod's alone.
	program := filepath.Join(w.dir, "agent")
	script := fmt.Sprintf("#!/bin/bash\nexport %s=%q ARCHELON_REAL_PROGRAMS=%q\nexec %q\n", directory, w.dir, w.opts.Programs, filepath.Join(source, "root.sh"))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		return err
	}
	w.node, err = node.Start(ctx, node.Options{
		Cluster: w.Workload, Images: map[string]string{agentImage + ":" + w.version: program}, Namespaces: []string{rancherNamespace, "default", "kube-system"}, Out: w.opts.Out,
	})
	return err
}

// await tries until what is asked for is so, and returns the last error if it does not get so in time.
func await(ctx context.Context, what string, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Stop ends everything that Start started.
func (w *World) Stop() error {
	var errs []error
	for _, program := range []*process.Process{w.webhook, w.rancher} {
		if program != nil {
			errs = append(errs, end(program))
		}
	}
	if w.node != nil {
		errs = append(errs, w.node.Stop())
	}
	for _, plane := range []*env.ControlPlane{w.Workload, w.Management} {
		if plane != nil {
			errs = append(errs, plane.Stop())
		}
	}
	if w.watchdog != nil {
		errs = append(errs, w.watchdog.End(errors.Join(errs...) == nil))
	}
	return errors.Join(errs...)
}
