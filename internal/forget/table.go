package forget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/terminal"
)

// record is what is read of a Rancher cluster.
type record struct {
	hold.Object

	displayName string
}

// list returns the Rancher clusters that carry the UID of the management cluster. They are read in pages.
func (f *forgetter) list(ctx context.Context) ([]record, error) {
	var found []record
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		list := &managementv3.ClusterList{}
		of := client.MatchingLabels{archelonv1.ManagementClusterLabel: string(f.opts.UID)}
		return list, f.client.List(ctx, list, of, client.Limit(opts.Limit), client.Continue(opts.Continue))
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		cluster, ok := item.(*managementv3.Cluster)
		if !ok {
			return fmt.Errorf("reading a %T", item)
		}
		cluster.ManagedFields = nil
		read := metadataOf(managementv3.SchemeGroupVersion.WithKind("Cluster"))
		read.ObjectMeta = cluster.ObjectMeta
		found = append(found, record{Object: *read, displayName: cluster.Spec.DisplayName})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the Rancher clusters of the management cluster: %w", err)
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(strings.Compare(a.owner(), b.owner()), strings.Compare(a.Name, b.Name))
	})
	return found, nil
}

// owner is the CAPI Cluster of the Rancher cluster, "namespace/name".
func (r *record) owner() string {
	return r.Labels[archelonv1.OwnerNamespaceLabel] + "/" + r.Labels[archelonv1.OwnerNameLabel]
}

// fate is what becomes of a Rancher cluster, as the table says it.
type fate string

const (
	keep    fate = "release it; it stays in Rancher"
	free    fate = "release it; its deletion ends"
	remove  fate = "delete it"
	leaving fate = "nothing; Rancher is deleting it"
)

// fate decides what becomes of a Rancher cluster.
func (f *forgetter) fate(found *record) fate {
	deleting, held := !found.DeletionTimestamp.IsZero(), f.holding.Finalizer.On(&found.Object)
	switch {
	case deleting && held:
		return free
	case deleting:
		return leaving
	case f.opts.Delete:
		return remove
	default:
		return keep
	}
}

// columnGap is between columns.
const columnGap = 3

// table prints what becomes of the Rancher clusters. Tenants have written most of it.
func (f *forgetter) table(records []record) error {
	if len(records) == 0 {
		return nil
	}
	lines := tabwriter.NewWriter(f.out, 0, 0, columnGap, ' ', 0)
	_, _ = fmt.Fprintln(lines, "RANCHER CLUSTER\tDISPLAY NAME\tCAPI CLUSTER\tDOES") // Flush has the error.
	for i := range records {
		one := &records[i]
		cells := []string{one.Name, one.displayName, one.owner(), string(f.fate(one))}
		for n := range cells {
			cells[n] = cmp.Or(terminal.Printable(cells[n]), "-")
		}
		_, _ = fmt.Fprintln(lines, strings.Join(cells, "\t"))
	}
	return lines.Flush()
}
