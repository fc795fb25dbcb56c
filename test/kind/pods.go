package kind

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// podsTimeout is how long the Pods of a Deployment may take to end, or to get ready when images are there: two cores
// do everything.
const podsTimeout = 3 * time.Minute

// Ready returns nil if all Pods of a Deployment are of its newest kind and available, else how many are.
func (c *Cluster) Ready(ctx context.Context, key types.NamespacedName) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	deployment, err := clientset.AppsV1().Deployments(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	wanted, status := *deployment.Spec.Replicas, deployment.Status
	if status.ObservedGeneration < deployment.Generation || status.UpdatedReplicas != wanted || status.AvailableReplicas != wanted || status.Replicas != wanted {
		return fmt.Errorf("not ready: %d of %d replicas are up to date, %d available, %d in all", status.UpdatedReplicas, wanted, status.AvailableReplicas, status.Replicas)
	}
	return nil
}

// AwaitReady waits until Ready returns nil. Its error has what the Pods of the namespace have printed.
func (c *Cluster) AwaitReady(ctx context.Context, key types.NamespacedName, timeout time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = c.Ready(ctx, key)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for Deployment %s: %w\n%s", key, errors.Join(err, last), c.logsIn(key.Namespace))
	}
	return nil
}

// logsIn returns what the Pods of a namespace have printed. The context of who asks is over.
func (c *Cluster) logsIn(namespace string) string {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err.Error()
	}
	pods, err := clientset.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for i := range pods.Items {
		key := types.NamespacedName{Namespace: namespace, Name: pods.Items[i].Name}
		fmt.Fprintf(&all, "%s:\n%s\n", key, c.Logs(key))
	}
	return all.String()
}

// Scale changes how many Pods a Deployment has.
func (c *Cluster) Scale(ctx context.Context, key types.NamespacedName, replicas int) error {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = clientset.AppsV1().Deployments(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// End scales a Deployment to zero, if it is there, and waits until the Pods that the label selector names are gone. At
// once means that nothing in them is told, as on a machine that is lost.
func (c *Cluster) End(ctx context.Context, key types.NamespacedName, selector string, atOnce bool) error {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	if err := c.Scale(ctx, key, 0); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("scaling Deployment %s to zero: %w", key, err)
	}
	pods, mine := clientset.CoreV1().Pods(key.Namespace), metav1.ListOptions{LabelSelector: selector}
	if atOnce {
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, mine); err != nil {
			return fmt.Errorf("killing the Pods of Deployment %s: %w", key, err)
		}
	}
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, mine)
		if err != nil {
			return false, err
		}
		return len(list.Items) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of the Pods of Deployment %s: %w", key, err)
	}
	return nil
}
