package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/process"
)

// stopTimeout is how long a manager may take to stop after SIGTERM.
const stopTimeout = 30 * time.Second

// Manager is the manager as a program.
type Manager struct {
	// Health is the base URL of its probes.
	Health string
	// Metrics is the URL of its metrics.
	Metrics string

	dir  string
	cmd  *exec.Cmd
	logs *buffer
	done chan struct{}
	err  error // set before done is closed
}

// BuildManager builds the program, with the race detector if asked for, and returns its path.
func BuildManager(ctx context.Context, dir string, race bool) (string, error) {
	path := filepath.Join(dir, "archelon")
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w\n%s", err, out)
	}
	return path, nil
}

// StartManager starts the manager as the chart does, as a central instance unless --namespace is among the flags: with the arguments and under
// the rights that the chart has for them. What no value of the chart stands for comes last. It takes no Lease unless --leader-elect is among the
// flags. Its log also goes to out, if that is not nil.
func (s *Stage) StartManager(ctx context.Context, binary string, out io.Writer, flags ...string) (*Manager, error) {
	flags = append([]string{"--logging-format=text"}, flags...) // for people
	if !slices.Contains(flags, "--leader-elect") {
		flags = append(flags, "--leader-elect=false")
	}
	release, err := s.installChart(ctx, flags)
	if err != nil {
		return nil, err
	}
	config, err := s.Management.ServiceAccountConfig(ctx, SystemNamespace, ServiceAccount)
	if err != nil {
		return nil, err
	}
	return s.startManager(config, binary, out, release.args...)
}

// installChart grants what the chart grants to a manager with the given flags.
func (s *Stage) installChart(ctx context.Context, flags []string) (*release, error) {
	release, err := render(ctx, ServiceAccount, SystemNamespace, valuesFor(flags))
	if err != nil {
		return nil, err
	}
	release.label(SystemNamespace)
	return release, s.grant(ctx, ServiceAccount, SystemNamespace, release)
}

func (s *Stage) startManager(config *rest.Config, binary string, out io.Writer, args ...string) (*Manager, error) {
	if s.Through != nil {
		config = s.Through(config)
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
	m := &Manager{
		Health: "http://" + ports[0], Metrics: "https://" + ports[1] + "/metrics",
		dir: dir, logs: &buffer{also: out}, done: make(chan struct{}),
	}
	// The last of a flag counts.
	m.cmd = exec.Command(binary, append(slices.Clone(args), //nolint:noctx // it outlives the call; Stop and Kill end it
		"--kubeconfig="+path, "--health-probe-bind-address="+ports[0], "--metrics-bind-address="+ports[1])...)
	m.cmd.Stdout, m.cmd.Stderr = m.logs, m.logs
	// A Ctrl-C in the terminal is for whoever started the stage, who then stops the manager.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

// Ready reports whether the readiness probe passes, else why not.
func (m *Manager) Ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Health+"/readyz?verbose", nil)
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

// Stop ends the manager with SIGTERM and reports an error if it does not exit cleanly.
func (m *Manager) Stop() error {
	defer func() { _ = os.RemoveAll(m.dir) }()
	select {
	case <-m.done:
		return m.err
	default:
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-m.done:
		return m.err
	case <-time.After(stopTimeout):
		m.Kill()
		return errors.New("the manager did not stop within 30 s of SIGTERM")
	}
}

// Kill ends the manager with SIGKILL, as a crash would, and waits until it is gone.
func (m *Manager) Kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
	_ = os.RemoveAll(m.dir)
}

// Done is closed when the manager has exited.
func (m *Manager) Done() <-chan struct{} { return m.done }

// Logs returns what the manager has printed so far.
func (m *Manager) Logs() string { return m.logs.String() }

// buffer collects output for readers in other goroutines.
type buffer struct {
	also io.Writer
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.also != nil {
		_, _ = b.also.Write(p)
	}
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
