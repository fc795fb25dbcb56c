package rancher

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/archelon-io/archelon/test/standin/agent"
)

// cleanupTimeout bounds one attempt to reach a workload cluster for its clean-up.
const cleanupTimeout = time.Minute

// createCleanupJob creates the Job in the workload cluster whose agent is connected for the
// v3 Cluster, through which Rancher reaches it. A real agent's program does the rest in a Pod of the Job.
func (f *fleet) createCleanupJob(ctx context.Context, cluster string) error {
	session, ok := f.standin.sessions.ofCluster(cluster)
	if !ok {
		return errors.New("no agent is connected")
	}
	w, ok := f.get(session.workload)
	if !ok {
		return errors.New("the workload cluster is unreachable")
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	exists, err := w.hasCleanup(ctx)
	if err != nil || exists && !w.takeRepeat() {
		return err // it exists if an earlier attempt lost the race for the cluster's finalizer
	}
	created, err := f.createCleanup(ctx, w, cluster)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.cleanup = created
	w.mu.Unlock()
	if !exists {
		f.standin.delays.forget(workloadOwner(w.name), "cleanup")
	}
	f.wake(w.name, 0)
	return nil
}

// repeatCleanup has the next attempt create a Job although there is one.
func (f *fleet) repeatCleanup(cluster string) {
	session, ok := f.standin.sessions.ofCluster(cluster)
	if !ok {
		return
	}
	if w, ok := f.get(session.workload); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.repeat = true
	}
}

// takeRepeat says whether a Job is wanted beside the one that there is, and that it comes.
func (w *workload) takeRepeat() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.repeat = false }()
	return w.repeat
}

// hasCleanup says whether a Job is on its way. One that is not played here may have ended since.
func (w *workload) hasCleanup(ctx context.Context) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cleanup == nil || !w.realAgent {
		return w.cleanup != nil, nil
	}
	_, err := w.client.BatchV1().Jobs(metav1.NamespaceDefault).Get(ctx, w.cleanup.Job, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.cleanup = nil
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the clean-up Job: %w", err)
	}
	return true, nil
}

// createCleanup creates the Job and its rights, all with generated names.
func (f *fleet) createCleanup(ctx context.Context, w *workload, cluster string) (*agent.Cleanup, error) {
	out := &agent.Cleanup{}
	role, err := w.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: agent.CleanupHead},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ClusterRole: %w", err)
	}
	// Rancher makes the Job the owner of the others instead, which the garbage collector does not accept for ClusterRoles.
	meta := metav1.ObjectMeta{GenerateName: agent.CleanupHead, Namespace: metav1.NamespaceDefault, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: role.UID,
	}}}
	account, err := w.client.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ServiceAccount: %w", err)
	}
	binding, err := w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: agent.CleanupHead, OwnerReferences: meta.OwnerReferences},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up's ClusterRoleBinding: %w", err)
	}
	out.Role, out.Account, out.Binding = role.Name, account.Name, binding.Name
	job, err := w.client.BatchV1().Jobs(meta.Namespace).Create(ctx, f.standin.cleanupJob(meta, cluster, out), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating the clean-up Job: %w", err)
	}
	out.Job = job.Name
	return out, nil
}

func (s *Standin) cleanupJob(meta metav1.ObjectMeta, cluster string, c *agent.Cleanup) *batchv1.Job {
	meta.Labels = map[string]string{agent.CreatorLabel: agent.CreatorNorman}
	meta.Annotations = c.Annotations()
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:      corev1.RestartPolicyNever,
				ServiceAccountName: c.Account,
				Containers: []corev1.Container{{
					Name:  "cleanup-agent",
					Image: s.opts.AgentImage,
					Env: []corev1.EnvVar{
						{Name: "CLUSTER_CLEANUP", Value: "true"},
						{Name: "SLEEP_FIRST", Value: "true"},
						{Name: "CATTLE_CLUSTER_NAME", Value: cluster},
						{Name: agent.SleepVariable, Value: s.opts.Timings.Cleanup.String()},
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
	if err := f.clean(ctx, w); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.cleanup = nil
	w.mu.Unlock()
	f.standin.delays.forget(workloadOwner(w.name), "cleanup")
	return f.finishDoomed(ctx, w)
}

// adoptCleanup looks, once, for a Job of an earlier stand-in.
func (w *workload) adoptCleanup(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.adopted {
		return nil
	}
	found, err := agent.FindCleanups(ctx, w.client)
	if err != nil {
		return err
	}
	w.adopted = true
	if len(found) > 0 && w.cleanup == nil {
		w.cleanup = &found[len(found)-1]
	}
	return nil
}

// clean removes Rancher from the workload cluster, and the Jobs last. On a cluster that runs
// Rancher itself it removes nothing.
func (f *fleet) clean(ctx context.Context, w *workload) error {
	itself, err := agent.HasRancher(ctx, w.client)
	if err != nil {
		return fmt.Errorf("cleaning workload cluster %s up: %w", w.name, err)
	}
	if itself {
		f.standin.opts.Logger.Info("clean-up found Rancher itself and removed nothing", "workload", w.name)
		return nil
	}
	deleted, err := agent.Clean(ctx, w.client)
	w.mu.Lock()
	w.doomed = append(w.doomed, deleted...)
	w.mu.Unlock()
	var jobs []agent.Cleanup
	if err == nil {
		jobs, err = agent.FindCleanups(ctx, w.client)
	}
	for i := range jobs {
		err = errors.Join(err, jobs[i].Remove(ctx, w.client))
	}
	if err != nil {
		return fmt.Errorf("cleaning workload cluster %s up: %w", w.name, err)
	}
	f.standin.opts.Logger.Info("workload cluster was cleaned up", "workload", w.name)
	return nil
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
