package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The end of the parent is the end of the watchdog's input, so closing that is
// all there is to a crash.
func TestWatchdogAfterCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "control-plane")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sleeper, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}

	ours := startSleeper(t, must(Wrap(sleeper, dir, "sleep"))(t))
	waitFor(t, filepath.Join(dir, "sleep.pid"))
	stranger := startSleeper(t, sleeper)
	pid := fmt.Appendln(nil, stranger.cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "reused.pid"), pid, 0o600); err != nil {
		t.Fatal(err)
	}

	if err := must(Watch(dir))(t).End(false); err != nil {
		t.Fatal(err)
	}
	<-ours.done
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of a dead parent have to go, got: %v", err)
	}
	select {
	case <-stranger.done:
		t.Error("a process that merely has the PID of a former child has to be left alone")
	default:
	}
}

func TestWatchdogAfterStop(t *testing.T) {
	dir := t.TempDir()
	if err := must(Watch(dir))(t).End(true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a watchdog that is dismissed has to leave everything alone, got: %v", err)
	}
}

func startSleeper(t *testing.T, program string) *Process {
	t.Helper()
	p := must(Start(exec.CommandContext(t.Context(), program, "600")))(t)
	t.Cleanup(func() { <-p.done }) // the test's context, which ends first, kills it
	return p
}

// waitFor waits until path has content.
func waitFor(t *testing.T, path string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return len(raw) > 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
