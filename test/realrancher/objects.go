package realrancher

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managementNode is the Node on which the Pods of Rancher and its webhook are said to run.
const managementNode = "management"

// createObjects creates what an installation of Rancher finds in its cluster, and what its chart
// creates for others to find it.
func (p *programs) createObjects(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: managementNode, Labels: map[string]string{
		corev1.LabelOSStable: "linux", "node-role.kubernetes.io/control-plane": "",
	}}}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: rancherNamespace, Name: webhookName},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": webhookName},
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.Parse(webhookPort)}},
		},
	}
	for _, object := range []client.Object{node, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rancherNamespace}}, service} {
		if err := p.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	now := metav1.Now()
	// Controllers write the Node as well.
	before := node.DeepCopy()
	node.Spec.Taints = nil
	if err := p.Client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return err
	}
	before = node.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	if err := p.Client.Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return err
	}
	for _, app := range []string{rancherName, webhookName} {
		if err := p.createPod(ctx, app); err != nil {
			return fmt.Errorf("creating the Pod of %s: %w", app, err)
		}
	}
	return nil
}

// createPod creates a Pod that says where a program is, so that Services lead there. Nothing runs it.
func (p *programs) createPod(ctx context.Context, app string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: rancherNamespace, Name: app, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName: managementNode, HostNetwork: true, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: app, Image: app}},
		},
	}
	// The ServiceAccount of a new namespace comes a moment later.
	err := await(ctx, "the ServiceAccount of namespace "+rancherNamespace, func(ctx context.Context) error {
		if err := p.Client.Create(ctx, pod); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	before, now := pod.DeepCopy(), metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: address, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &now}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: app, Image: app, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	return p.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
}
