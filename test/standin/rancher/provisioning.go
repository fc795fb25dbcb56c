package rancher

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// indexOrigin finds v3 Clusters by the v1 Cluster they were made from.
const indexOrigin = "origin"

func (r *reactor) setupProvisioning(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, newObject(clusterGVK), indexOrigin, func(obj client.Object) []string {
		annotations := obj.GetAnnotations()
		if annotations[annotationSetSpace] == "" {
			return nil
		}
		return []string{annotations[annotationSetSpace] + "/" + annotations[annotationSetName]}
	})
	if err != nil {
		return fmt.Errorf("indexing v3 Clusters: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("v1-cluster").
		For(newObject(provisioningGVK)).
		Watches(newObject(clusterGVK), handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, obj client.Object) []reconcile.Request {
				u, ok := obj.(*unstructured.Unstructured)
				if !ok {
					return nil
				}
				key, ok := provisioningKey(u)
				if !ok {
					return nil
				}
				return []reconcile.Request{{NamespacedName: key}}
			})).
		Complete(r.reconciler("v1 Cluster", r.reconcileProvisioning))
}

// provisioningOwner is the key under which waits of a v1 Cluster are kept.
func provisioningOwner(key types.NamespacedName) string { return "provisioning/" + key.String() }

func (r *reactor) reconcileProvisioning(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	prov := newObject(provisioningGVK)
	if err := r.client.Get(ctx, key, prov); err != nil {
		if apierrors.IsNotFound(err) {
			r.fresh.forget(named(prov, key))
			r.delays.forget(provisioningOwner(key), "")
			return 0, r.prune(ctx, key)
		}
		return 0, err
	}
	r.present.Store(key, nil)
	if r.fresh.stale(prov) {
		return conflictDelay, nil
	}
	if !prov.GetDeletionTimestamp().IsZero() {
		return r.deleteProvisioning(ctx, prov)
	}
	changes := []mutate{annotate(annotationManagementDisplay, prov.GetName())}
	for _, finalizer := range provisioningFinalizers() {
		changes = append(changes, addFinalizer(finalizer))
	}
	if err := r.sequence(ctx, prov, false, changes...); err != nil {
		return 0, err
	}
	cluster, wait, err := r.clusterFor(ctx, prov)
	if err != nil || wait > 0 || cluster == nil {
		return wait, err
	}
	return 0, r.mirrorStatus(ctx, prov, cluster)
}

// clusterFor returns the v3 Cluster of a v1 Cluster, and creates it if there is none. The name
// appears in the v1 status only after a while, as a write of its own. It returns nil when
// something else brings the v1 Cluster back.
func (r *reactor) clusterFor(ctx context.Context, prov *unstructured.Unstructured) (*unstructured.Unstructured, time.Duration, error) {
	key := client.ObjectKeyFromObject(prov)
	name := text(prov, "status", "clusterName")
	if name == "" && legacyName.MatchString(key.Name) {
		name = key.Name // made by Rancher for a v3 Cluster
	}
	if name == "" {
		created, err := r.mint(ctx, prov)
		if err != nil {
			return nil, 0, err
		}
		if wait := r.delays.remaining(provisioningOwner(key), "name", r.opts.Timings.ClusterName); wait > 0 {
			return nil, wait, nil
		}
		name = created
	}
	cluster := newObject(clusterGVK)
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return nil, 0, client.IgnoreNotFound(err)
	}
	return cluster, 0, r.writeStatus(ctx, prov, set(name, "status", "clusterName"))
}

// mint creates the v3 Cluster of a plain v1 import, once, and returns its name.
func (r *reactor) mint(ctx context.Context, prov *unstructured.Unstructured) (string, error) {
	uid := string(prov.GetUID())
	r.state.mu.RLock()
	name := r.state.minted[uid]
	r.state.mu.RUnlock()
	if name != "" {
		return name, nil
	}
	// After a restart only the objects remember.
	existing := newList(clusterGVK)
	origin := client.ObjectKeyFromObject(prov).String()
	if err := r.client.List(ctx, existing, client.MatchingFields{indexOrigin: origin}); err != nil {
		return "", fmt.Errorf("looking for the v3 Cluster of %s: %w", origin, err)
	}
	for i := range existing.Items {
		if existing.Items[i].GetDeletionTimestamp().IsZero() {
			return existing.Items[i].GetName(), nil
		}
	}
	cluster, err := r.generated(prov)
	if err != nil {
		return "", err
	}
	if err := r.api.Create(ctx, cluster); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating the v3 Cluster of %s: %w", origin, err)
	}
	r.state.mu.Lock()
	r.state.minted[uid] = cluster.GetName()
	r.state.mu.Unlock()
	r.log.Info("v1 Cluster got its v3 Cluster", "v1Cluster", origin, "cluster", cluster.GetName())
	return cluster.GetName(), nil
}

