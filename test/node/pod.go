package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/archelon-io/archelon/test/process"
)

// retryPause is the pause after a request that failed.
const retryPause = time.Second

// pod runs one Pod. All but what mu protects belongs to the goroutine of run.
type pod struct {
	node  *Node
	key   types.NamespacedName
	uid   types.UID
	dir   string
	ports ports // fixed

	object     *corev1.Pod // as last seen by sync
	containers []*container
	mounted    map[string]files
	published  *corev1.PodStatus
	failure    string // why nothing of this Pod can start, which no event will change
	complained string // the last trouble with volumes

	signal chan struct{}

	mu         sync.Mutex
	latest     *corev1.Pod // nil when it is gone
	stale      bool        // what it is made from may have changed
	references map[reference]bool
}

// newPod is called with the node locked.
func (n *Node) newPod(object *corev1.Pod) *pod {
	p := &pod{
		node: n, key: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, uid: object.UID,
		dir:    filepath.Join(n.dir, string(object.UID)),
		object: object, latest: object,
		mounted: map[string]files{}, references: map[reference]bool{}, signal: make(chan struct{}, 1),
		stale: true,
	}
	p.failure = unsupported(object)
	for i := range object.Spec.Containers {
		p.containers = append(p.containers, newContainer(p, object.Spec.Containers[i], n.logOf(p.key)))
	}
	var err error
	if p.ports, err = movePorts(object); err != nil && p.failure == "" {
		p.failure = err.Error()
	}
	return p
}

// movePorts finds a free port of this machine for each port of the Pod.
func movePorts(object *corev1.Pod) (ports, error) {
	moved := ports{numbers: map[int32]int{}, names: map[string]int32{}}
	for i := range object.Spec.Containers {
		for _, port := range object.Spec.Containers[i].Ports {
			// They are all open before one of them is closed, so that they differ.
			listener, err := net.Listen("tcp", podIP+":0") //nolint:noctx // it is closed at once
			if err != nil {
				return moved, fmt.Errorf("looking for a free port: %w", err)
			}
			defer func() { _ = listener.Close() }()
			moved.numbers[port.ContainerPort] = listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
			if port.Name != "" {
				moved.names[port.Name] = port.ContainerPort
			}
		}
	}
	return moved, nil
}

// see takes note of the Pod as it is now, nil when it is gone.
func (p *pod) see(object *corev1.Pod) {
	p.mu.Lock()
	p.latest = object
	p.mu.Unlock()
	p.poke()
}

// refresh makes the Pod look again at what it is made from.
func (p *pod) refresh() {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	p.poke()
}

// refreshLater makes the next look a thorough one, too, because this one failed.
func (p *pod) refreshLater(why error) {
	p.mu.Lock()
	p.stale = true
	p.mu.Unlock()
	if text := why.Error(); text != p.complained {
		p.complained = text
		p.node.complain(fmt.Errorf("pod %s: %w", p.key, why))
	}
}

// look returns the Pod as it is now, and whether what it is made from may have changed since a
// look at a Pod that was bound.
func (p *pod) look() (latest *corev1.Pod, stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale = p.stale
	p.stale = stale && (p.latest == nil || p.latest.Spec.NodeName == "")
	return p.latest, stale
}

func (p *pod) poke() {
	select {
	case p.signal <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (p *pod) refer(to reference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.references[to] = true
}

func (p *pod) refersTo(what reference) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.references[what]
}

func (p *pod) processes() []*process.Process {
	var running []*process.Process
	for _, c := range p.containers {
		if each := c.process(); each != nil {
			running = append(running, each)
		}
	}
	return running
}

// run is the life of the Pod on this node. It looks at everything whenever something has happened.
func (p *pod) run() {
	defer p.clean()
	for {
		next, done, err := p.sync(p.node.ctx)
		if done {
			return
		}
		if err != nil {
			p.node.complain(fmt.Errorf("pod %s: %w", p.key, err))
			next = sooner(next, time.Now().Add(retryPause))
		}
		var alarm <-chan time.Time
		if !next.IsZero() {
			alarm = time.After(time.Until(next))
		}
		select {
		case <-p.node.ctx.Done():
			return
		case <-p.signal:
		case <-alarm:
		}
	}
}

// sync does what is due and says when something will be due without an event, if ever, and whether
// there is nothing left to do.
func (p *pod) sync(ctx context.Context) (next time.Time, done bool, err error) {
	latest, stale := p.look()
	if latest == nil {
		return time.Time{}, true, nil
	}
	p.object = latest
	if p.object.Spec.NodeName == "" {
		return time.Time{}, false, p.bind(ctx)
	}
	ending := p.object.DeletionTimestamp != nil
	mounted := true
	if stale && !ending {
		if failed := p.mount(ctx); failed != nil {
			mounted, next = false, time.Now().Add(retryPause)
			p.refreshLater(failed)
		}
	}
	for _, c := range p.containers {
		if ending {
			c.end(time.Duration(ptr.Deref(p.object.DeletionGracePeriodSeconds, 0))*time.Second, "")
		}
		due, failed := c.sync(ctx, mounted, ending, stale)
		next = sooner(next, due)
		err = errors.Join(err, failed)
	}
	if failed := p.publish(ctx); failed != nil {
		return next, false, errors.Join(err, failed)
	}
	if ending && len(p.processes()) == 0 {
		failed := p.remove(ctx)
		return next, failed == nil, errors.Join(err, failed)
	}
	return next, false, err
}

// bind does the scheduler's work.
func (p *pod) bind(ctx context.Context) error {
	err := p.node.client.CoreV1().Pods(p.key.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name, UID: p.uid},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.node.opts.Name},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has gone or is bound, and the event is on its way
	}
	return err
}

// remove lets the API server forget a Pod whose containers have ended.
func (p *pod) remove(ctx context.Context) error {
	err := p.node.client.CoreV1().Pods(p.key.Namespace).Delete(ctx, p.key.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// clean ends what still runs, at once, and removes all files.
func (p *pod) clean() {
	for _, c := range p.containers {
		c.kill()
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.node.complain(fmt.Errorf("pod %s: %w", p.key, err))
	}
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// sooner returns the earlier of two times, of which the zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return cmp.Or(a, b)
	}
	if b.Before(a) {
		return b
	}
	return a
}
