package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// watchdogScript waits on its standard input. A line says that all is well; the end of file without one, that the demo
// died without stopping anything. The control planes have watchdogs of their own, which need their files, so these are
// waited for.
const watchdogScript = `
read -r line && exit 0
ps -A -o pid=,args= | while read -r pid program args; do
	case $program in "$1"/*) kill -9 "$pid" ;; esac
done
rm -rf "$1"/tmp/archelon-manager-*
tries=0
while [ "$tries" -lt 30 ] && ls -d "$1"/tmp/archelon-* >/dev/null 2>&1; do
	sleep 1
	tries=$((tries + 1))
done
rm -rf "$1"
`

// watchdog ends the demo's programs and removes its files when the demo is killed or crashes.
type watchdog struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func startWatchdog(dir string) (*watchdog, error) {
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "archelon-demo-watchdog", dir) //nolint:noctx // it outlives everything else
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, stdin: stdin}, nil
}

// dismiss ends the watchdog: there is nothing left to look after.
func (w *watchdog) dismiss() error {
	_, err := io.WriteString(w.stdin, "done\n")
	if closed := w.stdin.Close(); !errors.Is(closed, os.ErrClosed) {
		err = errors.Join(err, closed)
	}
	if err := errors.Join(err, w.cmd.Wait()); err != nil {
		return fmt.Errorf("dismissing the watchdog: %w", err)
	}
	return nil
}
