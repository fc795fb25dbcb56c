package uninstall

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
)

// stopManager scales the Deployment of the manager to zero: as long as it runs, it takes
// clusters again that are let go.
func (u *uninstaller) stopManager(ctx context.Context) error {
	if u.opts.Deployment == "" {
		return nil
	}
	return u.until(ctx, func(ctx context.Context) (bool, error) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
		err := u.home.SubResource("scale").Patch(ctx, u.deployment(), patch, client.WithSubResourceBody(&autoscalingv1.Scale{}))
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("scaling Deployment %s to zero: %w", u.opts.Deployment, err)
		}
		if err == nil {
			u.say("Scaled Deployment %s to zero", u.opts.Deployment)
		}
		return true, nil
	})
}

// awaitStop waits until the manager has no replicas and nobody holds its Lease. A replica that is told to stop gives
// the Lease back when it has ended its work; that of one which was killed runs out.
func (u *uninstaller) awaitStop(ctx context.Context) error {
	return u.until(ctx, func(ctx context.Context) (bool, error) {
		if u.opts.Deployment != "" {
			scale := &autoscalingv1.Scale{}
			if err := u.home.SubResource("scale").Get(ctx, u.deployment(), scale); client.IgnoreNotFound(err) != nil {
				return false, fmt.Errorf("getting the scale of Deployment %s: %w", u.opts.Deployment, err)
			}
			if scale.Spec.Replicas > 0 || scale.Status.Replicas > 0 {
				return false, fmt.Errorf("%d replicas of Deployment %s have not stopped", scale.Status.Replicas, u.opts.Deployment)
			}
		}
		lease := &coordinationv1.Lease{}
		if err := u.home.Get(ctx, client.ObjectKey{Namespace: u.self.Namespace, Name: u.self.LeaseName()}, lease); err != nil {
			return client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
		}
		if instance.Held(lease, time.Now()) {
			return false, fmt.Errorf("lease %s is held by %s", lease.Name, *lease.Spec.HolderIdentity)
		}
		return true, nil
	})
}

func (u *uninstaller) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.opts.InstanceNamespace, Name: u.opts.Deployment}}
}
