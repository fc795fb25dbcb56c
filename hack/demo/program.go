package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/archelon-io/archelon/test/stage"
)

const (
	// stopTimeout is how long a program may take to end when it is asked to.
	stopTimeout = 20 * time.Second
	// parentCheck is how often the demo looks whether the program that started it is still there.
	parentCheck = time.Second
)

// endOf waits for a reason to end: a signal, or that nobody is left to send one. `go run` and make, when they are
// terminated, do not pass that on to the program they run.
func endOf(ctx context.Context, signals <-chan os.Signal) error {
	parent := os.Getppid()
	ticker := time.NewTicker(parentCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			return errInterrupted
		case <-ticker.C:
			if os.Getppid() != parent {
				return errOrphaned
			}
		}
	}
}

// buildProgram builds a package of this repository. Interrupted, go takes its compilers and its files along.
func buildProgram(ctx context.Context, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	cmd.Dir = stage.Root()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}

// program is a command that runs beside the demo. Its standard error goes to a file.
type program struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	line chan string   // receives the first line of standard output
	done chan struct{} // closed when the program has ended
	err  error         // how it ended; set before done is closed
}

// startProgram starts a command in a process group of its own, so that Ctrl-C reaches the demo only, which then ends
// everything in order.
func startProgram(name, logPath, path string, args ...string) (*program, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	p := &program{name: name, log: log, line: make(chan string, 1), done: make(chan struct{})}
	p.cmd = exec.Command(path, args...) //nolint:noctx // it outlives the start; stop ends it
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = log
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), log.Close())
	}
	go func() {
		defer close(p.done)
		scanner := bufio.NewScanner(stdout)
		for first := true; scanner.Scan(); first = false {
			if first {
				p.line <- scanner.Text()
			}
		}
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// firstLine waits for the first line that the program prints.
func (p *program) firstLine(ctx context.Context) (string, error) {
	select {
	case line := <-p.line:
		return line, nil
	case <-p.done:
		return "", fmt.Errorf("%s has ended by itself: %w", p.name, errors.Join(p.err, errors.New(tailOfFile(p.log.Name()))))
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for %s: %w", p.name, context.Cause(ctx))
	}
}

// stop ends the program and waits until it is gone. That it ended by itself before is an error.
func (p *program) stop() error {
	defer func() { _ = p.log.Close() }()
	select {
	case <-p.done:
		return fmt.Errorf("%s had ended by itself: %w", p.name, p.err)
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", p.name, err)
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("ending %s: %w", p.name, p.err)
		}
		return nil
	case <-timeout.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return fmt.Errorf("%s did not end within %s of SIGTERM and was killed", p.name, stopTimeout)
}
