package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// wrapper records the PID of a program, which envtest keeps to itself, and then
// becomes the program, to which a link beside the script leads.
const wrapper = `#!/bin/sh
echo $$ >"$0.pid"
exec "$0.bin" "$@"
`

// watchdogScript waits on its standard input. A line says that all is well; the
// end of file without one, that the parent died: then it kills what is left. A
// PID may have been given to somebody else by then, hence the look at the
// arguments: each of the programs has the directory in them.
const watchdogScript = `
read -r line && exit 0
for file in "$1"/*.pid; do
	pid=$(cat "$file") || continue
	if [ -r "/proc/$pid/cmdline" ]; then
		args=$(tr '\0' ' ' <"/proc/$pid/cmdline")
	else
		args=$(ps -o args= -p "$pid")
	fi
	case $args in *"$1"*) kill -9 "$pid" ;; esac
done
rm -rf "$1"
`

func (c *ControlPlane) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// wrap writes a script that runs the program name from the directory programs, and returns its
// path.
func wrap(programs, dir, name string) (string, error) {
	program, err := binary(programs, name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if err := os.Symlink(program, path+".bin"); err != nil {
		return "", fmt.Errorf("linking %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(wrapper), 0o700); err != nil {
		return "", fmt.Errorf("writing the script for %s: %w", name, err)
	}
	return path, nil
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
	raw, err := os.ReadFile(c.path("kube-apiserver.pid"))
	if err != nil {
		return fmt.Errorf("reading the PID of kube-apiserver: %w", err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw)))
	if err != nil {
		return fmt.Errorf("parsing the PID of kube-apiserver: %w", err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding kube-apiserver: %w", err)
	}
	if err := process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to kube-apiserver: %w", signal, err)
	}
	return nil
}

// startControllerManager does not wait: the controllers have no result but what
// they do to objects, and that is what tests wait for.
func (c *ControlPlane) startControllerManager(programs string) error {
	program, err := wrap(programs, c.dir, "kube-controller-manager")
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
	//nolint:noctx // it lives until Stop, not until the start's context ends
	cmd := exec.Command(program,
		"--kubeconfig="+path,
		"--controllers=garbage-collector-controller,namespace-controller",
		"--leader-elect=false",
		"--secure-port=0")
	cmd.Stdout, cmd.Stderr = c.opts.Out, c.opts.Out
	c.manager, err = startProcess(cmd)
	return err
}

// process is a child in a process group of its own, so that Ctrl-C reaches only
// the parent, which then stops its children in order.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// stop ends the process. That it ended by itself before is an error: whatever
// the test saw, it was not the controllers' doing.
func (p *process) stop() error {
	name := filepath.Base(p.cmd.Path)
	select {
	case <-p.done:
		return fmt.Errorf("%s had ended by itself: %w", name, p.err)
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", name, err)
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		return nil
	case <-timeout.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	<-p.done
	return nil
}

// watchdog kills the programs of a control plane when this process dies without
// having stopped them: a test binary that times out or is killed runs no
// deferred functions.
type watchdog struct {
	process *process
	stdin   io.WriteCloser
}

func startWatchdog(dir string) (*watchdog, error) {
	//nolint:noctx // it must outlive everything else
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "archelon-watchdog", dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the watchdog's pipe: %w", err)
	}
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	return &watchdog{process: p, stdin: stdin}, nil
}

// end dismisses the watchdog; unless all is well it kills what is left first.
func (w *watchdog) end(well bool) error {
	if well {
		if _, err := io.WriteString(w.stdin, "done\n"); err != nil {
			return fmt.Errorf("dismissing the watchdog: %w", err)
		}
	}
	// Whoever waits for the watchdog closes the pipe too, once it is gone.
	if err := w.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the watchdog's pipe: %w", err)
	}
	<-w.process.done
	return nil
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
