package hostclaim

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// The CRDs bound what tenants write into specs. Nothing but the size of a request bounds metadata, so a cache keeps of
// that what is read. Objects from the cache are the base of patches:
//
//   - A map from which something was left out keeps one key of that, without its value. If it were empty, a patch that
//     removes the last key that is read would remove all others with it.
//   - A list is patched as a whole. If it is too long, the cache leaves out all metadata of the claim, and controllers
//     read that claim from the API server.

// maxMetadata is how much a cache keeps of the metadata of a claim.
const maxMetadata = 16 << 10

// notKept is in the annotations of a claim of whose metadata a cache has left out what is read. No API server stores
// such a key.
const notKept = "read this claim from the API server"

// KeepClaim leaves of a claim what is read of it. It is a transform of a cache.
func KeepClaim(object any) (any, error) {
	claim, ok := object.(*metal3v1.HostClaim)
	if !ok {
		return object, nil
	}
	claim.ManagedFields = nil
	claim.Labels, claim.Annotations = KeepRead(claim.Labels), KeepRead(claim.Annotations)
	for i, owner := range claim.OwnerReferences {
		claim.OwnerReferences[i] = metav1.OwnerReference{Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
	}
	if sizeOf(&claim.ObjectMeta) > maxMetadata {
		claim.Labels = only(claim.Labels, clusterv1.ClusterNameLabel, metal3v1.MachineLabel)
		claim.Annotations = map[string]string{notKept: ""}
		claim.OwnerReferences = nil
		claim.Finalizers = KeepFinalizers(claim.Finalizers, metal3v1.BareMetalFinalizer, metal3v1.RemoteFinalizer, metal3v1.Metal3Finalizer)
	}
	return claim, nil
}

// KeepFinalizers leaves those of some names, or one if there is none of these: somebody holds the object.
func KeepFinalizers(all []string, names ...string) []string {
	var kept []string
	for _, name := range all {
		if slices.Contains(names, name) && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	if kept == nil && len(all) > 0 {
		return []string{all[0]}
	}
	return kept
}

// IsKept reports whether a cache has all metadata of a claim that is read.
func IsKept(claim *metal3v1.HostClaim) bool {
	_, cut := claim.Annotations[notKept]
	return !cut
}

// KeepPolicy leaves of a HostDeployPolicy what is read of it. It is a transform of a cache.
func KeepPolicy(object any) (any, error) {
	if policy, ok := object.(*metal3v1.HostDeployPolicy); ok {
		policy.ObjectMeta = metav1.ObjectMeta{
			Namespace: policy.Namespace, Name: policy.Name, UID: policy.UID, ResourceVersion: policy.ResourceVersion,
			Generation: policy.Generation, DeletionTimestamp: policy.DeletionTimestamp,
		}
	}
	return object, nil
}

// KeepRead leaves of labels or annotations those of Metal3, of CAPI and our own, and the key of one of the others.
func KeepRead(all map[string]string) map[string]string {
	var kept map[string]string
	var left []string
	for key, value := range all {
		if !isRead(key) {
			left = append(left, key)
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	if len(left) > 0 && kept == nil {
		return map[string]string{slices.Min(left): ""}
	}
	if len(left) > 0 {
		kept[slices.Min(left)] = ""
	}
	return kept
}

func isRead(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc([]string{"metal3.io", "cluster.x-k8s.io", "archelon.io"}, func(ours string) bool {
		return domain == ours || strings.HasSuffix(domain, "."+ours)
	})
}

// only leaves some keys.
func only(all map[string]string, keys ...string) map[string]string {
	kept := maps.Clone(all)
	maps.DeleteFunc(kept, func(key, _ string) bool { return !slices.Contains(keys, key) })
	return kept
}

// sizeOf is how much of metadata somebody may have chosen the length of.
func sizeOf(meta *metav1.ObjectMeta) int {
	// What an entry costs besides its text.
	const entry = 64
	size := 0
	for _, all := range []map[string]string{meta.Labels, meta.Annotations} {
		for key, value := range all {
			size += entry + len(key) + len(value)
		}
	}
	for _, name := range meta.Finalizers {
		size += entry + len(name)
	}
	for _, owner := range meta.OwnerReferences {
		size += entry + len(owner.Kind) + len(owner.Name) + len(owner.UID)
	}
	return size
}
