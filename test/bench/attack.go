package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/test/builder"
)

// What hostile tenants have in one namespace. Half of the Secrets are as large as a kubeconfig may be, so that they are
// parsed; the others are too large.
const (
	hostileNamespace = "hostile"
	hostileSecrets   = 200
	hostileEnvs      = 200
	hostileLeases    = 2000
	// hostileScopes is how many of the Leases change their scope all the time.
	hostileScopes = 20

	hostileLarge      = 512 << 10
	hostileSmall      = 63 << 10
	hostileAnnotation = 200 << 10
	hostileLeaseSize  = 32 << 10
	// hostilePause is between two changes of a Secret and of an environment, hostileLeasePause between those of Leases.
	hostilePause      = 500 * time.Millisecond
	hostileLeasePause = 5 * time.Second
)

// attack is what hostile tenants do.
type attack struct{ client client.Client }

// begin writes everything once.
func (a *attack) begin(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostileNamespace, Labels: map[string]string{importLabel: "true"}}}
	if err := a.client.Create(ctx, namespace); err != nil {
		return err
	}
	var calls []func() error
	for i := range hostileSecrets {
		calls = append(calls, func() error {
			return errors.Join(a.client.Create(ctx, hostileSecret(i, 0)), a.cluster(ctx, secretName(i), ""))
		})
	}
	for i := range hostileEnvs {
		calls = append(calls, func() error { return a.cluster(ctx, envName(i), hostileEnv(0)) })
	}
	for i := range hostileLeases {
		calls = append(calls, func() error { return a.client.Create(ctx, hostileLease(i)) })
	}
	return severally(calls)
}

// goOn changes one thing after the other until the returned function is called, which returns what went wrong.
func (a *attack) goOn(ctx context.Context) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, 2)
	again := func(i int, pause time.Duration, change func(turn int) error) {
		running.Go(func() {
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			for turn := 1; errs[i] == nil; turn++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				if err := change(turn); err != nil && ctx.Err() == nil {
					errs[i] = err
				}
			}
		})
	}
	again(0, hostilePause, func(turn int) error {
		env := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, archelonv1.AgentEnvAnnotation, hostileEnv(turn))
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: hostileNamespace, Name: envName(turn % hostileEnvs)}}
		return errors.Join(
			a.client.Update(ctx, hostileSecret(turn%hostileSecrets, turn)),
			a.client.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", env)))
	})
	again(1, hostileLeasePause, func(turn int) error {
		for i := range hostileScopes {
			scope := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, archelonv1.ScopeAnnotation, fmt.Sprintf("-other-%d", turn))
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hostileNamespace, Name: hostileLease(i).Name}}
			if err := a.client.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", scope)); err != nil {
				return err
			}
		}
		return nil
	})
	return func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
}

func secretName(i int) string { return fmt.Sprintf("secret-%04d", i) }
func envName(i int) string    { return fmt.Sprintf("env-%04d", i) }

// cluster creates a cluster whose control plane is up.
func (a *attack) cluster(ctx context.Context, name, env string) error {
	cluster := builder.Cluster(hostileNamespace, name)
	if env != "" {
		cluster.Annotations = map[string]string{archelonv1.AgentEnvAnnotation: env}
	}
	if err := a.client.Create(ctx, cluster); err != nil {
		return err
	}
	up := builder.Cluster(hostileNamespace, name)
	builder.ControlPlaneUp(up)
	patched := cluster.DeepCopy()
	patched.Status = up.Status
	return a.client.Status().Patch(ctx, patched, client.MergeFrom(cluster))
}

// hostileSecret has a kubeconfig of lists, and annotations that are nearly as large as they may be.
// It differs from turn to turn.
func hostileSecret(i, turn int) *corev1.Secret {
	size := hostileLarge
	if i%2 == 0 {
		size = hostileSmall
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\n# %d\nusers: [", turn)
	text += strings.Repeat("{name: a},", (size-len(text)-1)/10) + "]"
	secret := builder.KubeconfigSecret(hostileNamespace, secretName(i), []byte(text))
	secret.Annotations = map[string]string{"example.com/large": strings.Repeat("x", hostileAnnotation)}
	return secret
}

func hostileEnv(turn int) string {
	return fmt.Sprintf("# %d\na: [", turn) + strings.Repeat("[[]],", hostileAnnotation/5) + "]"
}

// hostileLease looks like that of an instance which has been there for a year and claims everything.
func hostileLease(i int) *coordinationv1.Lease {
	name := fmt.Sprintf("fake-%04d", i)
	long := metav1.NewMicroTime(time.Now().AddDate(-1, 0, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: hostileNamespace, Name: name + "-leader-election", Labels: map[string]string{archelonv1.InstanceLabel: name},
			Annotations: map[string]string{archelonv1.ScopeAnnotation: "*", "example.com/large": strings.Repeat("x", hostileLeaseSize)},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("fake"), LeaseDurationSeconds: new(int32(86400)), AcquireTime: &long, RenewTime: &long},
	}
}
