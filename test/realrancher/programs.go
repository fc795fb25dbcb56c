package realrancher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

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
)

// Options say what to start.
type Options struct {
	// Programs is the directory with the programs.
	Programs string
	// Out receives the logs of Rancher and of its agents; nil discards them.
	Out io.Writer
}

// programs are a Rancher whose programs run beside control planes of the test's own.
type programs struct {
	*World

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
	p := &programs{World: &World{}, opts: opts, dir: dir, version: defaultVersion}
	p.installed = p
	said, err := os.ReadFile(filepath.Join(opts.Programs, "version"))
	if err == nil {
		p.version = strings.TrimSpace(string(said))
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a real Rancher: %w", err), p.stop())
	}
	return p.World, nil
}

func (p *programs) start(ctx context.Context) error {
	var err error
	if p.watchdog, err = process.Watch(p.dir); err != nil {
		return err
	}
	crds, err := capiCRDs()
	if err != nil {
		return err
	}
	if p.Management, err = p.plane(ctx, "management", crds); err != nil {
		return err
	}
	if p.Workload, err = p.plane(ctx, "workload", nil); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.startNode(ctx); err != nil {
		return err
	}
	if err := p.createObjects(ctx); err != nil {
		return err
	}
	return p.begin(ctx)
}

func (p *programs) plane(ctx context.Context, name string, crds []*apiextensionsv1.CustomResourceDefinition) (*env.ControlPlane, error) {
	return env.Start(ctx, env.Options{Name: name, CRDs: crds, Address: address, Audit: true})
}

// startNode runs the agents of the workload cluster.
func (p *programs) startNode(ctx context.Context) error {
	source, err := sources()
	if err != nil {
		return err
	}
	// The environment of a container is its Pod's alone.
	program := filepath.Join(p.dir, "agent")
	script := fmt.Sprintf("#!/bin/bash\nexport %s=%q ARCHELON_REAL_PROGRAMS=%q\nexec %q\n", directory, p.dir, p.opts.Programs, filepath.Join(source, "root.sh"))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		return err
	}
	p.node, err = node.Start(ctx, node.Options{
		Cluster: p.Workload, Images: map[string]string{agentImage + ":" + p.version: program}, Namespaces: []string{rancherNamespace, "default", "kube-system"}, Out: p.opts.Out,
	})
	return err
}

// sources is the directory of this package.
func sources() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("finding the directory of test/realrancher")
	}
	return filepath.Dir(file), nil
}

// stop implements installation.
func (p *programs) stop() error {
	var errs []error
	for _, program := range []*process.Process{p.webhook, p.rancher} {
		if program != nil {
			errs = append(errs, end(program))
		}
	}
	if p.node != nil {
		errs = append(errs, p.node.Stop())
	}
	for _, plane := range []*env.ControlPlane{p.Workload, p.Management} {
		if plane != nil {
			errs = append(errs, plane.Stop())
		}
	}
	if p.watchdog != nil {
		errs = append(errs, p.watchdog.End(errors.Join(errs...) == nil))
	}
	return errors.Join(errs...)
}
