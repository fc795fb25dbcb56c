package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// wrapper records the PID of a program, which whoever starts it may keep to itself, and then becomes the program, to
// which a link beside the script leads.
const wrapper = `#!/bin/sh
echo $$ >"$0.pid"
exec "$0.bin" "$@"
`

// watch waits on its standard input. A line says that all is well; the end of file without one, that the parent died.
const watch = `read -r line && exit 0
`

// killScript kills what is left of the wrapped programs. A PID may have been given to somebody else by then, hence the
// look at the arguments: each of the programs has the directory in them.
const killScript = `
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

// Wrap writes a script that runs the program as name, which is unique in dir, and returns the path of the script. Run
// by it, the program is known to the watchdog of dir.
func Wrap(program, dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.Symlink(program, path+".bin"); err != nil {
		return "", fmt.Errorf("linking %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(wrapper), 0o700); err != nil {
		return "", fmt.Errorf("writing the script for %s: %w", name, err)
	}
	return path, nil
}

// Unwrap removes the files of a program that has ended.
func Unwrap(path string) error {
	var errs []error
	for _, suffix := range []string{"", ".bin", ".pid"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Watchdog does what has to be done when this process dies without having done it: a test binary that times out or is
// killed runs no deferred functions.
type Watchdog struct {
	process *Process
	stdin   io.WriteCloser
}

// Watch starts a watchdog that kills the wrapped programs of dir.
func Watch(dir string) (*Watchdog, error) { return OnDeath(killScript, dir) }

// OnDeath starts a watchdog that runs a shell script with the given arguments.
func OnDeath(script string, args ...string) (*Watchdog, error) {
	//nolint:noctx // it must outlive everything else
	cmd := exec.Command("/bin/sh", append([]string{"-c", watch + script, "archelon-watchdog"}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the watchdog's pipe: %w", err)
	}
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	return &Watchdog{process: p, stdin: stdin}, nil
}

// End dismisses the watchdog; unless all is well it does first what it is there for.
func (w *Watchdog) End(well bool) error {
	if well {
		if _, err := io.WriteString(w.stdin, "done\n"); err != nil {
			return fmt.Errorf("dismissing the watchdog: %w", err)
		}
	}
	// Whoever waits for the watchdog closes the pipe too, once it is gone.
	if err := w.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the watchdog's pipe: %w", err)
	}
	<-w.process.Done()
	return nil
}
