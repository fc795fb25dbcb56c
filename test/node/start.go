package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/archelon-io/archelon/test/process"
)

// searchPath is that of most images.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pipeDelay is how long what a container's program has left behind may hold its output open.
const pipeDelay = time.Second

// run is one run of a container.
type run struct {
	id        string
	process   *process.Process
	printer   *printer
	startedAt time.Time
	ctx       context.Context // ends with the run
	cancel    context.CancelFunc

	mu      sync.Mutex
	askedAt time.Time // when it was asked to end
	started bool      // its startup probe, if any, has passed
	ready   bool
	dead    bool           // a probe gave it up
	grace   *time.Duration // that of the probe
}

// start runs the container's program. Errors of type problem are for the container's status.
func (c *container) start(ctx context.Context) (*run, error) {
	if c.pod.failure != "" {
		return nil, &problem{"CreateContainerConfigError", c.pod.failure}
	}
	program, known := c.pod.node.program(c.spec.Image)
	if !known {
		return nil, &problem{"ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: test/node was not given it", c.spec.Image)}
	}
	if message := rootRefused(c.pod.object, c.spec); message != "" {
		return nil, &problem{"CreateContainerConfigError", message}
	}
	arguments, variables, err := c.invocation(ctx)
	if err != nil {
		return nil, err
	}
	if len(c.spec.Command) > 0 {
		if path.Base(arguments[0]) != filepath.Base(program) {
			return nil, &problem{"RunContainerError", fmt.Sprintf("exec: %q: executable file not found in $PATH", arguments[0])}
		}
		arguments = arguments[1:]
	}
	if err := process.Unwrap(c.script()); err != nil {
		return nil, err
	}
	script, err := process.Wrap(program, filepath.Dir(c.script()), filepath.Base(c.script()))
	if err != nil {
		return nil, err
	}
	r := &run{
		id: "process://" + string(uuid.NewUUID()), startedAt: time.Now(),
		printer: &printer{log: c.log, out: c.pod.node.out, prefix: c.pod.key.String() + " " + c.spec.Name},
	}
	cmd := exec.Command(script, arguments...) //nolint:noctx // it is ended as a Pod is
	cmd.Dir, cmd.Env = c.root(), variables
	cmd.Stdout, cmd.Stderr = r.printer, r.printer
	cmd.WaitDelay = pipeDelay
	if r.process, err = process.Start(cmd); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(c.pod.node.ctx)
	return r, nil
}

// invocation returns the command with its arguments and the environment as they are on this machine. It
// makes the container's root.
func (c *container) invocation(ctx context.Context) (arguments, environment []string, err error) {
	variables, err := c.pod.environment(ctx, c.spec)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range slices.Concat(c.spec.Command, c.spec.Args) {
		arguments = append(arguments, expand(text, variables))
	}
	moves, err := c.moves(arguments, slices.Collect(maps.Values(variables)))
	if err != nil {
		return nil, nil, err
	}
	for i := range arguments {
		arguments[i] = moves.apply(arguments[i])
	}
	for name, value := range variables {
		variables[name] = moves.apply(value)
	}
	if err := c.makeRoot(); err != nil {
		return nil, nil, err
	}
	config, err := c.pod.kubeconfig(c.spec, filepath.Join(c.dir(), "kubeconfig"))
	if err != nil {
		return nil, nil, err
	}
	all := map[string]string{"PATH": searchPath, "HOME": c.root(), "HOSTNAME": c.pod.key.Name, "TMPDIR": filepath.Join(c.root(), "tmp")}
	if config != "" {
		all["KUBECONFIG"] = config
	}
	maps.Copy(all, variables)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		environment = append(environment, name+"="+all[name])
	}
	return arguments, environment, nil
}

// moves says what is elsewhere on this machine than in the container. texts are all that could mention it.
func (c *container) moves(texts ...[]string) (moves, error) {
	var all moves
	for _, mount := range c.spec.VolumeMounts {
		from := path.Clean(mount.MountPath)
		all = append(all, pathMove(from, filepath.Join(c.root(), from)))
	}
	for from, to := range c.pod.ports.numbers {
		all = append(all, portMoves(from, to)...)
	}
	for _, port := range c.spec.Ports {
		moved := portMoves(port.ContainerPort, c.pod.ports.numbers[port.ContainerPort])
		mentions := func(text string) bool { return moved.apply(text) != text }
		if !slices.ContainsFunc(slices.Concat(texts...), mentions) {
			return nil, &problem{"CreateContainerConfigError", fmt.Sprintf(
				"test/node cannot move containerPort %d: no argument and no variable has :%d", port.ContainerPort, port.ContainerPort)}
		}
	}
	return all, nil
}

func (c *container) root() string { return filepath.Join(c.dir(), "root") }

// makeRoot makes the directory that stands for the container's root, with a link to the volume at each mountPath. Outer
// mounts come first, so that inner ones end up in them.
func (c *container) makeRoot() error {
	if err := os.MkdirAll(c.root(), 0o700); err != nil {
		return err
	}
	mounts := slices.SortedFunc(slices.Values(c.spec.VolumeMounts), func(a, b corev1.VolumeMount) int {
		return len(path.Clean(a.MountPath)) - len(path.Clean(b.MountPath))
	})
	for _, mount := range mounts {
		target := filepath.Join(c.root(), path.Clean(mount.MountPath))
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(c.pod.volumeDir(mount.Name), target); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(c.root(), "tmp"), 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// ask asks the run to end, once, after the pause that its preStop hook may want, and returns when that was.
func (r *run) ask(c *container) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.askedAt.IsZero() {
		return r.askedAt
	}
	r.askedAt = time.Now()
	signal := func() {
		if err := r.process.Signal(syscall.SIGTERM); err != nil {
			c.pod.node.complain(err)
		}
	}
	if hook := c.spec.Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.Sleep != nil {
		time.AfterFunc(time.Duration(hook.PreStop.Sleep.Seconds)*time.Second, signal)
	} else {
		signal()
	}
	return r.askedAt
}
