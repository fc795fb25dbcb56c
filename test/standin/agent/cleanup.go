package agent

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Names of the clean-up.
const (
	// Namespace is where Rancher's agent lives.
	Namespace = "cattle-system"
	// CleanupHead begins the name of the Job and of all that was created for it.
	CleanupHead = "cattle-cleanup-"
	// CreatorLabel with value CreatorNorman marks what Rancher created.
	CreatorLabel  = "cattle.io/creator"
	CreatorNorman = "norman"

	roleAnnotation    = "cattle.io/cleanup-role"
	bindingAnnotation = "cattle.io/cleanup-binding"
)

// Cleanup is one clean-up Job in namespace default and what was created for it. The ClusterRole owns the others, so
// that a Job which has no other rights can remove all of them, itself included, with one request.
type Cleanup struct {
	Job, Role, Binding, Account string
}

// Annotations returns what the Job has to carry for FindCleanups.
func (c Cleanup) Annotations() map[string]string {
	return map[string]string{roleAnnotation: c.Role, bindingAnnotation: c.Binding}
}

// FindCleanups returns the clean-up Jobs of a cluster. API servers without Jobs have none.
func FindCleanups(ctx context.Context, client kubernetes.Interface) ([]Cleanup, error) {
	jobs, err := client.BatchV1().Jobs(metav1.NamespaceDefault).List(ctx, mine())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for clean-up Jobs: %w", err)
	}
	var out []Cleanup
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !strings.HasPrefix(job.GenerateName, CleanupHead) || !job.DeletionTimestamp.IsZero() {
			continue
		}
		out = append(out, Cleanup{
			Job:     job.Name,
			Account: job.Spec.Template.Spec.ServiceAccountName,
			Role:    job.Annotations[roleAnnotation],
			Binding: job.Annotations[bindingAnnotation],
		})
	}
	return out, nil
}

// namespaces are what a clean-up deletes.
func namespaces() []string {
	return []string{
		Namespace, "cattle-fleet-system", "cattle-turtles-system",
		"cattle-impersonation-system", "cattle-logging", "cattle-prometheus",
	}
}

func mine() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: CreatorLabel + "=" + CreatorNorman}
}

// HasRancher says whether the cluster runs Rancher itself, and therefore is not to be cleaned up.
func HasRancher(ctx context.Context, client kubernetes.Interface) (bool, error) {
	_, err := client.CoreV1().Services(Namespace).Get(ctx, "rancher", metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for Rancher: %w", err)
	}
	return err == nil, nil
}

// Clean removes Rancher from a cluster, except for the clean-up itself: see Remove and RemoveSelf. It returns the
// namespaces that it deleted, whose end may take a while, also after an error.
func Clean(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	var deleted []string
	for _, name := range namespaces() {
		did, err := deleteNamespace(ctx, client, name)
		if err != nil {
			return deleted, err
		}
		if did {
			deleted = append(deleted, name)
		}
	}
	rbac := client.RbacV1()
	if err := rbac.ClusterRoleBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, mine()); err != nil {
		return deleted, fmt.Errorf("deleting labelled ClusterRoleBindings: %w", err)
	}
	if err := rbac.ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{}, mine()); err != nil {
		return deleted, fmt.Errorf("deleting labelled ClusterRoles: %w", err)
	}
	return deleted, nil
}

// deleteNamespace deletes a namespace without regard to its finalizers, and says whether there was one.
func deleteNamespace(ctx context.Context, client kubernetes.Interface, name string) (bool, error) {
	all := client.CoreV1().Namespaces()
	ns, err := all.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if len(ns.Finalizers) > 0 {
		ns.Finalizers = nil
		if _, err := all.Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
			return false, fmt.Errorf("removing the finalizers of namespace %s: %w", name, err)
		}
	}
	if err := all.Delete(ctx, name, metav1.DeleteOptions{}); ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return true, nil
}

// Remove deletes what was created for the clean-up, and the Job last.
func (c Cleanup) Remove(ctx context.Context, client kubernetes.Interface) error {
	background := metav1.DeletePropagationBackground
	none := metav1.DeleteOptions{}
	for _, step := range []struct {
		what, name string
		run        func(name string) error
	}{
		{"ServiceAccount", c.Account, func(name string) error {
			return client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Delete(ctx, name, none)
		}},
		{"ClusterRoleBinding", c.Binding, func(name string) error { return client.RbacV1().ClusterRoleBindings().Delete(ctx, name, none) }},
		{"ClusterRole", c.Role, func(name string) error { return client.RbacV1().ClusterRoles().Delete(ctx, name, none) }},
		{"Job", c.Job, func(name string) error {
			return client.BatchV1().Jobs(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		}},
	} {
		if step.name == "" {
			continue
		}
		if err := step.run(step.name); ignoreNotFound(err) != nil {
			return fmt.Errorf("deleting the clean-up's %s: %w", step.what, err)
		}
	}
	return nil
}

// RemoveSelf is Remove for the Job itself, which has no rights any more after its first deletion: that of the
// ClusterRole, from which the garbage collector goes on.
func (c Cleanup) RemoveSelf(ctx context.Context, client kubernetes.Interface) error {
	background := metav1.DeletePropagationBackground
	err := client.RbacV1().ClusterRoles().Delete(ctx, c.Role, metav1.DeleteOptions{PropagationPolicy: &background})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting the clean-up's ClusterRole: %w", err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
