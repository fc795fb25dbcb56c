package rancher

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/archelon-io/archelon/test/standin/agent"
)

// workload is one registered workload cluster.
type workload struct {
	name        string
	realAgent   bool // its agent is a program of its own
	config      *rest.Config
	client      kubernetes.Interface
	emptier     *emptier
	deployments cache.SharedIndexInformer
	secrets     cache.SharedIndexInformer
	cancel      context.CancelFunc

	mu       sync.Mutex
	cleanup  *agent.Cleanup // of the Job that was created last, if any is known
	repeat   bool           // another Job is wanted
	adopted  bool           // Jobs of an earlier stand-in were looked for
	doomed   []string       // namespaces that were deleted and must end
	facts    *facts
	lastSeen string // why the agent did not connect, to log it once
	identity string // UID of namespace kube-system, of a real agent's cluster, once it is known
}

// fleet is every registered workload cluster, and the queue of those whose agent has something
// to do. It lives on while Rancher is down, as workload clusters do.
type fleet struct {
	standin *Standin
	queue   workqueue.TypedRateLimitingInterface[string]
	workers sync.WaitGroup

	mu        sync.RWMutex
	ctx       context.Context // nil until started
	workloads map[string]*workload
}

func newFleet(s *Standin) *fleet {
	return &fleet{
		standin:   s,
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		workloads: map[string]*workload{},
	}
}

// start begins to watch what is registered and to work.
func (f *fleet) start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx = ctx
	for range f.standin.opts.Workers {
		f.workers.Go(f.work)
	}
	for _, w := range f.workloads {
		f.watch(w)
	}
}

// stop ends all watches and workers. The caller has ended the context of start before.
func (f *fleet) stop() {
	f.queue.ShutDown()
	f.workers.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, w := range f.workloads {
		w.stop()
		delete(f.workloads, name)
	}
}

func (w *workload) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

func (f *fleet) add(name string, config *rest.Config, realAgent bool) error {
	config = unlimited(config)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for workload cluster %s: %w", name, err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a dynamic client for workload cluster %s: %w", name, err)
	}
	w := &workload{name: name, realAgent: realAgent, config: config, client: clientset, emptier: newEmptier(dyn, false)}
	f.remove(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workloads[name] = w
	if f.ctx != nil {
		f.watch(w)
	}
	return nil
}

func (f *fleet) remove(name string) {
	f.mu.Lock()
	w, ok := f.workloads[name]
	delete(f.workloads, name)
	f.mu.Unlock()
	if !ok {
		return
	}
	w.stop()
	f.disconnect(name, "its workload cluster is unreachable")
	f.standin.delays.forget(workloadOwner(name), "")
}

// watch starts the informers of a workload cluster. It does not wait for them. A real agent
// needs none: it comes by itself.
func (f *fleet) watch(w *workload) {
	if w.realAgent {
		return
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(f.ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(agentNamespace))
	w.deployments = factory.Apps().V1().Deployments().Informer()
	w.secrets = factory.Core().V1().Secrets().Informer()
	wake := func(any) { f.queue.Add(w.name) }
	for _, informer := range []cache.SharedIndexInformer{w.deployments, w.secrets} {
		// Neither fails before the informer runs.
		_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			f.standin.opts.Logger.V(1).Info("workload cluster does not answer", "workload", w.name, "cause", err.Error())
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    wake,
			UpdateFunc: func(_, obj any) { wake(obj) },
			DeleteFunc: wake,
		})
	}
	factory.Start(ctx.Done())
	f.queue.Add(w.name)
}

func (w *workload) synced() bool { return w.deployments.HasSynced() && w.secrets.HasSynced() }

// deployment returns the agent's Deployment, nil if there is none.
func (w *workload) deployment() *appsv1.Deployment {
	obj, ok, err := w.deployments.GetStore().GetByKey(agentNamespace + "/" + agentName)
	if err != nil || !ok {
		return nil
	}
	out, _ := obj.(*appsv1.Deployment)
	return out
}

// secret returns a Secret in the agent's namespace, nil if there is none.
func (w *workload) secret(name string) *corev1.Secret {
	obj, ok, err := w.secrets.GetStore().GetByKey(agentNamespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	out, _ := obj.(*corev1.Secret)
	return out
}

func (f *fleet) get(name string) (*workload, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	w, ok := f.workloads[name]
	return w, ok
}

func (f *fleet) wake(name string, after time.Duration) { f.queue.AddAfter(name, after) }

func (f *fleet) wakeAll() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for name := range f.workloads {
		f.queue.Add(name)
	}
}

// work handles workload clusters until the queue is shut down.
func (f *fleet) work() {
	for {
		name, quit := f.queue.Get()
		if quit {
			return
		}
		f.handle(name)
		f.queue.Done(name)
	}
}

func (f *fleet) handle(name string) {
	w, ok := f.get(name)
	if !ok {
		f.queue.Forget(name)
		return
	}
	wait, err := f.reconcile(f.ctx, w)
	if f.ctx.Err() != nil {
		return
	}
	if err != nil {
		f.standin.opts.Logger.V(1).Info("agent failed and tries again", "workload", name, "cause", err.Error())
		f.queue.AddRateLimited(name)
		return
	}
	f.queue.Forget(name)
	if wait > 0 {
		f.queue.AddAfter(name, wait)
	}
}