// generated builds the v3 Cluster of a v1 import. Labels and annotations are copied this once.
func (r *reactor) generated(prov *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := prov.GetAnnotations()[annotationManagementName]
	if name == "" {
		random, err := randomName(8)
		if err != nil {
			return nil, err
		}
		name = "c-m-" + random
	}
	labels := maps.Clone(prov.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelSetHash] = "0000000000000000000000000000000000000000"
	annotations := maps.Clone(prov.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationAdministrated] = "false"
	maps.Copy(annotations, setMarkers("provisioning-cluster-create",
		"provisioning.cattle.io/v1, Kind=Cluster", prov.GetNamespace(), prov.GetName()))
	cluster := newObject(clusterGVK)
	cluster.SetName(name)
	cluster.SetLabels(labels)
	cluster.SetAnnotations(annotations)
	set(map[string]any{
		"displayName":        prov.GetName(),
		"importedConfig":     map[string]any{},
		"fleetWorkspaceName": prov.GetNamespace(),
	}, "spec")(cluster)
	if description := annotations[annotationDescription]; description != "" {
		set(description, "spec", "description")(cluster)
	}
	for _, field := range [][]string{{"agentEnvVars"}, {"clusterAgentDeploymentCustomization"}, {"fleetAgentDeploymentCustomization"}} {
		if value, ok, _ := unstructured.NestedFieldCopy(prov.Object, append([]string{"spec"}, field...)...); ok {
			set(value, append([]string{"spec"}, field...)...)(cluster)
		}
	}
	return cluster, nil
}

// mirrorStatus copies the state of the v3 Cluster. Ready never falls back.
func (r *reactor) mirrorStatus(ctx context.Context, prov, cluster *unstructured.Unstructured) error {
	source := "Connected"
	if !r.opts.StatusSubresource {
		source = "Ready"
	}
	changes := []mutate{
		set(text(cluster, "spec", "fleetWorkspaceName"), "status", "fleetWorkspaceName"),
		kstatus,
	}
	if !r.opts.StatusSubresource {
		changes = append(changes, copyConditions(cluster))
	}
	if conditionStatus(cluster, source) == statusTrue {
		changes = append(changes, set(true, "status", "ready"))
	}
	if deployed := conditionStatus(cluster, "AgentDeployed") == statusTrue; deployed != flag(prov, "status", "agentDeployed") {
		changes = append(changes, set(deployed, "status", "agentDeployed"))
	}
	if err := r.sequence(ctx, prov, true, changes...); err != nil {
		return err
	}
	if !flag(prov, "status", "ready") {
		return nil
	}
	return r.ensureKubeconfig(ctx, prov, cluster)
}

// kstatus sets the conditions that Rancher computes for a generated object.
func kstatus(prov *unstructured.Unstructured) {
	set(prov.GetGeneration(), "status", "observedGeneration")(prov)
	condition("Created", statusTrue, "", "")(prov)
	condition("Reconciling", statusFalse, "", "")(prov)
	condition("Stalled", statusFalse, "", "")(prov)
}

// copyConditions copies the conditions of the v3 Cluster as Rancher did up to 2.14.
func copyConditions(cluster *unstructured.Unstructured) mutate {
	return func(prov *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
		for _, c := range conditions {
			entry, _ := c.(map[string]any)
			switch kind := orEmpty(entry["type"]); kind {
			case "", "Updated", "Provisioned", "Removed":
			default:
				condition(kind, orEmpty(entry["status"]), orEmpty(entry["reason"]), orEmpty(entry["message"]))(prov)
			}
		}
	}
}

// ownedBy returns the owner reference to a v1 Cluster.
func ownedBy(prov *unstructured.Unstructured) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: provisioningGVK.GroupVersion().String(),
		Kind:       provisioningGVK.Kind,
		Name:       prov.GetName(),
		UID:        prov.GetUID(),
	}}
}
