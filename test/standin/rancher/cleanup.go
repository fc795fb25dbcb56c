package rancher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// cleanup is one clean-up Job in a workload cluster and what was created for it.
type cleanup struct {
	job, role, binding, account string
}

// cleanedNamespaces are what the Job deletes.
func cleanedNamespaces() []string {
	return []string{
		agentNamespace, "cattle-fleet-system", "cattle-turtles-system",
		"cattle-impersonation-system", "cattle-logging", "cattle-prometheus",
	}
}

// cleanupTimeout bounds one attempt to reach a workload cluster for its clean-up.
const cleanupTimeout = 5 * time.Second

// createCleanupJob creates the Job in the workload cluster whose agent is connected for the
// v3 Cluster, through which Rancher reaches it.
func (f *fleet) createCleanupJob(ctx context.Context, cluster string) error {
	session, ok := f.standin.sessions.ofCluster(cluster)
	if !ok {
		return errors.New("no agent is connected")
	}
	w, ok := f.get(session.workload)
	if !ok {
		return errors.New("the workload cluster is unreachable")
	}
	w.mu.Lock()
	exists := w.cleanup != nil
	w.mu.Unlock()
	if exists {
		return nil // an earlier attempt lost the race for the cluster's finalizer
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	created, err := w.createCleanup(ctx, cluster)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.cleanup = created
	w.mu.Unlock()
	f.standin.delays.forget(workloadOwner(w.name), "cleanup")
	f.wake(w.name, 0)
	return nil
}

// createCleanup creates the Job and its rights, all with generated names.
func (w *workload) createCleanup(ctx context.Context, cluster string) (*cleanup, error) {
	meta := metav1.ObjectMeta{GenerateName: cleanupHead, Namespace: metav1.NamespaceDefault}
	out := &cleanup{}
	role, err := w.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cleanupHead},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ClusterRole: %w", err)
	}
	account, err := w.client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ServiceAccount: %w", err)
	}
	binding, err := w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: cleanupHead},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ClusterRoleBinding: %w", err)
	}
	out.role, out.account, out.binding = role.Name, account.Name, binding.Name
	job, err := w.client.BatchV1().Jobs(meta.Namespace).Create(ctx, cleanupJob(meta, cluster, out), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up Job: %w", err)
	}
	out.job = job.Name
	return out, nil
}

func cleanupJob(meta metav1.ObjectMeta, cluster string, c *cleanup) *batchv1.Job {
	meta.Labels = map[string]string{labelCreator: creatorNorman}
	meta.Annotations = map[string]string{"cattle.io/cleanup-role": c.role, "cattle.io/cleanup-binding": c.binding}
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:      corev1.RestartPolicyNever,
				ServiceAccountName: c.account,
				Containers: []corev1.Container{{
					Name:  "cleanup-agent",
					Image: defaultAgentImage,
					Env: []corev1.EnvVar{
						{Name: "CLUSTER_CLEANUP", Value: "true"},
						{Name: "SLEEP_FIRST", Value: "true"},
						{Name: "CATTLE_CLUSTER_NAME", Value: cluster},
					},
				}},
			}},
		},
	}
}

// runCleanup does what the Job does, once its sleep is over.
func (f *fleet) runCleanup(ctx context.Context, w *workload) (time.Duration, error) {
	if err := w.adoptCleanup(ctx); err != nil {
		return 0, err
	}
	w.mu.Lock()
	current := w.cleanup
	w.mu.Unlock()
	if current == nil {
		return f.finishDoomed(ctx, w)
	}
	if wait := f.standin.delays.remaining(workloadOwner(w.name), "cleanup", f.standin.opts.Timings.Cleanup); wait > 0 {
		return wait, nil
	}
	if err := f.clean(ctx, w, current); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.cleanup = nil
	w.mu.Unlock()
	f.standin.delays.forget(workloadOwner(w.name), "cleanup")
	return f.finishDoomed(ctx, w)
}

