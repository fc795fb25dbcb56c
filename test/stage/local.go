package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/process"
)

// stopTimeout is how long a manager may take to stop after SIGTERM.
const stopTimeout = 2 * time.Minute

// again is in the sentence with which a manager ends to be started again.
const again = "the process ends, to be started again"

// local is a manager that runs as a program of this machine. As the kubelet would, it starts the program again
// that has said it ends for that.
type local struct {
	health  string
	dir     string
	command func() *exec.Cmd
	logs    *buffer
	done    chan struct{}
	err     error // set before done is closed

	mu     sync.Mutex
	cmd    *exec.Cmd
	ending bool // it is not to be started again
}

func (s *Stage) startManager(config *rest.Config, binary string, out io.Writer, args ...string) (*Manager, error) {
	if s.Through != nil {
		config = s.Through(config)
	}
	if s.Launch != nil {
		launched, err := s.Launch(config, args)
		if err != nil {
			return nil, err
		}
		return &Manager{running: launched}, nil
	}
	kubeconfig, err := s.Management.KubeconfigFor(config)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "archelon-manager-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ports, err := process.FreeAddresses(2)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m := &local{health: "http://" + ports[0], dir: dir, logs: &buffer{also: out}, done: make(chan struct{})}
	// The last of a flag counts.
	own := []string{"--kubeconfig=" + path, "--health-probe-bind-address=" + ports[0]}
	metrics := ""
	if !slices.Contains(args, "--metrics-bind-address=0") { // The chart's way to say that there are none.
		metrics = "https://" + ports[1] + "/metrics"
		own = append(own, "--metrics-bind-address="+ports[1])
	}
	m.command = func() *exec.Cmd {
		cmd := exec.Command(binary, slices.Concat(args, own)...) //nolint:noctx // it outlives the call; Stop and Kill end it
		cmd.Stdout, cmd.Stderr = m.logs, m.logs
		// The garbage collector is the program's own, as it is released, not that of tests.
		cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GOGC=") })
		// A Ctrl-C in the terminal is for whoever started the stage, who then stops the manager.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return cmd
	}
	if _, err := m.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go m.keep()
	return &Manager{Health: m.health, Metrics: metrics, running: m}, nil
}

// start starts the program, unless it is not to run any more.
func (m *local) start() (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending {
		return false, nil
	}
	m.cmd = m.command()
	return true, m.cmd.Start()
}

// keep starts the program again each time that it ends to be started again.
func (m *local) keep() {
	defer close(m.done)
	for {
		said := len(m.logs.String())
		if m.err = m.current().Wait(); m.err != nil || !strings.Contains(m.logs.String()[said:], again) {
			return
		}
		var started bool
		if started, m.err = m.start(); !started || m.err != nil {
			return
		}
	}
}

func (m *local) current() *exec.Cmd {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cmd
}

// signal sends the last signal that the program gets.
func (m *local) signal(signal os.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending = true
	return m.cmd.Process.Signal(signal)
}

// Ready implements running.
func (m *local) Ready(ctx context.Context) error { return Ready(ctx, m.health) }

// Ready asks a manager by the base URL of its probes whether it is ready, and returns why not.
func Ready(ctx context.Context, health string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, health+"/readyz?verbose", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", body)
	}
	return nil
}

// Freeze stops the program where it is, as a machine that hangs would, or has it go on.
func (m *local) Freeze(frozen bool) error {
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	return m.current().Process.Signal(signal)
}

// Stop implements running.
func (m *local) Stop() error {
	defer func() { _ = os.RemoveAll(m.dir) }()
	select {
	case <-m.done:
		return m.err
	default:
	}
	if err := m.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-m.done:
		return m.err
	case <-time.After(stopTimeout):
		m.Kill()
		return fmt.Errorf("the manager did not stop within %s of SIGTERM", stopTimeout)
	}
}

// Kill implements running.
func (m *local) Kill() {
	_ = m.signal(os.Kill)
	<-m.done
	_ = os.RemoveAll(m.dir)
}

// Done implements running.
func (m *local) Done() <-chan struct{} { return m.done }

// Logs implements running.
func (m *local) Logs() string { return m.logs.String() }
