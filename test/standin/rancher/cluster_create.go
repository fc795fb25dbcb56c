package rancher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// markCluster adds Rancher's finalizers and annotations, one write each, as its lifecycles do.
func (r *reactor) markCluster(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	var changes []mutate
	for _, finalizer := range clusterFinalizers() {
		changes = append(changes, addFinalizer(finalizer))
		// The provisioner's is done when it knows the driver.
		if lifecycle, ok := strings.CutPrefix(finalizer, finalizerPrefix); ok && finalizer != finalizerProvision {
			changes = append(changes, annotate(lifecyclePrefix+lifecycle, "true"))
		}
	}
	return 0, r.sequence(ctx, cluster, false, changes...)
}

func addFinalizer(name string) mutate {
	return func(u *unstructured.Unstructured) {
		if finalizers := u.GetFinalizers(); !slices.Contains(finalizers, name) {
			u.SetFinalizers(append(finalizers, name))
		}
	}
}

func dropFinalizer(name string) mutate {
	return func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == name }))
	}
}

// ensureNamespace creates the backing namespace and sets the conditions of a new cluster.
func (r *reactor) ensureNamespace(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.client.Get(ctx, client.ObjectKey{Name: cluster.GetName()}, seen)
	if apierrors.IsNotFound(err) {
		err = r.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name:        cluster.GetName(),
			Annotations: map[string]string{annotationSystemNamespace: "true"},
		}})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("ensuring namespace %s: %w", cluster.GetName(), err)
	}
	if err := r.ensureProjects(ctx, cluster); err != nil {
		return 0, err
	}
	if conditionStatus(cluster, "BackingNamespaceCreated") != statusTrue {
		r.log.Info("cluster registered", "cluster", cluster.GetName(), "displayName", text(cluster, "spec", "displayName"))
	}
	changes := []mutate{
		condition("BackingNamespaceCreated", statusTrue, "", ""),
		condition("DefaultProjectCreated", statusTrue, "", ""),
		condition("SystemProjectCreated", statusTrue, "", ""),
		func(u *unstructured.Unstructured) {
			newCondition("Pending", statusUnknown, "")(u)
			newCondition("Provisioned", statusUnknown, "")(u)
			newCondition("Waiting", statusUnknown, "Waiting for API to be available")(u)
			newCondition("PreBootstrapped", statusUnknown, "")(u)
			newCondition("NoDiskPressure", statusTrue, "")(u)
			newCondition("NoMemoryPressure", statusTrue, "")(u)
		},
	}
	if _, ok := cluster.GetAnnotations()[annotationNoCreatorRBAC]; !ok {
		changes = append(changes, condition("CreatorMadeOwner", statusTrue, "", ""))
	}
	return 0, r.sequence(ctx, cluster, true, changes...)
}

// newCondition sets a condition only if there is none of its type yet.
func newCondition(kind, status, message string) mutate {
	return func(u *unstructured.Unstructured) {
		if conditionStatus(u, kind) == "" {
			condition(kind, status, "", message)(u)
		}
	}
}

// assignWorkspace fills in the default Fleet workspace, except for clusters that somebody else
// registers with Fleet.
func (r *reactor) assignWorkspace(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	if text(cluster, "spec", "fleetWorkspaceName") != "" || externallyManaged(cluster) {
		return 0, nil
	}
	workspace, err := setting(ctx, r.client, settingWorkspace)
	if err != nil || workspace == "" {
		return 0, err
	}
	return 0, r.write(ctx, cluster, set(workspace, "spec", "fleetWorkspaceName"))
}

func externallyManaged(cluster *unstructured.Unstructured) bool {
	value := cluster.GetAnnotations()[annotationExternal]
	return value != "" && !strings.EqualFold(value, "false")
}

// ensureDefaultToken creates the registration token that every cluster has. One that was deleted is created again when
// the cluster changes: its deletion makes Rancher do nothing.
func (r *reactor) ensureDefaultToken(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	if r.tokenMade.has(cluster) {
		return 0, nil
	}
	wait, err := r.ensureToken(ctx, cluster.GetName(), crtDefault)
	if err == nil && wait == 0 {
		r.tokenMade.wrote(cluster)
	}
	return wait, err
}

// ensureToken creates a ClusterRegistrationToken in the cluster's namespace, which may still be terminating
// from an earlier cluster of the same name.
func (r *reactor) ensureToken(ctx context.Context, cluster, name string) (time.Duration, error) {
	crt := newObject(tokenGVK)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: name}, crt)
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	crt = newObject(tokenGVK)
	crt.SetNamespace(cluster)
	crt.SetName(name)
	set(cluster, "spec", "clusterName")(crt)
	err = r.api.Create(ctx, crt)
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return 0, nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return r.opts.Timings.Poll, nil
	}
	return 0, fmt.Errorf("creating registration token %s/%s: %w", cluster, name, err)
}

// ensureCompanion creates the v1 Cluster that mirrors a v3 Cluster with a legacy name. One that
// was made from a v1 Cluster has its companion already.
func (r *reactor) ensureCompanion(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	if !legacyName.MatchString(cluster.GetName()) || cluster.GetAnnotations()[annotationSetSpace] != "" {
		return 0, nil
	}
	key := companionKey(cluster)
	if text(cluster, "spec", "fleetWorkspaceName") == "" && !externallyManaged(cluster) {
		return 0, nil
	}
	err := r.client.Get(ctx, key, newObject(provisioningGVK))
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	companion := newObject(provisioningGVK)
	companion.SetNamespace(key.Namespace)
	companion.SetName(key.Name)
	companion.SetLabels(mirrored(cluster.GetLabels()))
	companion.SetAnnotations(mirrored(cluster.GetAnnotations()))
	for k, v := range setMarkers("mgmt-cluster", "management.cattle.io/v3, Kind=Cluster", "", cluster.GetName()) {
		annotate(k, v)(companion)
	}
	set(map[string]any{}, "spec")(companion)
	if err := r.api.Create(ctx, companion); err != nil && !apierrors.IsAlreadyExists(err) {
		if apierrors.IsNotFound(err) { // the workspace's namespace
			return r.opts.Timings.Poll, nil
		}
		return 0, fmt.Errorf("creating the companion of cluster %s: %w", cluster.GetName(), err)
	}
	return 0, nil
}

// companionKey is where the v1 Cluster of a v3-born cluster lives.
func companionKey(cluster *unstructured.Unstructured) client.ObjectKey {
	workspace := text(cluster, "spec", "fleetWorkspaceName")
	if workspace == "" {
		workspace = metav1.NamespaceDefault
	}
	return client.ObjectKey{Namespace: workspace, Name: cluster.GetName()}
}

// mirrored returns the labels or annotations that Rancher copies to a companion.
func mirrored(in map[string]string) map[string]string {
	out := maps.Clone(in)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.Contains(key, "cattle.io/") || strings.HasPrefix(key, "kubectl.kubernetes.io/")
	})
	return out
}

// setMarkers are the annotations by which Rancher knows what it generated, and from what.
func setMarkers(id, gvk, namespace, name string) map[string]string {
	out := map[string]string{
		annotationSetID:   id,
		annotationSetGVK:  gvk,
		annotationSetName: name,
	}
	if namespace != "" {
		out[annotationSetSpace] = namespace
	}
	return out
}
