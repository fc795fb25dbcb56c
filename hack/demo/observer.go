package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
)

// Names that Rancher gives.
const (
	agentNamespace = "cattle-system"
	agentName      = "cattle-cluster-agent"
	defaultToken   = "default-token"
	// derivedAnnotation is on every v3 Cluster that Rancher made from a v1 Cluster.
	derivedAnnotation = "provisioning.cattle.io/administrated"
)

// observer watches the management cluster and the workload clusters, so that the demo sees what happens when it
// happens, and asks nobody again and again.
type observer struct {
	management cache.Cache
	workloads  map[string]cache.Cache
	cancel     context.CancelFunc
	running    sync.WaitGroup

	mu      sync.Mutex
	changes chan struct{}
}

// startObserver begins to watch; ctx bounds the start only.
func startObserver(ctx context.Context, management *env.ControlPlane, workloads map[string]*env.ControlPlane) (*observer, error) {
	o := &observer{workloads: map[string]cache.Cache{}, changes: make(chan struct{})}
	var running context.Context
	running, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	o.management, err = o.startCache(running, ctx, management, &clusterv1.Cluster{}, &managementv3.Cluster{},
		&managementv3.ClusterRegistrationToken{}, &provisioningv1.Cluster{}, &corev1.Namespace{}, &corev1.Event{})
	for name, plane := range workloads {
		if err != nil {
			break
		}
		o.workloads[name], err = o.startCache(running, ctx, plane, &appsv1.Deployment{}, &corev1.Namespace{})
	}
	if err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

// startCache watches kinds of objects while running lasts. The watches have begun when it returns, or ctx has ended.
func (o *observer) startCache(running, ctx context.Context, plane *env.ControlPlane, kinds ...client.Object) (cache.Cache, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	c, err := cache.New(plane.Config, cache.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch: %w", err)
	}
	o.running.Go(func() { _ = c.Start(running) }) // without caches of its own to fail, it ends with its context
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { o.changed() },
		UpdateFunc: func(any, any) { o.changed() },
		DeleteFunc: func(any) { o.changed() },
	}
	for _, kind := range kinds {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return c, nil
}

// stop ends all watches.
func (o *observer) stop() {
	o.cancel()
	o.running.Wait()
}

// changed wakes whoever waits for a change.
func (o *observer) changed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changes)
	o.changes = make(chan struct{})
}

// nextChange returns a channel that is closed at the next change. Get it first, then look: so no change is missed.
func (o *observer) nextChange() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes
}

// view is what there is to see of one CAPI cluster, on all sides.
type view struct {
	// cluster is nil when there is none.
	cluster *clusterv1.Cluster
	// namespaceLabels are the labels of its Namespace.
	namespaceLabels map[string]string
	// record is the Rancher cluster that was made for it; nil when there is none.
	record client.Object
	// rancherClusters counts that and what Rancher derived from it.
	rancherClusters int
	// management is the v3 Cluster that Rancher works with: the record or what was derived from it.
	management *managementv3.Cluster
	// registered: Rancher has issued a registration token with an address.
	registered bool
	// agent: the Deployment of Rancher's agent is in the workload cluster.
	agent bool
	// agentNamespace: there is still something of the agent in the workload cluster.
	agentNamespace bool
	// events are those about the cluster.
	events []corev1.Event
}

// see collects a view from the caches.
func (o *observer) see(ctx context.Context, s subject) (view, error) {
	v := view{cluster: &clusterv1.Cluster{}}
	found, err := get(ctx, o.management, client.ObjectKey{Namespace: s.namespace, Name: s.name}, v.cluster)
	if !found {
		v.cluster = nil
	}
	namespace := &corev1.Namespace{}
	_, namespaceErr := get(ctx, o.management, client.ObjectKey{Name: s.namespace}, namespace)
	v.namespaceLabels = namespace.Labels
	return v, errors.Join(err, namespaceErr, o.seeRancher(ctx, s, &v), o.seeWorkload(ctx, s, &v), o.seeEvents(ctx, s, &v))
}

func (o *observer) seeRancher(ctx context.Context, s subject, v *view) error {
	owner := client.MatchingLabels{archelonv1.OwnerNameLabel: s.name, archelonv1.OwnerNamespaceLabel: s.namespace}
	v1, v3 := &provisioningv1.ClusterList{}, &managementv3.ClusterList{}
	if err := errors.Join(o.management.List(ctx, v1, owner), o.management.List(ctx, v3, owner)); err != nil {
		return err
	}
	v.rancherClusters = len(v1.Items) + len(v3.Items)
	for i := range v1.Items {
		v.record = &v1.Items[i]
	}
	for i := range v3.Items {
		v.management = &v3.Items[i]
		if _, derived := v3.Items[i].Annotations[derivedAnnotation]; !derived {
			v.record = v.management
		}
	}
	if v.management == nil {
		return nil
	}
	token := &managementv3.ClusterRegistrationToken{}
	_, err := get(ctx, o.management, client.ObjectKey{Namespace: v.management.Name, Name: defaultToken}, token)
	v.registered = token.Status.ManifestURL != ""
	return err
}

func (o *observer) seeWorkload(ctx context.Context, s subject, v *view) (err error) {
	reader, ok := o.workloads[s.name]
	if !ok {
		return nil // There is nothing where its kubeconfig leads to.
	}
	if v.agentNamespace, err = get(ctx, reader, client.ObjectKey{Name: agentNamespace}, &corev1.Namespace{}); err != nil {
		return err
	}
	v.agent, err = get(ctx, reader, client.ObjectKey{Namespace: agentNamespace, Name: agentName}, &appsv1.Deployment{})
	return err
}

// seeEvents looks for Events by the name of the cluster, those of earlier clusters of this name left out.
func (o *observer) seeEvents(ctx context.Context, s subject, v *view) error {
	if v.cluster == nil {
		return nil
	}
	list := &corev1.EventList{}
	if err := o.management.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for _, event := range list.Items {
		if event.InvolvedObject.UID == v.cluster.UID && strings.EqualFold(event.InvolvedObject.Kind, "Cluster") {
			v.events = append(v.events, event)
		}
	}
	return nil
}

// get reports whether an object exists, and reads it if so.
func get(ctx context.Context, reader client.Reader, key client.ObjectKey, object client.Object) (bool, error) {
	err := reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
