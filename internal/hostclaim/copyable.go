package hostclaim

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxLooked is how many annotations of a host can be copied, whatever policies say. Caches keep these.
const maxLooked = 128

// leftOut is in place of what a cache has left out of a map. No API server stores such a key.
const leftOut = "left out by the cache"

// reserved returns domains whose labels and annotations are never copied, nor those of their subdomains, because
// controllers act on them. By a copy, a claim would be deleted, adopted, paused or left out of a backup because its
// host is.
func reserved() []string {
	return []string{
		// Kubernetes, its SIGs, Cluster API, kubectl.
		"kubernetes.io", "k8s.io", "x-k8s.io",
		// Metal3, and what this project reads. The prefix info.hostclaims.metal3.io has a rule of its own.
		"metal3.io", "archelon.io",
		// Rancher, Fleet and k3s.
		"cattle.io", "rancher.io", "k3s.io",
		// Tools that apply manifests delete, adopt or ignore objects by these.
		"helm.sh", "argoproj.io", "fluxcd.io", "k14s.io", "gke.io", "crossplane.io", "operatorframework.io", "openshift.io",
		"open-cluster-management.io", "projectsveltos.io", "pulumi.com",
		// Policies, backups, and tools that reload or replicate objects.
		"kyverno.io", "gatekeeper.sh", "velero.io", "k8up.io", "stakater.com", "mittwald.de", "emberstack.com",
	}
}

// isReserved reports whether a key is in a reserved domain. A key without a slash can be a domain: reboot.metal3.io.
func isReserved(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	return slices.ContainsFunc(reserved(), func(each string) bool {
		return domain == each || strings.HasSuffix(domain, "."+each)
	})
}

// mayCopyLabel reports whether an API server accepts a label, and its domain is not reserved.
func mayCopyLabel(key, value string) bool {
	return !isReserved(key) && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// mayCopyAnnotation is mayCopyLabel for annotations. Their domain may have capital letters.
func mayCopyAnnotation(key, value string) bool {
	return !isReserved(key) && len(value) <= maxInfoValue && len(validation.IsQualifiedName(strings.ToLower(key))) == 0
}

// KeepHostAnnotations leaves of the annotations of a host those that are read, and those that can be copied to its
// claim. A patch that removes the last of these would remove all others with it, so one key stands for what is left
// out.
func KeepHostAnnotations(all map[string]string) map[string]string {
	if all == nil {
		return nil
	}
	kept, looked := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		copyable := looked < maxLooked && mayCopyAnnotation(key, all[key])
		if copyable {
			looked++
		}
		if copyable || isRead(key) {
			kept[key] = all[key]
		} else {
			kept[leftOut] = ""
		}
	}
	return kept
}
