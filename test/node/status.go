package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// publish tells the API server how the Pod is, if that has changed.
func (p *pod) publish(ctx context.Context) error {
	status := p.status()
	if equality.Semantic.DeepEqual(status, p.published) {
		return nil
	}
	// As the kubelet: a patch of what is different. Conditions are merged by their type, so that those of others stay.
	before, after := &corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.uid}, Status: *status}
	if p.published != nil {
		before.Status = *p.published
	}
	patch, err := difference(before, after)
	if err != nil {
		return fmt.Errorf("comparing the status: %w", err)
	}
	_, err = p.node.client.CoreV1().Pods(p.key.Namespace).Patch(ctx, p.key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone; the event is on its way
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	p.published = status
	return nil
}

func difference(before, after *corev1.Pod) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(old, current, corev1.Pod{})
}

// status is how the Pod is now.
func (p *pod) status() *corev1.PodStatus {
	status := &corev1.PodStatus{
		ObservedGeneration: p.object.Generation,
		HostIP:             podIP, HostIPs: []corev1.HostIP{{IP: podIP}},
		PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
		StartTime: new(metav1.Now().Rfc3339Copy()),
	}
	if p.published != nil {
		status.StartTime = p.published.StartTime
	}
	var unready []string
	for _, c := range p.containers {
		each := c.status()
		status.ContainerStatuses = append(status.ContainerStatuses, each)
		if !each.Ready {
			unready = append(unready, each.Name)
		}
	}
	status.Phase = p.phase()
	ready := corev1.PodCondition{Status: corev1.ConditionTrue}
	switch {
	case finished(status.Phase):
		ready = corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "PodCompleted"}
	case len(unready) > 0:
		ready = corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
			Message: "containers with unready status: [" + strings.Join(unready, " ") + "]",
		}
	}
	p.condition(status, corev1.PodInitialized, corev1.PodCondition{Status: corev1.ConditionTrue})
	p.condition(status, corev1.ContainersReady, ready)
	p.condition(status, corev1.PodReady, ready)
	return status
}

// condition adds a condition, which keeps its time as long as it stays the same.
func (p *pod) condition(status *corev1.PodStatus, kind corev1.PodConditionType, condition corev1.PodCondition) {
	condition.Type = kind
	condition.LastTransitionTime = metav1.Now().Rfc3339Copy()
	if p.published != nil {
		at := slices.IndexFunc(p.published.Conditions, func(each corev1.PodCondition) bool { return each.Type == kind })
		if at >= 0 && p.published.Conditions[at].Status == condition.Status {
			condition.LastTransitionTime = p.published.Conditions[at].LastTransitionTime
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func (p *pod) phase() corev1.PodPhase {
	ending := p.object.DeletionTimestamp != nil
	over, failed, begun := true, false, true
	for _, c := range p.containers {
		runs := c.current() != nil
		over = over && !runs && (c.over || ending)
		begun = begun && (runs || c.last != nil)
		failed = failed || c.last == nil || c.last.ExitCode != 0
	}
	switch {
	case over && failed:
		return corev1.PodFailed
	case over:
		return corev1.PodSucceeded
	case begun:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

func (c *container) status() corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts, Started: new(false),
	}
	current := c.current()
	switch {
	case current != nil:
		current.mu.Lock()
		status.Started, status.Ready = new(current.started), current.ready
		current.mu.Unlock()
		status.ContainerID, status.ImageID = current.id, c.spec.Image
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(current.startedAt)}
		status.LastTerminationState.Terminated = c.last
	case c.last != nil && (c.over || c.pod.object.DeletionTimestamp != nil):
		status.ContainerID, status.ImageID = c.last.ContainerID, c.spec.Image
		status.State.Terminated = c.last
	default:
		status.State.Waiting = c.waiting
		status.LastTerminationState.Terminated = c.last
	}
	return status
}
