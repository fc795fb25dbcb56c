package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	importLabel = "cluster-api.cattle.io/rancher-auto-import"
	// agentClient is the user agent of the stand-in's agents in workload clusters.
	agentClient = "cattle-agent"
	// creators is how many clusters are prepared, or changed, at once.
	creators = 16
	// progressPause is between two lines about how far something has got.
	progressPause = 10 * time.Second
)

// member is one CAPI cluster of the benchmark.
type member struct {
	name, namespace string
	// dead says that its workload cluster never answers.
	dead bool
	// lone says that it is not one of the crowd.
	lone bool
}

// crowdOf names the clusters. Neighbours share a namespace, so that each namespace has its share of black holes.
func crowdOf(o *options, dead map[int]bool) []member {
	members := make([]member, o.Clusters)
	for i := range members {
		members[i] = member{
			name:      fmt.Sprintf("c-%04d", i),
			namespace: fmt.Sprintf("bench-%02d", i*o.Namespaces/o.Clusters),
			dead:      dead[i],
		}
	}
	return members
}

// crowdIn leaves out the lone ones.
func crowdIn(members []member) []member {
	return slices.DeleteFunc(slices.Clone(members), func(m member) bool { return m.lone })
}

// namespacesOf returns the namespaces of the members in order.
func namespacesOf(members []member) []string {
	var names []string
	for _, m := range members {
		if len(names) == 0 || names[len(names)-1] != m.namespace {
			names = append(names, m.namespace)
		}
	}
	return names
}

// settle creates the members with their kubeconfigs, their control planes up and nothing selected, and lets agents
// run in the workload clusters that answer.
func (r *run) settle(ctx context.Context) error {
	for _, name := range namespacesOf(r.members) {
		if err := r.stage.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	var done atomic.Int64
	calls := make([]func() error, len(r.members))
	for i, m := range r.members {
		calls[i] = func() error {
			defer done.Add(1)
			return r.settleOne(ctx, m)
		}
	}
	defer r.tell(func() string {
		return fmt.Sprintf("%d of %d clusters with %d Secrets each", done.Load(), len(calls), clusterSecrets+r.options.Machines)
	})()
	return severally(calls)
}

// tell says again and again how far something has got, until the function that it returns is called.
func (r *run) tell(progress func() string) (stop func()) {
	ended, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		ticker := time.NewTicker(progressPause)
		defer ticker.Stop()
		for began := time.Now(); ; {
			select {
			case <-ticker.C:
				r.say("  %3.0f s: %s", time.Since(began).Seconds(), progress())
			case <-ended:
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-closed
	}
}

// severally calls all functions, a few at a time, and fewer once one has failed.
func severally(calls []func() error) error {
	queue := make(chan func() error)
	errs := make([]error, creators)
	var workers sync.WaitGroup
	for i := range creators {
		workers.Go(func() {
			for call := range queue {
				if errs[i] == nil {
					errs[i] = call()
				}
			}
		})
	}
	for _, call := range calls {
		queue <- call
	}
	close(queue)
	workers.Wait()
	return errors.Join(errs...)
}

func (r *run) settleOne(ctx context.Context, m member) error {
	s := r.stage
	kubeconfig, err := r.servers.Kubeconfig(m.name)
	if m.dead {
		kubeconfig, err = r.servers.BlackHole(m.name)
	}
	if err != nil {
		return err
	}
	cluster := builder.Cluster(m.namespace, m.name)
	if err := s.Client.Create(ctx, cluster); err != nil {
		return fmt.Errorf("creating cluster %s: %w", m.name, err)
	}
	for _, secret := range secretsOf(cluster, kubeconfig, r.options.Machines) {
		if err := s.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
		}
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		builder.ControlPlaneUp(cluster)
		return s.Client.Status().Update(ctx, cluster)
	})
	if err != nil {
		return fmt.Errorf("bringing up the control plane of %s: %w", m.name, err)
	}
	if m.dead {
		return nil // Rancher does not reach it either
	}
	config := rest.CopyConfig(r.servers.Config(m.name))
	config.UserAgent = agentClient + "/bench"
	return r.rancher.run(m.name, config)
}

// choose labels the namespaces and tells the recorder when each was.
func choose(ctx context.Context, s *stage.Stage, members []member, recorder *recorder) error {
	for _, name := range namespacesOf(members) {
		recorder.chosen(name, time.Now())
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, importLabel)
		if err := s.Client.Patch(ctx, namespace, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			return fmt.Errorf("labelling namespace %s: %w", name, err)
		}
	}
	return nil
}

// conditionOf returns status and reason of the import's condition, as "True/Imported".
func conditionOf(cluster *clusterv1.Cluster) string {
	for _, c := range cluster.Status.Conditions {
		if c.Type == "RancherImported" {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return "none"
}
