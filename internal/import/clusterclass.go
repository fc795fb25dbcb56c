package importer

import (
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/clusterclass"
)

// Fleet chooses clusters by labels. The ClusterClass of a CAPI cluster is a field, so it is put into the labels that
// the addon provider for Fleet gives clusters and their groups. A tenant who could forge them would get what is for a
// class, so the same labels of a CAPI cluster are not propagated.
const (
	classNameLabel      = "clusterclass-name.fleet.addons.cluster.x-k8s.io"
	classNamespaceLabel = "clusterclass-namespace.fleet.addons.cluster.x-k8s.io"
)

// ofClass reports whether a label is one of those.
func ofClass(key string) bool { return key == classNameLabel || key == classNamespaceLabel }

// classLabels returns the labels that say of which ClusterClass a cluster is.
func classLabels(cluster *clusterv1.Cluster) map[string]string {
	return clusterclass.Keys{Name: classNameLabel, Namespace: classNamespaceLabel}.Labels(cluster)
}

// addClass adds the labels of its class to a record, if they are asked for.
func (r Rules) addClass(desired *Desired) {
	labels := classLabels(desired.Cluster)
	if !r.ClassLabels || len(labels) == 0 {
		return
	}
	maps.Copy(desired.Labels, labels)
	names := slices.Sorted(maps.Keys(labels))
	if before := desired.Annotations[archelonv1.PropagatedLabelsAnnotation]; before != "" {
		names = append(strings.Split(before, ","), names...)
	}
	desired.Annotations[archelonv1.PropagatedLabelsAnnotation] = strings.Join(names, ",")
}
