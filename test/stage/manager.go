package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
)

// Manager is a running manager: a program of this machine, or on kind the Pods of a release.
type Manager struct {
	// Health is the base URL of its probes, empty on kind.
	Health string
	// Metrics is the URL of its metrics, empty on kind and when it serves none.
	Metrics string

	running
}

// Freeze stops a manager of this machine where it is, or has it go on.
func (m *Manager) Freeze(frozen bool) error {
	here, ok := m.running.(*local)
	if !ok {
		return errors.New("only a manager of this machine can be frozen")
	}
	return here.Freeze(frozen)
}

// running is what a manager is run as.
type running interface {
	// Ready reports whether the readiness probe passes, else why not.
	Ready(ctx context.Context) error
	// Stop ends the manager with SIGTERM and reports an error if it does not exit cleanly, or had ended by itself.
	Stop() error
	// Kill ends the manager with SIGKILL, as a crash would, and waits until it is gone.
	Kill()
	// Done is closed when the manager has exited.
	Done() <-chan struct{}
	// Logs returns what the manager has printed so far.
	Logs() string
}

// Launch starts a manager that reaches the management cluster by a configuration, with the arguments of the chart.
type Launch func(config *rest.Config, args []string) (Running, error)

// Running is what a manager is run as.
type Running = running

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

// StartManager starts the manager as the chart does, as a central instance unless --namespace is among the flags: with
// the arguments and under the rights that the chart has for them. What no value of the chart stands for comes last. It
// does not wait for the Lease of a manager that was killed, unless --leader-elect is among the flags, and keeps its own
// while a busy API server does not answer for a minute: here is no kubelet to start it again. Its log also goes to out,
// if that is not nil.
//
// On kind the binary is the one of the image, there are as many replicas as the chart says, and
// they always elect a leader.
func (s *Stage) StartManager(ctx context.Context, binary string, out io.Writer, flags ...string) (*Manager, error) {
	flags = append([]string{"--logging-format=text"}, flags...) // for people
	if !slices.Contains(flags, "--leader-elect") {
		flags = append(flags, "--leader-elect=false", "--leader-elect-lease-duration=2m", "--leader-elect-renew-deadline=90s")
	}
	if s.kind != nil {
		return s.installRelease(ctx, ServiceAccount, SystemNamespace, out, flags)
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

// installChart gives a manager with the given flags what the chart gives it.
func (s *Stage) installChart(ctx context.Context, flags []string) (*release, error) {
	release, err := render(ctx, ServiceAccount, SystemNamespace, valuesFor(flags, s.Values))
	if err != nil {
		return nil, err
	}
	release.label(SystemNamespace)
	return release, s.grant(ctx, ServiceAccount, SystemNamespace, release)
}

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
