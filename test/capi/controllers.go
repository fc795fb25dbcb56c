package capi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	certutil "k8s.io/client-go/util/cert"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/process"
)

const (
	// readyTimeout is for all managers. Each syncs its caches before its probe says so.
	readyTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	readyPoll    = 100 * time.Millisecond
)

// manager is a program that hack/capi/build.sh or hack/metal3/build.sh builds, with a manifest of the same name.
type manager struct {
	name  string
	gates string
	// dir has the program.
	dir string
}

// managers are those that are to run. MachinePools are left out, because nothing here makes one.
func managers(ctx context.Context, opts Options) ([]manager, error) {
	dir, err := env.CacheDir(ctx, "capi", "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	all := []manager{{"core", "ClusterTopology=true,MachinePool=false", dir}, {"bootstrap", "MachinePool=false", dir}}
	if opts.Metal3 {
		if dir, err = env.CacheDir(ctx, "metal3", "github.com/metal3-io/baremetal-operator"); err != nil {
			return nil, err
		}
		all = append(all, manager{"provider", "", dir})
	} else {
		all = append(all,
			manager{"controlplane", "ClusterTopology=true,MachinePool=false", dir},
			manager{"infrastructure", "ClusterTopology=true,MachinePool=false", dir},
		)
	}
	for _, m := range all {
		if _, err := os.Stat(filepath.Join(m.dir, m.name)); err != nil {
			return nil, fmt.Errorf("looking for the controllers of Cluster API, which `make capi metal3` builds: %w", err)
		}
	}
	return all, nil
}

// Options say where the controllers work.
type Options struct {
	// Cluster is the management cluster. It needs ControllerManager.
	Cluster *env.ControlPlane
	// Metal3 runs the provider of Metal3 in the place of the development provider, and no control plane provider. It needs
	// the CRDs of the baremetal-operator.
	Metal3 bool
	// Out receives the logs of all programs; nil discards them.
	Out io.Writer
}

// Controllers are the running controllers.
type Controllers struct {
	dir      string
	watchdog *process.Watchdog
	running  []*process.Process
}

// Start installs the CRDs and webhooks of Cluster API, starts its controllers, and waits until they are ready. ctx
// bounds the start, not the life: the caller has to call Stop. Should the caller's process die without it, a
// watchdog ends the programs.
func Start(ctx context.Context, opts Options) (*Controllers, error) {
	all, err := managers(ctx, opts)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "archelon-capi-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for Cluster API: %w", err)
	}
	c := &Controllers{dir: dir}
	if err := c.start(ctx, opts, all); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Cluster API: %w", err), c.Stop())
	}
	return c, nil
}

func (c *Controllers) start(ctx context.Context, opts Options, all []manager) error {
	var err error
	if c.watchdog, err = process.Watch(c.dir); err != nil {
		return err
	}
	ca, err := c.writeFiles(opts.Cluster)
	if err != nil {
		return err
	}
	addresses, err := process.FreeAddresses(3 * len(all))
	if err != nil {
		return err
	}
	var healths []string
	for i, m := range all {
		webhook, diagnostics, health := addresses[3*i], addresses[3*i+1], addresses[3*i+2]
		if err := install(ctx, opts.Cluster.Config, filepath.Join(m.dir, m.name+".yaml"), "https://"+webhook, ca); err != nil {
			return err
		}
		if err := c.run(opts, m, filepath.Join(m.dir, m.name), webhook, diagnostics, health); err != nil {
			return err
		}
		healths = append(healths, health)
	}
	for i, m := range all {
		if err := c.waitFor(ctx, c.running[i], healths[i]); err != nil {
			return fmt.Errorf("waiting for %s: %w", m.name, err)
		}
	}
	if opts.Metal3 {
		return nil
	}
	return prime(ctx, opts.Cluster.Config)
}

// writeFiles writes the kubeconfig and the certificate of the webhooks, and returns the CA of the latter.
func (c *Controllers) writeFiles(cluster *env.ControlPlane) ([]byte, error) {
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		return nil, err
	}
	// The CA comes after the certificate in the same file.
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the webhooks: %w", err)
	}
	for name, content := range map[string][]byte{"kubeconfig": kubeconfig, "tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("writing %s for Cluster API: %w", name, err)
		}
	}
	return cert, nil
}

// run starts a manager.
func (c *Controllers) run(opts Options, m manager, program, webhook, diagnostics, health string) error {
	path, err := process.Wrap(program, c.dir, m.name)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(webhook)
	if err != nil {
		return err
	}
	//nolint:noctx // it lives until Stop, not until the start's context ends
	cmd := exec.Command(path,
		"--webhook-cert-dir="+c.dir, "--webhook-port="+port,
		"--diagnostics-address="+diagnostics, "--insecure-diagnostics=true", "--health-addr="+health)
	if m.gates != "" {
		cmd.Args = append(cmd.Args, "--feature-gates="+m.gates)
	}
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"),
		"POD_NAMESPACE=default", "POD_NAME="+m.name, "POD_UID="+m.name,
		// The host in the endpoints of workload clusters.
		"POD_IP=127.0.0.1",
		// Machines are in memory. Whatever Docker there is, is not the test's.
		"DOCKER_HOST=unix://"+filepath.Join(c.dir, "no-docker.sock"))
	cmd.Stdout, cmd.Stderr = opts.Out, opts.Out
	p, err := process.Start(cmd)
	if err != nil {
		return err
	}
	c.running = append(c.running, p)
	return nil
}

// waitFor waits until a manager is ready, or has ended.
func (c *Controllers) waitFor(ctx context.Context, p *process.Process, health string) error {
	return wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return false, fmt.Errorf("it has ended with exit code %d", p.ExitCode())
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

// Stop ends the controllers and removes their files. What they installed stays.
func (c *Controllers) Stop() error {
	var errs []error
	for _, p := range c.running {
		errs = append(errs, p.Stop(stopTimeout))
	}
	if c.watchdog != nil {
		errs = append(errs, c.watchdog.End(errors.Join(errs...) == nil))
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
