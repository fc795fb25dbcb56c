package importer

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/import/turtles"
)

// checkNeighbours refuses to import beside a record that somebody else made for the same CAPI cluster, or
// that can no longer be told apart. Nothing is adopted blindly and nothing is fought over.
func (d *deciding) checkNeighbours() Decision {
	if provisionedByRancher(d.cluster) {
		return stall(archelonv1.ProvisionedByRancherReason,
			"Not imported: Rancher provisioned this cluster, and lists it already. Remove label "+archelonv1.ImportLabel)
	}
	if turtles.Holds(d.cluster) {
		return stall(archelonv1.ManagedByTurtlesReason, fmt.Sprintf(
			"Rancher Turtles still manages this Cluster (finalizer %s). To move it to Archelon, ask your administrator to disable the importer of Turtles, "+
				"and set annotation %s to %q on this Cluster", archelonv1.TurtlesFinalizer, archelonv1.ManagedByAnnotation, archelonv1.ManagedByArchelon))
	}
	var own []string
	for _, record := range d.records {
		ours := record.madeFor(d.cluster)
		switch {
		case record.deleting(), record.unseen:
			// It goes, or the next phases put its labels on again.
		case ours && record.halfLabelled():
			return stall(archelonv1.IncompleteOwnerLabelsReason, fmt.Sprintf(
				"The %s lacks one of its labels. Set %s to %q and %s to %q on it", record,
				archelonv1.OwnerNameLabel, d.cluster.Name, archelonv1.OwnerNamespaceLabel, d.cluster.Namespace))
		case ours:
			own = append(own, record.String())
		case record.ofTurtles():
			return stall(archelonv1.ManagedByTurtlesReason, fmt.Sprintf(
				"The %s belongs to Rancher Turtles. Delete it in Rancher, or ask your administrator to disable the importer of Turtles, and set annotation %s to %q on this Cluster",
				record, archelonv1.ManagedByAnnotation, archelonv1.ManagedByArchelon))
		case record.halfLabelled():
			// Without a namespace it may mean another cluster of the same name, so it only stops a new import.
			if d.cluster.Annotations[archelonv1.RecordAnnotation] == "" {
				return stall(archelonv1.IncompleteOwnerLabelsReason, fmt.Sprintf(
					"The %s has only one of the labels %s and %s, so it may belong to this Cluster. Complete its labels, or delete it in Rancher",
					record, archelonv1.OwnerNameLabel, archelonv1.OwnerNamespaceLabel))
			}
		default:
			return stall(archelonv1.ForeignRancherClusterReason, fmt.Sprintf(
				"The %s has owner labels for this Cluster, but another UID of a Cluster (label %s). After a restore, ask your administrator to attach it again. "+
					"Otherwise remove its owner labels, or delete it in Rancher", record, archelonv1.OwnerUIDLabel))
		}
	}
	if len(own) > 1 {
		return stall(archelonv1.DuplicateRancherClustersReason, "Several Rancher clusters belong to this Cluster: "+strings.Join(own, ", ")+
			". Delete all of them in Rancher but the one that you want to keep")
	}
	return pass()
}

// provisionedByRancher reports whether the CAPI cluster is the inside of a cluster that Rancher provisions itself.
// Importing it would show it twice.
func provisionedByRancher(cluster *clusterv1.Cluster) bool {
	return slices.ContainsFunc(cluster.OwnerReferences, ofRancher)
}

// ofRancher reports whether an owner is a cluster that Rancher provisions.
func ofRancher(owner metav1.OwnerReference) bool {
	return owner.Kind == "Cluster" && strings.HasPrefix(owner.APIVersion, "provisioning.cattle.io/")
}