// adoptCleanup looks, once, for a Job of an earlier stand-in. API servers without Jobs have none.
func (w *workload) adoptCleanup(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.adopted {
		return nil
	}
	jobs, err := w.client.BatchV1().Jobs(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		LabelSelector: labelCreator + "=" + creatorNorman,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking for clean-up Jobs: %w", err)
	}
	w.adopted = true
	if err != nil || w.cleanup != nil {
		return nil
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !strings.HasPrefix(job.GenerateName, cleanupHead) || !job.DeletionTimestamp.IsZero() {
			continue
		}
		w.cleanup = &cleanup{
			job:     job.Name,
			account: job.Spec.Template.Spec.ServiceAccountName,
			role:    job.Annotations["cattle.io/cleanup-role"],
			binding: job.Annotations["cattle.io/cleanup-binding"],
		}
	}
	return nil
}

// clean removes Rancher from the workload cluster, and the Job last. On a cluster that runs
// Rancher itself it removes nothing.
func (f *fleet) clean(ctx context.Context, w *workload, c *cleanup) error {
	_, err := w.client.CoreV1().Services(agentNamespace).Get(ctx, "rancher", metav1.GetOptions{})
	if err == nil {
		f.standin.opts.Logger.Info("clean-up found Rancher itself and removed nothing", "workload", w.name)
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("looking for Rancher in workload cluster %s: %w", w.name, err)
	}
	if err := w.deleteNamespaces(ctx); err != nil {
		return err
	}
	if err := w.deleteRBAC(ctx, c); err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	err = w.client.BatchV1().Jobs(metav1.NamespaceDefault).Delete(ctx, c.job, metav1.DeleteOptions{PropagationPolicy: &background})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("deleting the clean-up Job: %w", err)
	}
	f.standin.opts.Logger.Info("workload cluster was cleaned up", "workload", w.name)
	return nil
}

func (w *workload) deleteNamespaces(ctx context.Context) error {
	namespaces := w.client.CoreV1().Namespaces()
	for _, name := range cleanedNamespaces() {
		ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if len(ns.Finalizers) > 0 {
			ns.Finalizers = nil
			if _, err := namespaces.Update(ctx, ns, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("removing the finalizers of namespace %s: %w", name, err)
			}
		}
		if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); ignoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting namespace %s: %w", name, err)
		}
		w.mu.Lock()
		w.doomed = append(w.doomed, name)
		w.mu.Unlock()
	}
	return nil
}

// deleteRBAC deletes what carries Norman's label, and what the Job ran with.
func (w *workload) deleteRBAC(ctx context.Context, c *cleanup) error {
	mine := metav1.ListOptions{LabelSelector: labelCreator + "=" + creatorNorman}
	none := metav1.DeleteOptions{}
	rbac := w.client.RbacV1()
	for what, run := range map[string]func() error{
		"labelled ClusterRoles":        func() error { return rbac.ClusterRoles().DeleteCollection(ctx, none, mine) },
		"labelled ClusterRoleBindings": func() error { return rbac.ClusterRoleBindings().DeleteCollection(ctx, none, mine) },
		"the Job's ClusterRole": func() error {
			return deleteNamed(c.role, func() error { return rbac.ClusterRoles().Delete(ctx, c.role, none) })
		},
		"the Job's ClusterRoleBinding": func() error {
			return deleteNamed(c.binding, func() error { return rbac.ClusterRoleBindings().Delete(ctx, c.binding, none) })
		},
		"the Job's ServiceAccount": func() error {
			return deleteNamed(c.account, func() error {
				return w.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Delete(ctx, c.account, none)
			})
		},
	} {
		if err := run(); ignoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s: %w", what, err)
		}
	}
	return nil
}

func deleteNamed(name string, run func() error) error {
	if name == "" {
		return nil
	}
	return run()
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finishDoomed sees to it that deleted namespaces end, also without a namespace controller.
func (f *fleet) finishDoomed(ctx context.Context, w *workload) (time.Duration, error) {
	w.mu.Lock()
	doomed := w.doomed
	w.mu.Unlock()
	var left []string
	var waits []time.Duration
	for _, name := range doomed {
		wait, err := f.standin.finishNamespace(ctx, w.emptier, w.name, name)
		if err != nil {
			return 0, err
		}
		if wait > 0 {
			left = append(left, name)
			waits = append(waits, wait)
		}
	}
	w.mu.Lock()
	w.doomed = left
	w.mu.Unlock()
	return soonest(waits...), nil
}
