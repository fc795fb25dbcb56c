package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/examples/fleet/inventory"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/providers/capi"
)

// podController is the name of the controller of the example in metrics.
const podController = "inventory"

// podCounter runs the controller of examples/fleet, in a program of its own in real life.
type podCounter struct {
	world    *world
	registry *prometheus.Registry
	provider *capi.Provider
	stop     func() error

	mu   sync.Mutex
	pods map[multicluster.ClusterName]int
}

// startPodCounter runs the controller until it is stopped.
func startPodCounter(ctx context.Context, w *world) (*podCounter, error) {
	c := &podCounter{world: w, registry: prometheus.NewRegistry(), pods: map[multicluster.ClusterName]int{}}
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	local, err := ctrl.NewManager(w.stage.Management.Config, ctrl.Options{
		Scheme: known, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("building the manager of the controller: %w", err)
	}
	if c.provider, err = capi.New(local, capi.Options{Metrics: c.registry}); err != nil {
		return nil, err
	}
	fleet, err := mcmanager.WithMultiCluster(local, c.provider, capi.EndSources())
	if err != nil {
		return nil, fmt.Errorf("building the manager of the fleet: %w", err)
	}
	if err := inventory.AddToManager(fleet, podController, c.report); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- fleet.Start(ctx) }()
	c.stop = func() error {
		cancel()
		return <-ended
	}
	return c, nil
}

func (c *podCounter) report(name multicluster.ClusterName, pods int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pods[name] = pods
}

func (c *podCounter) counts() map[multicluster.ClusterName]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.pods)
}

// becomes waits until the controller counts what there is.
func (c *podCounter) becomes(ctx context.Context, want map[multicluster.ClusterName]int) error {
	err := c.world.until(ctx, func() bool { return maps.Equal(c.counts(), want) })
	if err != nil {
		return fmt.Errorf("the controller counts %v instead of %v: %w", c.counts(), want, err)
	}
	return nil
}

// show prints what the controller counts.
func (c *podCounter) show(p *printer, clusters []subject) {
	counts := c.counts()
	for _, s := range clusters {
		p.lines(fmt.Sprintf("%-21s %3d Pods", fleetName(s), counts[fleetName(s)]))
	}
}

// rotations is how many kubeconfigs have taken the place of others.
func (c *podCounter) rotations() float64 {
	return sumOf(c.registry, "archelon_fleet_rotations_total", "", "")
}

// failures is how many reconciles have failed.
func (c *podCounter) failures() float64 {
	return sumOf(metrics.Registry, "controller_runtime_reconcile_errors_total", "controller", podController)
}

// sumOf adds up a counter, with a label if one is named.
func sumOf(of prometheus.Gatherer, name, label, value string) float64 {
	families, err := of.Gather()
	if err != nil {
		return 0 // It is asked again.
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label && pair.GetValue() == value {
					sum += metric.GetCounter().GetValue()
				}
			}
			if label == "" {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// createPods creates Pods in a workload cluster, one after the other.
func (w *world) createPods(ctx context.Context, s subject, count int) error {
	admin, err := client.New(w.workloads[s.name].Config, client.Options{})
	if err != nil {
		return fmt.Errorf("building a client of %s: %w", s.name, err)
	}
	for range count {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "pod-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
		}
		if err := admin.Create(ctx, pod); err != nil {
			return fmt.Errorf("creating a Pod in %s: %w", s.name, err)
		}
		select {
		case <-time.After(podsEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// administrator is a ServiceAccount that may do everything in its cluster.
func administrator(name string) []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "demo-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
		},
	}
}

// until waits for something that nobody tells of.
func (w *world) until(ctx context.Context, is func() bool) error {
	err := wait.PollUntilContextTimeout(ctx, readyCheck, patience, true, func(context.Context) (bool, error) {
		return is(), w.alive()
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return errTooLong
	}
	return err
}
