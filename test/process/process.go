// Package process runs the programs of test environments so that none outlives the test: each in a process group of its
// own, with a watchdog for the case that the test dies without having stopped them.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a child in a process group of its own, so that Ctrl-C reaches only the parent, which then
// stops its children in order.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start starts cmd.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Done is closed when the process has ended and all that it wrote has arrived.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code as a shell and a container runtime have it: 128 plus the signal, if one ended the
// process. Call it after Done only.
func (p *Process) ExitCode() int {
	<-p.done
	state := p.cmd.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// Signal sends a signal to the process. A process that has ended is no error.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", signal, filepath.Base(p.cmd.Path), err)
	}
	return nil
}

// KillGroup kills what the process has started and left in its process group, and the process
// itself. Nothing left is no error.
func (p *Process) KillGroup() error {
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing the process group of %s: %w", filepath.Base(p.cmd.Path), err)
	}
	return nil
}

// Stop ends the process, with SIGKILL if it does not obey in time. That it ended by itself before is an error: whatever
// the test saw, it was not this program's doing.
func (p *Process) Stop(timeout time.Duration) error {
	select {
	case <-p.done:
		return fmt.Errorf("%s had ended by itself: %w", filepath.Base(p.cmd.Path), p.err)
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}
