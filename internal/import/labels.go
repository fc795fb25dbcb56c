package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// owners are domains of labels by which tools find what they own, or what they are to leave alone. A tool that finds
// its label on a Rancher cluster takes the Rancher cluster for an object of its own. The object is not in Git, in the
// chart or in the inventory: the tool deletes it, and the cluster is disconnected. The order is that of the alphabet.
var owners = []string{ //nolint:gochecknoglobals // it is never changed
	"addonmanager.kubernetes.io", // Kubernetes' add-on manager
	"app.kubernetes.io",          // Argo CD before 3.0 (instance), Helm, kubectl apply --prune
	"applyset.kubernetes.io",     // kubectl apply --applyset, kro
	"argoproj.io",                // Argo CD
	"cli-utils.sigs.k8s.io",      // kpt, Config Sync
	"config.k8s.io",              // the same
	"configmanagement.gke.io",    // Config Sync
	"configsync.gke.io",          // Config Sync
	"controlplane.io",            // Flux Operator
	"crossplane.io",              // Crossplane
	"fluxcd.io",                  // Flux
	"helm.sh",                    // Helm
	"k14s.io",                    // kapp
	"karmada.io",                 // Karmada
	"kluctl.io",                  // Kluctl
	"kro.run",                    // kro
	"open-cluster-management.io", // Open Cluster Management
	"operatorframework.io",       // Operator Lifecycle Manager
	"operators.coreos.com",       // Operator Lifecycle Manager
	"skaffold.dev",               // Skaffold
	"tanka.dev",                  // Tanka
	"velero.io",                  // Velero
	"werf.io",                    // werf
}

// propagatedLabels returns the labels of the CAPI cluster that its Rancher cluster carries as well.
// It fails if they are too large: then the cache has left some of them out, and those must not look as if they had been
// taken off the CAPI cluster.
func (r Rules) propagatedLabels(cluster *clusterv1.Cluster) (map[string]string, error) {
	labels := r.propagated(cluster.Labels)
	if controller.Exceeds(labels, controller.MaxLabels) {
		return nil, &outcome.Problem{
			Kind: outcome.KindStall, Reason: archelonv1.TooManyLabelsReason,
			Message: fmt.Sprintf("The labels that the Rancher cluster gets from this Cluster have more than %d KiB. The labels in Rancher stay as they are. "+
				"Remove labels from this Cluster, or ask your administrator to exclude some by the Helm value import.unpropagatedLabels", controller.MaxLabels>>10),
		}
	}
	return labels, nil
}

// propagated returns those of the labels that a Rancher cluster carries as well.
func (r Rules) propagated(all map[string]string) map[string]string {
	labels := map[string]string{}
	for key, value := range all {
		if !reserved(key) && !ofOwner(key) && !r.unpropagated(key) {
			labels[key] = value
		}
	}
	return labels
}

// reserved reports whether a label means something to controllers of Cluster API, of Rancher or of this project. Such a
// label on a Rancher cluster is theirs: it is neither set nor removed.
func reserved(key string) bool {
	return strings.Contains(key, "cattle.io") || strings.Contains(key, "x-k8s.io") || strings.Contains(key, "archelon.io")
}

// ofOwner reports whether a tool finds what it owns by a label.
func ofOwner(key string) bool {
	if strings.HasPrefix(key, "olm.") { // Operator Lifecycle Manager: olm.owner.
		return true
	}
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	return within(domain, owners)
}

// within reports whether a domain is one of others, or below one.
func within(domain string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return domain == other || strings.HasSuffix(domain, "."+other) })
}

// unpropagated reports whether the administrator excludes a label.
func (r Rules) unpropagated(key string) bool {
	for _, pattern := range r.UnpropagatedLabels {
		if ok, err := path.Match(pattern, key); ok && err == nil {
			return true
		}
	}
	return false
}
