package rancher

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// displayNameIndex finds v3 Clusters by the bucket of their folded display name.
const displayNameIndex = "archelon.io/display-name"

// NamedCluster is a management.cattle.io/v3 Cluster of which only the display name is read. All v3 Clusters of a
// Rancher are kept in this form, not only those that were imported here, so it is small: Rancher's type alone takes 2
// KiB.
type NamedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the part of Rancher's spec that is read.
	Spec NamedClusterSpec `json:"spec,omitzero"`

	// Owner is the UID of the CAPI Cluster that the v3 Cluster, or the v1 Cluster behind it, was created for. Of a
	// label, which is not kept.
	Owner types.UID `json:"-"`
}

// NamedClusterSpec is the part of the spec of a v3 Cluster that is read.
type NamedClusterSpec struct {
	// DisplayName is what people see, and what Rancher and Fleet know the cluster by.
	DisplayName string `json:"displayName,omitempty"`
}

// NamedClusterList is a list of v3 Clusters.
type NamedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the v3 Clusters.
	Items []NamedCluster `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (c *NamedCluster) DeepCopyObject() runtime.Object {
	out := &NamedCluster{TypeMeta: c.TypeMeta, Spec: c.Spec, Owner: c.Owner}
	c.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *NamedClusterList) DeepCopyObject() runtime.Object {
	out := &NamedClusterList{TypeMeta: l.TypeMeta, Items: make([]NamedCluster, 0, len(l.Items))}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*NamedCluster)) //nolint:forcetypeassert // it copies itself
	}
	return out
}

// AddNamedClusters has a scheme read v3 Clusters as NamedCluster. The scheme must not know Rancher's own type, for a
// kind has one type.
func AddNamedClusters(s *runtime.Scheme) {
	s.AddKnownTypeWithName(managementv3.SchemeGroupVersion.WithKind("Cluster"), &NamedCluster{})
	s.AddKnownTypeWithName(managementv3.SchemeGroupVersion.WithKind("ClusterList"), &NamedClusterList{})
	metav1.AddToGroupVersion(s, managementv3.SchemeGroupVersion)
}

// longestName is how much is kept of a display name. Those of imports have at most 63 characters, and Kubernetes'
// names at most 253.
const longestName = 1 << 10

// TrimNamedCluster is a transform of a cache. It keeps what DisplayNames reads.
func TrimNamedCluster(object any) (any, error) {
	cluster, ok := object.(*NamedCluster)
	if !ok {
		return object, nil
	}
	spec := cluster.Spec
	if len(spec.DisplayName) > longestName {
		// Nothing that is imported has such a name.
		spec.DisplayName = strings.ToValidUTF8(strings.Clone(spec.DisplayName[:longestName]), "")
	}
	owner := cmp.Or(types.UID(cluster.Labels[archelonv1.OwnerUIDLabel]), cluster.Owner) // It may be called again on what it returned.
	return &NamedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion,
			CreationTimestamp: cluster.CreationTimestamp, DeletionTimestamp: cluster.DeletionTimestamp,
		},
		Spec: spec, Owner: owner,
	}, nil
}

// SameName reports whether two copies of a v3 Cluster say the same of who has a display name.
func SameName(before, after *NamedCluster) bool {
	return before.UID == after.UID && before.Spec.DisplayName == after.Spec.DisplayName &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero()
}

// DisplayNames knows which v3 Cluster of the Rancher has which display name: also those that were not imported here,
// and Rancher's own.
type DisplayNames struct {
	reader client.Reader
}

// NewDisplayNames returns DisplayNames that read from a cache of NamedClusters, and adds its index to the cache.
func NewDisplayNames(ctx context.Context, reader client.Reader, indexer client.FieldIndexer) (*DisplayNames, error) {
	if err := indexer.IndexField(ctx, &NamedCluster{}, displayNameIndex, DisplayNameKeys); err != nil {
		return nil, fmt.Errorf("indexing v3 Rancher clusters by display name: %w", err)
	}
	return &DisplayNames{reader: reader}, nil
}

// DisplayNameKeys are the values of the index for a NamedCluster.
func DisplayNameKeys(object client.Object) []string {
	cluster, ok := object.(*NamedCluster)
	if !ok {
		return nil
	}
	return []string{bucketOf(FoldDisplayName(cluster.Spec.DisplayName))}
}

// bucketOf returns one of a few values for a folded name. An index takes 400 bytes for each value, and there
// is a name for each cluster.
func bucketOf(folded string) string {
	return strconv.Itoa(int(crc32.ChecksumIEEE([]byte(folded)) % 1024))
}

// FoldDisplayName returns what is the same for two names that Rancher's API takes for the same: those that differ in
// case.
func FoldDisplayName(name string) string {
	// Some letters have two lower cases, and some two upper ones.
	return strings.ToLower(strings.ToUpper(name))
}

// Holders returns the v3 Clusters with the display name that are not being deleted, the oldest first. Those of the same
// second are in the order of their UIDs. Rancher's API takes the name of one that is being deleted for free, too.
func (d *DisplayNames) Holders(ctx context.Context, name string) ([]NamedCluster, error) {
	list := &NamedClusterList{}
	folded := FoldDisplayName(name)
	if err := d.reader.List(ctx, list, client.MatchingFields{displayNameIndex: bucketOf(folded)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("looking for the display name among v3 Rancher clusters: %w", err)
	}
	holders := slices.DeleteFunc(list.Items, func(c NamedCluster) bool {
		return !c.DeletionTimestamp.IsZero() || FoldDisplayName(c.Spec.DisplayName) != folded
	})
	slices.SortFunc(holders, func(a, b NamedCluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return holders, nil
}
