package importer

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// checkNamesake refuses a new import under the name of a v1 Rancher cluster that is not this cluster's. Rancher writes
// Secret <name>-kubeconfig for that, which leads to the other's workload cluster, and deletes the CAPI cluster of that
// name together with it.
func (d *deciding) checkNamesake() Decision {
	if d.cluster.Annotations[archelonv1.RecordAnnotation] != "" {
		return d.checkMoved()
	}
	if d.lacks(askNamesakes{}) {
		return ask(askNamesakes{})
	}
	if len(d.namesakes) == 0 {
		return pass()
	}
	found := d.namesakes[0]
	if found.cached {
		return stall(archelonv1.RancherClusterNameTakenReason, fmt.Sprintf(
			"Not imported: this Cluster has the same name as the %s, which belongs to another CAPI Cluster. Rancher would overwrite "+
				"Secret %s/%s-kubeconfig of this Cluster. Create this Cluster under another name",
			found.record, d.cluster.Namespace, d.cluster.Name))
	}
	return stop(outcome.Poll(archelonv1.RancherClusterNameTakenReason, fmt.Sprintf(
		"Do not delete the %s: Rancher would delete this Cluster, too, because both have the same name. Rancher also overwrites "+
			"Secret %s/%s-kubeconfig of this Cluster. Create this Cluster under another name, and delete this Cluster before the Rancher cluster",
		found.record, d.cluster.Namespace, d.cluster.Name), found.left))
}

// checkMoved refuses an import whose annotation names the Rancher cluster of another management cluster, for a CAPI
// cluster of the same namespace and name. It was moved here, or restored from a backup: a second Rancher cluster would
// fight the first one for the agent. Whose it is, only a person can say: annotations are written by tenants.
func (d *deciding) checkMoved() Decision {
	id := d.cluster.Annotations[archelonv1.RecordAnnotation]
	strategy, name, ok := d.splitID(id)
	if d.Origin == "" || !ok || strategy != d.Active || d.claimed || d.find(id) != nil || d.creation.awaited(id, d.now) > 0 {
		return pass()
	}
	whose := askRecord{strategy: strategy, name: name, why: ", which may be of another management cluster"}
	if d.lacks(whose) {
		return ask(whose)
	}
	named := d.live[id]
	if named == nil || named.deleting() {
		return pass()
	}
	labels := named.GetLabels()
	if labels[archelonv1.ManagementClusterLabel] == string(d.Origin) ||
		labels[archelonv1.OwnerNameLabel] != d.cluster.Name || labels[archelonv1.OwnerNamespaceLabel] != d.cluster.Namespace {
		return pass()
	}
	return stop(outcome.Poll(archelonv1.ForeignRancherClusterReason, fmt.Sprintf(
		"Not imported: annotation %s of this Cluster names the %s, which belongs to another management cluster, or to none (label %s). "+
			"If this Cluster was moved here, ask your administrator to attach that Rancher cluster. If this Cluster is a copy, remove the annotation",
		archelonv1.RecordAnnotation, named, archelonv1.ManagementClusterLabel), unseenRecheck))
}

// askNamesakes asks for v1 Rancher clusters of the cluster's name. The cache shows only those with owner labels, not
// one that was created in Rancher. Nothing tells that it goes, so the API server is asked, less and less often.
type askNamesakes struct{}

func (askNamesakes) String() string { return "Rancher clusters of the cluster's name" }

func (askNamesakes) read(ctx context.Context, r *Reconciler, o *Observation) error {
	for _, strategy := range r.strategies() {
		if !strategy.Nature().TakesCluster {
			continue
		}
		key := strategy.Key(o.cluster, o.cluster.Name)
		found := namesake{record: record{Object: strategy.NewObject(), strategy: strategy}}
		found.record.SetNamespace(key.Namespace)
		found.record.SetName(key.Name)
		if slices.ContainsFunc(o.records, func(r record) bool { return r.id() == found.record.id() }) {
			continue // It names this cluster as its owner.
		}
		if found.cached = r.inRancher().Get(ctx, key, strategy.NewObject()) == nil; !found.cached {
			if found.left = r.looks.left(o.key, r.Clock.Now()); found.left == 0 {
				switch err := r.liveInRancher().Get(ctx, key, strategy.NewObject()); {
				case apierrors.IsNotFound(err):
					r.looks.forget(o.key)
					continue
				case err != nil:
					return fmt.Errorf("looking for a %s Rancher cluster of this cluster's name: %w", strategy.Kind(), err)
				}
				found.left = r.looks.note(o.key, r.Clock.Now())
			}
		}
		o.namesakes = append(o.namesakes, found)
	}
	return nil
}
