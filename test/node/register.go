package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// register creates the Node object, ready and without the taint that the API server gives to every new one.
func (n *Node) register(ctx context.Context) error {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	nodes := n.client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.opts.Name, Labels: map[string]string{
			corev1.LabelHostname: n.opts.Name, corev1.LabelOSStable: "linux", // whatever this machine is: it is what charts ask for
		}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the Node: %w", err)
	}
	// Controllers write the Node as well.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object, err := nodes.Get(ctx, n.opts.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Spec.Taints = nil
		if object, err = nodes.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			return err
		}
		now := metav1.Now()
		object.Status.Capacity, object.Status.Allocatable = resources, resources
		object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: podIP}}
		object.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now,
		}}
		_, err = nodes.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("reporting the Node as ready: %w", err)
	}
	return nil
}
