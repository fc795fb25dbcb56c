package importer

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// withoutEffect says which annotations of an imported cluster have no effect, and why, "" if there are none. Rancher
// reads some only when it registers a v3 Cluster, and Kubernetes accepts them at any time: nothing else would tell the
// user. The same is true of a selector that has lost the cluster.
func withoutEffect(cluster *clusterv1.Cluster, v findings) string {
	if v.record == nil || v.management == nil || v.management.object == nil {
		return ""
	}
	var notes []string
	behind := !v.record.strategy.Nature().Itself
	if external, err := externalFleet(cluster.Annotations); err == nil && external {
		workspace := v.management.object.Spec.FleetWorkspaceName
		switch {
		case workspace == "":
		case behind:
			notes = append(notes, fmt.Sprintf("Annotation %s has no effect: Rancher registers every v1 Rancher cluster with Fleet (workspace %s)",
				archelonv1.ExternalFleetAnnotation, workspace))
		default:
			notes = append(notes, fmt.Sprintf("Annotation %s has no effect: Rancher has registered the cluster with Fleet (workspace %s), and does not undo that. "+
				"Un-import this Cluster, then import it again with this annotation and without %s",
				archelonv1.ExternalFleetAnnotation, workspace, archelonv1.FleetWorkspaceAnnotation))
		}
	}
	if behind && cluster.Annotations[archelonv1.DisplayNameAnnotation] != "" {
		notes = append(notes, fmt.Sprintf("Annotation %s has no effect: Rancher shows a v1 Rancher cluster by its own name", archelonv1.DisplayNameAnnotation))
	}
	if v.unselected {
		notes = append(notes, fmt.Sprintf("Imported, although no label or selector selects this Cluster any more. To remove it from Rancher, set label %s to \"false\"", archelonv1.ImportLabel))
	}
	return strings.Join(notes, ". ")
}
