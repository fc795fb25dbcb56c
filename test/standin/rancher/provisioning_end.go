package rancher

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ensureKubeconfig writes the Secret with Rancher's proxied kubeconfig. A Secret of that name
// which is not Rancher's own is deleted and replaced, whatever it holds.
func (r *reactor) ensureKubeconfig(ctx context.Context, prov, cluster *unstructured.Unstructured) error {
	key := client.ObjectKey{Namespace: prov.GetNamespace(), Name: prov.GetName() + "-kubeconfig"}
	if text(prov, "status", "clientSecretName") == key.Name {
		return nil
	}
	existing := &corev1.Secret{}
	err := r.api.Get(ctx, key, existing)
	switch {
	case err == nil && !ownedByUID(existing, prov):
		r.log.Info("replacing a foreign secret", "secret", key.String())
		if err := r.api.Delete(ctx, existing); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting secret %s: %w", key, err)
		}
		fallthrough
	case apierrors.IsNotFound(err):
		if err := r.createKubeconfig(ctx, key, prov, cluster); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("reading secret %s: %w", key, err)
	}
	return r.writeStatus(ctx, prov, set(key.Name, "status", "clientSecretName"))
}

func ownedByUID(obj metav1.Object, owner metav1.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

func (r *reactor) createKubeconfig(ctx context.Context, key client.ObjectKey, prov, cluster *unstructured.Unstructured) error {
	server, err := setting(ctx, r.client, settingInternalURL)
	if err != nil {
		return err
	}
	const name = "cluster"
	token, err := randomName(54)
	if err != nil {
		return err
	}
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   server + "/k8s/clusters/" + cluster.GetName(),
			CertificateAuthorityData: r.server.caCert(),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"user": {Token: "kubeconfig-user:" + token}},
		Contexts:       map[string]*clientcmdapi.Context{"default": {Cluster: name, AuthInfo: "user"}},
		CurrentContext: "default",
	})
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", key, err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       key.Namespace,
			Name:            key.Name,
			Labels:          map[string]string{"cluster.x-k8s.io/cluster-name": prov.GetName()},
			OwnerReferences: ownedBy(prov),
		},
		Data: map[string][]byte{"value": data},
	}
	if err := r.api.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating secret %s: %w", key, err)
	}
	return nil
}

// deleteProvisioning deletes the v3 Cluster, waits for its end if the v1 Cluster mirrored it, and then
// deletes the CAPI Cluster of the same namespace and name, if there is one. Rancher means the
// one that it provisioned itself, but it does not look.
func (r *reactor) deleteProvisioning(ctx context.Context, prov *unstructured.Unstructured) (time.Duration, error) {
	if len(prov.GetFinalizers()) == 0 {
		return 0, nil
	}
	name := r.nameFor(prov)
	gone, err := r.deleteClusterOf(ctx, prov, name)
	if err != nil {
		return 0, err
	}
	if !gone && legacyName.MatchString(name) {
		return 0, nil // the v3 Cluster's end is an event
	}
	if wait, err := r.deleteNamesake(ctx, client.ObjectKeyFromObject(prov)); err != nil || wait > 0 {
		return wait, err
	}
	var changes []mutate
	for _, finalizer := range provisioningFinalizers() {
		changes = append(changes, dropFinalizer(finalizer))
	}
	if err := r.sequence(ctx, prov, false, changes...); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.state.mu.Lock()
	delete(r.state.minted, string(prov.GetUID()))
	r.state.mu.Unlock()
	// The v3 Cluster waits for this one's end, which names it no more.
	r.Standin.clusters.add(client.ObjectKey{Name: name}, conflictDelay)
	return 0, nil
}

// nameFor returns the name of the v3 Cluster of a v1 Cluster, also while its status does not tell yet.
func (r *reactor) nameFor(prov *unstructured.Unstructured) string {
	if name := text(prov, "status", "clusterName"); name != "" {
		return name
	}
	if legacyName.MatchString(prov.GetName()) {
		return prov.GetName()
	}
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	return r.state.minted[string(prov.GetUID())]
}

// deleteClusterOf deletes the v3 Cluster if the v1 Cluster lives in its workspace, and says
// whether there is none left to wait for.
func (r *reactor) deleteClusterOf(ctx context.Context, prov *unstructured.Unstructured, name string) (gone bool, err error) {
	if name == "" {
		return true, nil
	}
	cluster := newObject(clusterGVK)
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if text(cluster, "spec", "fleetWorkspaceName") != prov.GetNamespace() {
		return true, nil
	}
	if cluster.GetDeletionTimestamp().IsZero() {
		err := r.api.Delete(ctx, cluster, client.Preconditions{UID: new(cluster.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting v3 Cluster %s: %w", name, err)
		}
	}
	return false, nil
}

// prune deletes what was made from a v1 Cluster whose end Rancher has seen. The removal before spares a v3 Cluster in
// another workspace; wrangler's apply does not: without its owner, the set of generated objects is empty.
func (r *reactor) prune(ctx context.Context, key client.ObjectKey) error {
	if _, seen := r.present.Load(key); !seen {
		return nil
	}
	made := newList(clusterGVK)
	if err := r.client.List(ctx, made, client.MatchingFields{indexOrigin: key.String()}); err != nil {
		return fmt.Errorf("looking for the v3 Cluster of %s: %w", key, err)
	}
	for i := range made.Items {
		cluster := &made.Items[i]
		if !cluster.GetDeletionTimestamp().IsZero() {
			continue
		}
		err := r.api.Delete(ctx, cluster, client.Preconditions{UID: new(cluster.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting v3 Cluster %s: %w", cluster.GetName(), err)
		}
	}
	r.present.Delete(key)
	return nil
}

// deleteNamesake deletes the CAPI Cluster with the given key and returns how long to wait for its
// end.
func (r *reactor) deleteNamesake(ctx context.Context, key client.ObjectKey) (time.Duration, error) {
	capi := newObject(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"})
	err := r.api.Get(ctx, key, capi)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking for CAPI Cluster %s: %w", key, err)
	}
	if capi.GetDeletionTimestamp().IsZero() {
		r.log.Info("deleting the CAPI Cluster of the same name", "capiCluster", key.String())
		if err := r.api.Delete(ctx, capi); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting CAPI Cluster %s: %w", key, err)
		}
	}
	return r.opts.Timings.Poll, nil
}
