package plan

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	importv3 "github.com/archelon-io/archelon/internal/import/v3"
)

// newName and the CAPI cluster stand for a name that is drawn when a v3 Cluster is created.
// No name has capital letters.
const newName = "c-NEW-"

// unnamed is the v3 strategy, but for the names of new Rancher clusters.
type unnamed struct{ importv3.Strategy }

// ProposeName implements importer.Strategy.
func (unnamed) ProposeName(cluster *clusterv1.Cluster, taken func(string) bool) string {
	name := newName + cluster.Namespace + "-" + cluster.Name
	for taken(name) {
		name += "-other"
	}
	return name
}

// Names implements importer.Strategy.
func (u unnamed) Names(cluster *clusterv1.Cluster, name string) bool {
	return strings.HasPrefix(name, newName) || u.Strategy.Names(cluster, name)
}
