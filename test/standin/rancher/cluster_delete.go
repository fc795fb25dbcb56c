package rancher

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cleanupAttempts is how often Rancher tries to create the clean-up Job.
const cleanupAttempts = 3

// deleteCluster takes Rancher's finalizers off, one per write. A wait in one handler does not
// hold up the others.
func (r *reactor) deleteCluster(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	var waits []time.Duration
	for _, handler := range []struct {
		finalizer string
		run       phase
	}{
		{finalizerAgent, r.cleanDownstream},
		{finalizerScopedGC, nothing},
		{finalizerProvision, nothing},
		{finalizerRemove, r.removeCompanions},
		{finalizerRBAC, r.removeBackingNamespace},
	} {
		if !slices.Contains(cluster.GetFinalizers(), handler.finalizer) {
			continue
		}
		wait, err := handler.run(ctx, cluster)
		if err != nil {
			return 0, err
		}
		if wait > 0 {
			waits = append(waits, wait)
			continue
		}
		if wait == watched {
			continue
		}
		if err := r.write(ctx, cluster, dropFinalizer(handler.finalizer)); err != nil {
			if handler.finalizer == finalizerAgent && apierrors.IsInternalError(err) {
				r.fleet.repeatCleanup(cluster.GetName()) // its webhook is away, and Rancher does not remember what it has done
			}
			return 0, err
		}
	}
	return soonest(waits...), nil
}

// watched, as the wait of a handler of a deletion, means that the finalizer stays until a
// watch brings news.
const watched time.Duration = -1

func nothing(context.Context, *unstructured.Unstructured) (time.Duration, error) { return 0, nil }

// cleanDownstream creates the clean-up Job if an agent has ever connected. An unreachable
// cluster is given up after three attempts.
func (r *reactor) cleanDownstream(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	name := cluster.GetName()
	if text(cluster, "status", "driver") == "" {
		return 0, nil
	}
	attempt := r.cleanupAttempt(name)
	step := fmt.Sprintf("cleanup/%d", attempt)
	if attempt > 0 {
		if wait := r.delays.remaining(clusterOwner(name), step, r.opts.Timings.CleanupRetry); wait > 0 {
			return wait, nil
		}
	}
	err := r.fleet.createCleanupJob(ctx, name)
	if err == nil {
		r.log.Info("clean-up Job created in the workload cluster", "cluster", name)
		return 0, nil
	}
	if attempt+1 >= cleanupAttempts {
		r.log.Info("workload cluster is unreachable and keeps its agent", "cluster", name, "cause", err.Error())
		return 0, nil
	}
	r.state.mu.Lock()
	r.state.cleanups[name] = attempt + 1
	r.state.mu.Unlock()
	return max(r.opts.Timings.CleanupRetry, time.Nanosecond), nil
}

func (r *reactor) cleanupAttempt(cluster string) int {
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	return r.state.cleanups[cluster]
}

// removeCompanions deletes the v1 Cluster. A v3 Cluster that was made from it waits for its end.
func (r *reactor) removeCompanions(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	key, ok := provisioningKey(cluster)
	if !ok {
		return 0, nil
	}
	companion := newObject(provisioningGVK)
	err := r.client.Get(ctx, key, companion)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if r.nameFor(companion) != cluster.GetName() {
		return 0, nil // it belongs to another cluster
	}
	if companion.GetDeletionTimestamp().IsZero() {
		err := r.api.Delete(ctx, companion, client.Preconditions{UID: new(companion.GetUID())})
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("deleting v1 Cluster %s: %w", key, err)
		}
	}
	if mintedName.MatchString(cluster.GetName()) {
		return watched, nil
	}
	return 0, nil
}

// provisioningKey returns the key of the v1 Cluster that belongs to a v3 Cluster, whichever was first.
func provisioningKey(cluster *unstructured.Unstructured) (client.ObjectKey, bool) {
	annotations := cluster.GetAnnotations()
	if namespace := annotations[annotationSetSpace]; namespace != "" {
		return client.ObjectKey{Namespace: namespace, Name: annotations[annotationSetName]}, true
	}
	if legacyName.MatchString(cluster.GetName()) {
		return companionKey(cluster), true
	}
	return client.ObjectKey{}, false
}

// removeBackingNamespace deletes it and those of the projects. It runs only when no finalizer but its own is left, also
// none of anybody else: with one, the namespace and its tokens live on.
func (r *reactor) removeBackingNamespace(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	if len(cluster.GetFinalizers()) > 1 {
		return watched, nil
	}
	if name := text(cluster, "status", "serviceAccountTokenSecret"); name != "" {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: globalDataNamespace, Name: name}}
		if err := r.api.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting the secret of the agent's service account: %w", err)
		}
	}
	for _, name := range append(projectNamespaces(cluster), cluster.GetName()) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := r.api.Delete(ctx, ns); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, fmt.Errorf("deleting namespace %s: %w", ns.Name, err)
		}
	}
	r.log.Info("cluster removed", "cluster", cluster.GetName())
	return 0, nil
}
