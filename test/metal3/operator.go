// Package metal3 runs the real baremetal-operator of Metal3 against a control plane of test/env, in its demo mode:
// without Ironic, with all of its controllers, and with servers that do at once what they are told. `make
// metal3` builds it, and clusterctl.
//
// What is not as in an installation: the operator has the permissions of an administrator; its webhooks do not run;
// servers have the same hardware unless annotation inspect.metal3.io/hardwaredetails says otherwise. A demo server
// reads no Secret of user data, and a reboot is never seen as done. A host is available after some seconds.
package metal3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/process"
)

const (
	readyTimeout = 2 * time.Minute
	readyPoll    = 100 * time.Millisecond
	stopTimeout  = 30 * time.Second
)

// Program returns the path of a program that `make metal3` builds.
func Program(ctx context.Context, name string) (string, error) {
	dir, err := env.CacheDir(ctx, "metal3", "github.com/metal3-io/baremetal-operator")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("looking for %s, which `make metal3` builds: %w", name, err)
	}
	return path, nil
}

// Operator is a running baremetal-operator.
type Operator struct {
	dir      string
	watchdog *process.Watchdog
	running  *process.Process
}

// Start starts the operator for all namespaces of a cluster that has its CRDs, and waits until it is ready. Its log
// goes to out. ctx bounds the start, not the life: the caller has to call Stop.
func Start(ctx context.Context, cluster *env.ControlPlane, out io.Writer) (*Operator, error) {
	program, err := Program(ctx, "baremetal-operator")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "archelon-metal3-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the baremetal-operator: %w", err)
	}
	o := &Operator{dir: dir}
	if err := o.start(ctx, program, cluster, out); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the baremetal-operator: %w", err), o.Stop())
	}
	return o, nil
}

func (o *Operator) start(ctx context.Context, program string, cluster *env.ControlPlane, out io.Writer) error {
	var err error
	if o.watchdog, err = process.Watch(o.dir); err != nil {
		return err
	}
	kubeconfig, err := cluster.LocalKubeconfig()
	if err != nil {
		return err
	}
	path := filepath.Join(o.dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return err
	}
	wrapped, err := process.Wrap(program, o.dir, "baremetal-operator")
	if err != nil {
		return err
	}
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		return err
	}
	//nolint:noctx // it lives until Stop, not until the start's context ends
	cmd := exec.Command(
		wrapped, "-demo-mode", "-webhook-port=0", "-metrics-addr=0", "-health-addr="+addresses[0], "-dev",
		"-kube-api-qps=200", "-kube-api-burst=400", "-controller-concurrency=4",
	)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+path)
	cmd.Stdout, cmd.Stderr = out, out
	if o.running, err = process.Start(cmd); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-o.running.Done():
			return false, fmt.Errorf("it has ended with exit code %d", o.running.ExitCode())
		default:
		}
		return ready(ctx, "http://"+addresses[0]+"/readyz")
	})
}

func ready(ctx context.Context, url string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, nil //nolint:nilerr // it does not listen yet
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

// Stop ends the operator and removes its files.
func (o *Operator) Stop() error {
	var errs []error
	if o.running != nil {
		errs = append(errs, o.running.Stop(stopTimeout))
	}
	if o.watchdog != nil {
		errs = append(errs, o.watchdog.End(errors.Join(errs...) == nil))
	}
	return errors.Join(append(errs, os.RemoveAll(o.dir))...)
}
