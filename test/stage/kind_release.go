package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/helm"
)

// pods are a manager that the Deployment of a release runs.
type pods struct {
	on        *onKind
	key       client.ObjectKey // of the Deployment
	clientset kubernetes.Interface
	logs      *buffer
	cancel    context.CancelFunc
	streams   sync.WaitGroup

	mu      sync.Mutex
	seen    map[string]bool // runs of containers whose log is read
	failure error           // why a container ended that should not
	ended   bool
	done    chan struct{}
}

// installRelease installs or upgrades a release of the chart so that its manager runs with the given flags.
func (s *Stage) installRelease(ctx context.Context, name, namespace string, out io.Writer, flags []string) (*Manager, error) {
	flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool {
		return strings.HasPrefix(flag, "--leader-elect") || strings.HasPrefix(flag, "--logging-format")
	})
	values := valuesFor(flags, s.Values)
	values["log"] = map[string]any{"format": "text"}
	release := helm.Release{Name: name, Namespace: namespace, Chart: filepath.Join(Root(), "charts", "archelon"), Values: values, Args: []string{"--install"}}
	if err := s.restricted(ctx, namespace); err != nil {
		return nil, err
	}
	if err := s.kind.helm.Upgrade(ctx, release); err != nil {
		return nil, err
	}
	p, err := s.kind.follow(client.ObjectKey{Namespace: namespace, Name: name}, out)
	if err != nil {
		return nil, err
	}
	return &Manager{running: p}, nil
}

// restricted makes a namespace that accepts what the Pod Security Standard of that name allows, if it is not there.
func (s *Stage) restricted(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	return client.IgnoreAlreadyExists(s.Client.Create(ctx, namespace))
}

// follow reads the logs of the Pods of a Deployment from now on.
func (o *onKind) follow(key client.ObjectKey, out io.Writer) (*pods, error) {
	clientset, err := kubernetes.NewForConfig(o.stage.Management.Config)
	if err != nil {
		return nil, err
	}
	p := &pods{on: o, key: key, clientset: clientset, logs: &buffer{also: out}, seen: map[string]bool{}, done: make(chan struct{})}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(key.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app.kubernetes.io/instance=" + key.Name }))
	see := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			p.see(ctx, pod)
		}
	}
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, object any) { see(object) }, DeleteFunc: see,
	})
	if err != nil {
		p.cancel()
		return nil, err
	}
	factory.Start(ctx.Done())
	return p, nil
}

// see takes note of a Pod: it reads the log of each run, and notes one that ended by itself.
func (p *pods) see(ctx context.Context, pod *corev1.Pod) {
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.Kind != "ReplicaSet" {
		return // a hook of the chart
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, status := range pod.Status.ContainerStatuses {
		run := fmt.Sprintf("%s/%d", pod.UID, status.RestartCount)
		if status.State.Waiting == nil && !p.seen[run] {
			p.seen[run] = true
			p.streams.Go(func() { p.read(ctx, pod.Name, status.Name) })
		}
		for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
			if ended := state.Terminated; ended != nil && !p.ended && (pod.DeletionTimestamp.IsZero() || ended.ExitCode != 0) {
				p.fail(fmt.Errorf("container %s of Pod %s ended with code %d: %s %s", status.Name, pod.Name, ended.ExitCode, ended.Reason, ended.Message))
			}
		}
	}
}

func (p *pods) fail(err error) {
	if p.failure == nil {
		p.failure = err
		close(p.done)
	}
}

// read copies the log of one run until it ends.
func (p *pods) read(ctx context.Context, pod, container string) {
	stream, err := p.clientset.CoreV1().Pods(p.key.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return // it ended at once, and is gone
	}
	defer func() { _ = stream.Close() }()
	_, _ = io.Copy(p.logs, stream) // a log that breaks off has been read as far as it goes
}

// Ready implements running.
func (p *pods) Ready(ctx context.Context) error {
	return p.on.world.Management.Ready(ctx, p.key)
}

// Stop implements running.
func (p *pods) Stop() error {
	defer p.cancel()
	p.mu.Lock()
	failure := p.failure
	p.mu.Unlock()
	return errors.Join(failure, p.end(false))
}

// Kill implements running.
func (p *pods) Kill() {
	p.mu.Lock()
	p.ended = true // whatever their codes
	p.mu.Unlock()
	if err := p.end(true); err != nil {
		p.on.failed(err)
	}
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(errors.New("killed"))
}

// end scales the Deployment to zero and waits until its Pods are gone.
func (p *pods) end(atOnce bool) error {
	return p.on.world.Management.End(context.Background(), p.key, "app.kubernetes.io/instance="+p.key.Name, atOnce)
}

// Done implements running.
func (p *pods) Done() <-chan struct{} { return p.done }

// Logs implements running.
func (p *pods) Logs() string { return p.logs.String() }
