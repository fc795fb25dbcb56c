package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/archelon-io/archelon/test/process"
)

// A container that crashes again and again waits longer and longer, as in a cluster but in tests' time. One that has
// run for long enough begins anew.
const (
	firstBackOff = 100 * time.Millisecond
	maxBackOff   = 5 * time.Second
	calm         = 10 * time.Second
)

// container is one container of a Pod over all its runs.
type container struct {
	pod  *pod
	spec corev1.Container
	log  *log

	waiting  *corev1.ContainerStateWaiting    // why it does not run, before and between runs
	last     *corev1.ContainerStateTerminated // how it ended
	over     bool                             // it will not run again
	restarts int32
	backOff  time.Duration
	dueAt    time.Time // when it is to run again
	killAt   time.Time // when a run that is to end is killed

	mu  sync.Mutex
	run *run // nil when it does not run
}

func newContainer(p *pod, spec corev1.Container, l *log) *container {
	return &container{pod: p, spec: spec, log: l, waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
}

// problem is why a container does not start, as its status says it. Something has to change
// before another try has a chance.
type problem struct{ reason, message string }

func (p *problem) Error() string { return p.reason + ": " + p.message }

// sync notices the end of a run and starts another one if it is due. mounted says whether the volumes are there; fresh,
// that what the Pod is made from may have changed. It returns when there is something to do without an event.
func (c *container) sync(ctx context.Context, mounted, ending, fresh bool) (time.Time, error) {
	if current := c.current(); current != nil {
		select {
		case <-current.process.Done():
			c.ended(current)
		default:
			return c.watch(current)
		}
	}
	if c.over || ending {
		return time.Time{}, nil
	}
	if wait := time.Until(c.dueAt); wait > 0 {
		return c.dueAt, nil
	}
	if !mounted {
		return time.Time{}, nil // once the volumes are there, all starts
	}
	// What failed for want of something is tried again when there is a chance that it is there.
	if c.dueAt.IsZero() && !fresh {
		return time.Time{}, nil
	}
	return c.begin(ctx)
}

// begin tries to run the container.
func (c *container) begin(ctx context.Context) (time.Time, error) {
	c.dueAt = time.Time{}
	started, err := c.start(ctx)
	var known *problem
	switch {
	case errors.As(err, &known):
		c.waiting = &corev1.ContainerStateWaiting{Reason: known.reason, Message: known.message}
		return time.Time{}, nil
	case apierrors.IsNotFound(err):
		c.waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
		return time.Time{}, nil
	case err != nil:
		c.waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: err.Error()}
		c.dueAt = time.Now().Add(retryPause)
		return c.dueAt, err
	}
	if c.last != nil {
		c.restarts++
	}
	c.waiting, c.killAt = nil, time.Time{}
	c.mu.Lock()
	c.run = started
	c.mu.Unlock()
	started.observe(c)
	return time.Time{}, nil
}

// watch looks after a run: it ends one that its liveness or startup probe gave up, and kills
// one that does not end in time.
func (c *container) watch(current *run) (time.Time, error) {
	if unhealthy, grace := current.unhealthy(); unhealthy {
		c.end(ptr.Deref(grace, c.grace()), "its probe gave it up")
	}
	if c.killAt.IsZero() || time.Now().Before(c.killAt) {
		return c.killAt, nil
	}
	return time.Time{}, current.process.Signal(syscall.SIGKILL)
}

// end asks the container to end and has it killed if it does not within the grace period,
// which a later call may shorten.
func (c *container) end(grace time.Duration, why string) {
	current := c.current()
	if current == nil {
		return
	}
	if why != "" && c.killAt.IsZero() {
		c.pod.node.complain(fmt.Errorf("pod %s, container %s is ended: %s", c.pod.key, c.spec.Name, why))
	}
	asked := current.ask(c)
	if killAt := asked.Add(grace); c.killAt.IsZero() || killAt.Before(c.killAt) {
		c.killAt = killAt
	}
}

// ended takes the end of a run into the books and says when the next one is due, if ever.
func (c *container) ended(done *run) {
	done.cancel()
	done.printer.flush()
	// The container is its first program: what that has started ends with it.
	if err := errors.Join(done.process.KillGroup(), process.Unwrap(c.script())); err != nil {
		c.pod.node.complain(err)
	}
	c.mu.Lock()
	c.run = nil
	c.mu.Unlock()
	c.conclude(done, int32(done.process.ExitCode()))
}

func (c *container) conclude(done *run, code int32) {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	c.last = &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: done.id,
		StartedAt: metav1.NewTime(done.startedAt), FinishedAt: metav1.Now(),
	}
	again := c.pod.object.Spec.RestartPolicy
	if c.pod.object.DeletionTimestamp != nil || again == corev1.RestartPolicyNever || again == corev1.RestartPolicyOnFailure && code == 0 {
		c.over = true
		return
	}
	c.backOff = min(max(2*c.backOff, firstBackOff), maxBackOff)
	if time.Since(done.startedAt) > calm {
		c.backOff = firstBackOff
	}
	c.dueAt = time.Now().Add(c.backOff)
	c.waiting = &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting container %s", c.backOff, c.spec.Name),
	}
}

// kill ends the container without asking, and waits until it is gone.
func (c *container) kill() {
	if current := c.current(); current != nil {
		if err := current.process.KillGroup(); err != nil {
			c.pod.node.complain(err)
		}
		<-current.process.Done()
		c.ended(current)
	}
}

func (c *container) current() *run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run
}

func (c *container) process() *process.Process {
	if current := c.current(); current != nil {
		return current.process
	}
	return nil
}

func (c *container) grace() time.Duration {
	return time.Duration(ptr.Deref(c.pod.object.Spec.TerminationGracePeriodSeconds, 30)) * time.Second
}

// script is what the container is run by. It has to be unique in the node's directory.
func (c *container) script() string {
	return filepath.Join(c.pod.node.dir, string(c.pod.uid)+"."+c.spec.Name)
}

// dir is where the container has its root and its kubeconfig.
func (c *container) dir() string { return filepath.Join(c.pod.dir, "containers", c.spec.Name) }
