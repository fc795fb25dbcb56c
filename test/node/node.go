package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/process"
)

// podIP is the address of all Pods: there is but one machine.
const podIP = "127.0.0.1"

// Options say what the node runs.
type Options struct {
	// Name is that of the Node object; "test-node" by default.
	Name string

	// Cluster is the control plane whose Pods are run. It has to be started with Workloads.
	Cluster *env.ControlPlane

	// Images maps images, exactly as Pods name them, to programs of this machine. The program is the image's entry point
	// and its only file: a container's command has to begin with its name. Push adds to it.
	Images map[string]string

	// Namespaces are those whose Pods are run; all when it is empty.
	Namespaces []string

	// Through, if set, changes how containers reach the API server, for example by way of a test/proxy.
	Through func(*rest.Config) *rest.Config

	// Out receives what the containers print and what goes wrong in the node; nil discards it.
	Out io.Writer
}

// Node runs Pods. Its methods may be called from several goroutines.
type Node struct {
	opts     Options
	dir      string
	client   kubernetes.Interface
	watchdog *process.Watchdog
	informer informers.SharedInformerFactory
	out      *output

	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	images map[string]string
	pods   map[types.UID]*pod
	logs   map[types.NamespacedName]*log

	stop    sync.Once
	stopErr error
}

// Start creates the Node object and begins to run Pods. ctx bounds the start, not the life: the caller has to call
// Stop. Should the caller's process die without it, a watchdog ends the containers.
func Start(ctx context.Context, opts Options) (*Node, error) {
	if opts.Name == "" {
		opts.Name = "test-node"
	}
	config := rest.CopyConfig(opts.Cluster.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for node %s: %w", opts.Name, err)
	}
	dir, err := os.MkdirTemp("", "archelon-node-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for node %s: %w", opts.Name, err)
	}
	n := &Node{
		opts: opts, dir: dir, client: client, out: &output{to: opts.Out},
		images: map[string]string{}, pods: map[types.UID]*pod{}, logs: map[types.NamespacedName]*log{},
	}
	maps.Copy(n.images, opts.Images)
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting node %s: %w", opts.Name, err), n.Stop())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	var err error
	if n.watchdog, err = process.Watch(n.dir); err != nil {
		return err
	}
	if err := n.register(ctx); err != nil {
		return err
	}
	n.informer = informers.NewSharedInformerFactory(n.client, 0)
	core := n.informer.Core().V1()
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		core.Pods().Informer():       on(n.observe, n.forget),
		core.Secrets().Informer():    on(n.changedSecret, n.changedSecret),
		core.ConfigMaps().Informer(): on(n.changedConfigMap, n.changedConfigMap),
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	n.informer.StartWithContext(n.ctx)
	return n.informer.WaitForCacheSyncWithContext(ctx).AsError()
}

// on turns two functions into a handler of events.
func on[T any](seen, gone func(T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen(obj.(T)) },    //nolint:forcetypeassert // it is what the informer is for
		UpdateFunc: func(_, obj any) { seen(obj.(T)) }, //nolint:forcetypeassert // it is what the informer is for
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			gone(obj.(T)) //nolint:forcetypeassert // it is what the informer is for
		},
	}
}

// Push makes an image known, or another program of it, from the next start of a container on.
func (n *Node) Push(image, program string) {
	n.mu.Lock()
	n.images[image] = program
	n.mu.Unlock()
	n.wake(func(*pod) bool { return true })
}

// Stop ends all containers at once, like a power cut, and removes their files. The Pods stay as the API server has
// them. Further calls return what the first one returned.
func (n *Node) Stop() error {
	n.stop.Do(func() { n.stopErr = n.stopAll() })
	return n.stopErr
}

func (n *Node) stopAll() error {
	n.cancel()
	if n.informer != nil {
		n.informer.Shutdown()
	}
	n.work.Wait()
	var errs []error
	if n.watchdog != nil {
		errs = append(errs, n.watchdog.End(true))
	}
	if err := errors.Join(append(errs, os.RemoveAll(n.dir))...); err != nil {
		return fmt.Errorf("stopping node %s: %w", n.opts.Name, err)
	}
	return nil
}

// observe gives a Pod to whoever runs it, who is created for a Pod that is new and this node's to run.
func (n *Node) observe(object *corev1.Pod) {
	if !n.mine(object) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p, known := n.pods[object.UID]
	if !known {
		if finished(object.Status.Phase) || n.ctx.Err() != nil {
			return
		}
		p = n.newPod(object)
		n.pods[object.UID] = p
		n.work.Go(p.run)
		return
	}
	p.see(object)
}

// forget ends what runs for a Pod that is no more.
func (n *Node) forget(object *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, known := n.pods[object.UID]; known {
		delete(n.pods, object.UID)
		p.see(nil)
	}
}

func (n *Node) mine(object *corev1.Pod) bool {
	if len(n.opts.Namespaces) > 0 && !slices.Contains(n.opts.Namespaces, object.Namespace) {
		return false
	}
	return object.Spec.NodeName == n.opts.Name || object.Spec.NodeName == "" && len(object.Spec.SchedulingGates) == 0
}

func (n *Node) changedSecret(object *corev1.Secret) {
	n.wake(func(p *pod) bool { return p.refersTo(reference{"Secret", object.Namespace, object.Name}) })
}

func (n *Node) changedConfigMap(object *corev1.ConfigMap) {
	n.wake(func(p *pod) bool { return p.refersTo(reference{"ConfigMap", object.Namespace, object.Name}) })
}

// wake makes chosen Pods look again at all that they are made from.
func (n *Node) wake(chosen func(*pod) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if chosen(p) {
			p.refresh()
		}
	}
}

func (n *Node) program(image string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	program, known := n.images[image]
	return program, known
}

// complain reports what only a person can look into.
func (n *Node) complain(err error) {
	if n.ctx.Err() == nil {
		n.out.line(n.opts.Name, fmt.Appendf(nil, "%s %v\n", time.Now().Format(time.TimeOnly), err))
	}
}
