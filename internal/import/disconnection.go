package importer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// When Rancher restarts, it reports all agents as disconnected, and each as connected again at one of its next checks,
// which are 15 seconds apart. To look into each of these losses would take many requests and two writes for every
// cluster, at a moment when the API server has enough to do.

// clockTolerance is by how much Rancher's clock may differ from ours. A disconnection that Rancher reported longer ago
// than this and the grace has lasted, however short the time is that this process knows of it.
const clockTolerance = 5 * time.Minute

// graceLeft returns for how much longer a disconnection counts as one that ends by itself. It is measured by our own
// clock, from when this process saw it first. What Rancher says about its beginning, zero if nothing, only ends the
// grace: or else a manager that restarts again and again would never tell of it.
func graceLeft(seen, reported, now time.Time, grace time.Duration) time.Duration {
	if !reported.IsZero() && now.Sub(reported) > grace+clockTolerance {
		return 0
	}
	return max(0, min(grace, grace-now.Sub(seen)))
}

// disconnectionGrace returns for how much longer an imported cluster counts as connected although Rancher has just
// reported its agent as disconnected. Nothing is read and nothing is written meanwhile.
func (d *deciding) disconnectionGrace() (time.Duration, question) {
	if d.DisconnectGrace <= 0 || !d.management.known || !meta.IsStatusConditionTrue(d.cluster.GetConditions(), archelonv1.RancherImportedCondition) {
		return 0, nil
	}
	if look := (askDisconnection{d.management.object.UID}); d.lacks(look) {
		return 0, look
	}
	reported, err := time.Parse(time.RFC3339, d.management.since)
	if err != nil {
		reported = time.Time{}
	}
	return graceLeft(d.disconnected, reported, d.now, d.DisconnectGrace), nil
}

// askDisconnection asks since when this process knows that the agent of a v3 Cluster is disconnected.
type askDisconnection struct{ management types.UID }

func (askDisconnection) String() string { return "since when the agent is disconnected" }

func (q askDisconnection) read(_ context.Context, r *Reconciler, o *Observation) error {
	o.disconnected = r.disconnections.first(o.key, q.management, r.Clock.Now())
	return nil
}
