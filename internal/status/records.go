package status

import (
	"context"
	"errors"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/edge"
)

// capiGone is what Cluster.CAPICluster says of a Rancher cluster without a CAPI Cluster.
const capiGone = "gone"

// record is what is read of a Rancher cluster.
type record struct {
	id              string
	namespace, name string
	state           string
	// meta is that of the v3 Cluster.
	meta *metav1.ObjectMeta
}

// of selects the Rancher clusters of a management cluster.
func of(origin types.UID) client.ListOption {
	return client.MatchingLabels{archelonv1.ManagementClusterLabel: string(origin)}
}

// records returns the Rancher clusters that are selected in Rancher's cluster. They are read in pages. That it
// failed is one of the problems.
func (v *view) records(ctx context.Context, rancher func() (client.Reader, client.ListOption, error)) ([]record, error) {
	reader, selected, err := rancher()
	if err != nil {
		v.problems = append(v.problems, "Rancher's cluster was not looked into: "+err.Error())
		return nil, err
	}
	var found []record
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		list := &managementv3.ClusterList{}
		return list, reader.List(ctx, list, selected, client.Limit(opts.Limit), client.Continue(opts.Continue))
	})
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		cluster, ok := item.(*managementv3.Cluster)
		if !ok {
			return fmt.Errorf("reading a %T", item)
		}
		found = append(found, recordOf(cluster))
		return nil
	})
	switch {
	case err == nil:
		return found, nil
	case apierrors.IsForbidden(err):
		v.problems = append(v.problems, "Rancher's cluster was not looked into: it needs the permission to list clusters.management.cattle.io")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		v.problems = append(v.problems, fmt.Sprintf("Rancher's cluster did not answer within %s (--timeout)", v.opts.Timeout))
	default:
		v.problems = append(v.problems, "Rancher's cluster was not looked into: "+err.Error())
	}
	return nil, err
}

func recordOf(cluster *managementv3.Cluster) record {
	r := record{
		id: "v3/" + cluster.Name, meta: &cluster.ObjectMeta,
		namespace: cluster.Labels[archelonv1.OwnerNamespaceLabel], name: cluster.Labels[archelonv1.OwnerNameLabel], state: "waiting",
	}
	for i := range cluster.Status.Conditions {
		condition := &cluster.Status.Conditions[i]
		switch is := condition.Status == corev1.ConditionTrue; condition.Type {
		case "Connected":
			if is {
				r.state = "connected"
			}
		case "Waiting": // True from the first connection on.
			if is && r.state == "waiting" {
				r.state = "disconnected"
			}
		}
	}
	if !cluster.DeletionTimestamp.IsZero() {
		r.state = "deleting"
	}
	return r
}

// join adds the state in Rancher to the CAPI Clusters, and then the Rancher clusters that have no CAPI Cluster. If a
// selector limits the CAPI Clusters, it is not known which Rancher clusters have none.
func (v *view) join(clusters []Cluster, records []record) []Cluster {
	byID, there := map[string]*record{}, map[string]bool{}
	for i := range records {
		byID[records[i].id] = &records[i]
	}
	for i := range clusters {
		id := clusters[i].RancherCluster
		there[key(clusters[i])] = true
		if id == "" {
			continue
		}
		if found := byID[id]; found != nil {
			clusters[i].InRancher = found.state
			delete(byID, id)
		} else {
			clusters[i].InRancher = "missing"
		}
	}
	if v.opts.Selector != "" {
		return clusters
	}
	for _, one := range byID {
		if v.opts.Namespace != "" && v.opts.Namespace != one.namespace {
			continue
		}
		only := Cluster{Namespace: one.namespace, Name: one.name, RancherCluster: one.id, InRancher: one.state}
		if !there[key(only)] { // Otherwise it is one more, such as that which is being deleted.
			only.CAPICluster = capiGone
		}
		clusters = append(clusters, only)
	}
	return clusters
}

// orphans shows the Rancher clusters that have no CAPI Cluster. It reads the CAPI Clusters after the Rancher clusters,
// because both may have been created in between.
func (v *view) orphans(ctx context.Context, c client.Reader, records []record) error {
	list := &clusterv1.ClusterList{}
	if err := c.List(ctx, list, v.which); err != nil {
		return explain(err)
	}
	living := sets.Set[types.UID]{}
	for i := range list.Items {
		living.Insert(list.Items[i].UID)
	}
	v.clusters = nil
	for i := range records {
		one := &records[i]
		if edge.Orphan(one.meta, living) && (v.opts.Namespace == "" || v.opts.Namespace == one.namespace) {
			v.clusters = append(v.clusters, Cluster{
				Namespace: one.namespace, Name: one.name, RancherCluster: one.id, InRancher: one.state, CAPICluster: capiGone,
			})
		}
	}
	return nil
}
