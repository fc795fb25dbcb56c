package env

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/archelon-io/archelon/test/process"
)

func (c *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// wrap makes the program name from the directory programs known to the watchdog, and returns what to run instead of it.
func (c *ControlPlane) wrap(programs, name string) (string, error) {
	program, err := binary(programs, name)
	if err != nil {
		return "", err
	}
	return process.Wrap(program, c.dir, name)
}

// Suspend freezes the API server: connections are accepted by the kernel and
// nothing is ever answered, like a network that swallows packets. etcd goes on.
func (c *ControlPlane) Suspend() error {
	return c.signalAPIServer(syscall.SIGSTOP)
}

// Resume undoes Suspend. It is harmless when nothing is suspended.
func (c *ControlPlane) Resume() error {
	return c.signalAPIServer(syscall.SIGCONT)
}

func (c *ControlPlane) signalAPIServer(signal syscall.Signal) error {
	if c.existing != nil {
		return errExisting
	}
	raw, err := os.ReadFile(c.path("kube-apiserver.pid"))
	if err != nil {
		return fmt.Errorf("reading the PID of kube-apiserver: %w", err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil {
		return fmt.Errorf("parsing the PID of kube-apiserver: %w", err)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding kube-apiserver: %w", err)
	}
	if err := server.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to kube-apiserver: %w", signal, err)
	}
	return nil
}

// controllers returns those that kube-controller-manager is to run.
func (c *ControlPlane) controllers() []string {
	if c.opts.Address != "" {
		return completeControllers()
	}
	names := []string{"garbage-collector-controller", "namespace-controller"}
	if c.opts.Workloads {
		names = append(names,
			"deployment-controller", "replicaset-controller", "job-controller",
			// A Pod cannot be created without its ServiceAccount, nor started without the CA that each is given.
			"serviceaccount-controller", "root-ca-certificate-publisher-controller")
	}
	return names
}

// startControllerManager does not wait: the controllers have no result but what
// they do to objects, and that is what tests wait for.
func (c *ControlPlane) startControllerManager(programs string) error {
	program, err := c.wrap(programs, "kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	path := c.path("controller-manager.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig of kube-controller-manager: %w", err)
	}
	flags := []string{"--kubeconfig=" + path, "--controllers=" + strings.Join(c.controllers(), ","), "--leader-elect=false", "--secure-port=0"}
	if c.opts.Address != "" {
		further, err := c.completeFlags()
		if err != nil {
			return err
		}
		flags = append(flags, further...)
	}
	cmd := exec.Command(program, flags...) //nolint:noctx // it lives until Stop, not until the start's context ends
	cmd.Stdout, cmd.Stderr = c.opts.Out, c.opts.Out
	c.manager, err = process.Start(cmd)
	return err
}

// lockedWriter lets several programs log to one writer.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write writes to the underlying writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
