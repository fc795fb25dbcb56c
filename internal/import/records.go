package importer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/import/turtles"
)

// ownerIndex finds records by the CAPI cluster that they name.
const ownerIndex = "archelon.io/owner"

// unseenRecheck is when a Rancher cluster that no watch shows, for it has none of our labels, is looked at again.
const unseenRecheck = 30 * time.Second

// record is a Rancher cluster that names a CAPI cluster as its owner.
type record struct {
	client.Object
	strategy Strategy
	// ahead: this process wrote it after the copy was made; unseen: the cache does not show it.
	ahead, unseen bool
	// settled: this run has created or updated it; ending: this run has released it, to delete it; going: this run has
	// deleted it; left: without releasing it.
	settled, ending, going, left bool
}

// id is how the record annotation names the record.
func (r record) id() string { return recordID(r.strategy, r.GetName()) }

func recordID(strategy Strategy, name string) string { return strategy.Kind() + "/" + name }

// String names the record for people.
func (r record) String() string {
	name := strings.TrimPrefix(client.ObjectKeyFromObject(r.Object).String(), "/")
	return fmt.Sprintf("%s Rancher cluster %s", r.strategy.Kind(), name)
}

func (r record) deleting() bool { return r.going || !r.GetDeletionTimestamp().IsZero() }

// madeFor reports whether the record carries the UID of the cluster. One that somebody took that label off is known by
// the name that was written ahead and by our finalizer, which nobody else puts on a record, so that it can be labelled
// again or let go.
func (r record) madeFor(cluster *clusterv1.Cluster) bool {
	labels := r.GetLabels()
	if uid := labels[archelonv1.OwnerUIDLabel]; uid != "" {
		return uid == string(cluster.UID)
	}
	return r.held() && cluster.Annotations[archelonv1.RecordAnnotation] == r.id() &&
		emptyOr(labels[archelonv1.OwnerNameLabel], cluster.Name) && emptyOr(labels[archelonv1.OwnerNamespaceLabel], cluster.Namespace)
}

// Annotations that Rancher puts on the v3 Cluster that it makes from a v1 Cluster.
const (
	administratedAnnotation = "provisioning.cattle.io/administrated"
	madeFromNamespace       = "objectset.rio.cattle.io/owner-namespace"
	madeFromName            = "objectset.rio.cattle.io/owner-name"
)

// stands reports whether the v3 Cluster is the record itself, or was made by Rancher from it. The status of a v1 record
// alone does not tell: Rancher fills it in by the name of the record, which may be that of any v3 Cluster.
func (r record) stands(cluster client.Object) bool {
	if r.strategy.Nature().Itself {
		return cluster.GetName() == r.GetName()
	}
	annotations := cluster.GetAnnotations()
	if namespace, name := annotations[madeFromNamespace], annotations[madeFromName]; namespace != "" || name != "" {
		// Whatever UID it has: a restored record that was attached to a new CAPI cluster is ahead of it.
		return namespace == r.GetNamespace() && name == r.GetName()
	}
	if cluster.GetName() == r.GetName() {
		return false // It was there first, and the record has the name of its companion.
	}
	if uid := cluster.GetLabels()[archelonv1.OwnerUIDLabel]; uid != "" {
		return uid == r.GetLabels()[archelonv1.OwnerUIDLabel]
	}
	_, administrated := annotations[administratedAnnotation]
	return administrated
}

func emptyOr(value, want string) bool { return value == "" || value == want }

func (r record) halfLabelled() bool {
	labels := r.GetLabels()
	return labels[archelonv1.OwnerNameLabel] == "" || labels[archelonv1.OwnerNamespaceLabel] == ""
}

// ofTurtles reports whether Rancher Turtles made the record.
func (r record) ofTurtles() bool { return turtles.Made(r.Object) }

func (r record) held() bool { return hold.Import.On(r.Object) }

// wasGiven reports whether the record has a setting from the given annotation of its CAPI cluster.
func wasGiven(record client.Object, annotation string) bool {
	return slices.Contains(strings.Split(record.GetAnnotations()[archelonv1.PropagatedSettingsAnnotation], ","), annotation)
}

// ownerKeys are the values of ownerIndex for a Rancher cluster: its owner labels, the namespace of its owner, and the
// UIDs in its label and its owner references, so that a record which lost a label is still found, and one that Rancher
// Turtles made without.
func ownerKeys(object client.Object) []string {
	labels := object.GetLabels()
	keys := ownerUIDs(object)
	if name := labels[archelonv1.OwnerNameLabel]; name != "" {
		keys = append(keys, labels[archelonv1.OwnerNamespaceLabel]+"/"+name, ownerNamespaceKey(labels[archelonv1.OwnerNamespaceLabel]))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ownerNamespaceKey is the value of ownerIndex for the Rancher clusters of all CAPI clusters of a namespace.
func ownerNamespaceKey(namespace string) string { return namespace + "/" }

// ownerUIDs are the UIDs that a Rancher cluster names, in its label and its owner references.
func ownerUIDs(object client.Object) []string {
	var uids []string
	if uid := object.GetLabels()[archelonv1.OwnerUIDLabel]; uid != "" {
		uids = append(uids, uid)
	}
	for _, owner := range object.GetOwnerReferences() {
		uids = append(uids, string(owner.UID))
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}

// splitID takes the value of the record annotation apart. Others can write it. What cannot be the name of any object
// names no record: a client refuses even to ask for it, and that would be a failure without end.
func (r Rules) splitID(id string) (Strategy, string, bool) {
	kind, name, ok := strings.Cut(id, "/")
	if !ok || name == "" || len(content.IsPathSegmentName(name)) > 0 {
		return nil, "", false
	}
	for _, strategy := range r.strategies() {
		if strategy.Kind() == kind {
			return strategy, name, true
		}
	}
	return nil, "", false
}
