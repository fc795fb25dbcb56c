package importer

import (
	"context"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
)

// An agent of the downloaded manifest only registers with Rancher. It connects after Rancher has applied it once more,
// by itself and with the features of a connected agent. Rancher does that once: it does not look whether what it
// applied is still there.

// The annotation of a v3 Cluster that has Rancher apply its agent again as soon as it reaches the workload cluster.
// When it has, Rancher sets another value.
const (
	forceDeployAnnotation = "io.cattle.agent.force.deploy"
	forceDeployYes        = "true"
)

// requestDeployment has Rancher apply its agent again when nobody else will: the agent that is there, or was just
// installed, is of the downloaded manifest, and Rancher believes that it applied its own. It decides by what is there,
// so the next look does it for a process that died before.
func (r *Reconciler) requestDeployment(ctx context.Context, management managementCluster, installed agent.State) error {
	if !management.deployed || installed.Deployed {
		return nil
	}
	// The API server is asked, for the cache may be older than what Rancher did since: a request after its answer would
	// have it deploy twice.
	cluster := &managementv3.Cluster{}
	if err := r.liveInRancher().Get(ctx, client.ObjectKey{Name: management.name}, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !lacksDeployment(cluster) {
		return nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(managementv3.SchemeGroupVersion.WithKind("Cluster"))
	object.SetName(cluster.Name)
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, cluster.UID, forceDeployAnnotation, forceDeployYes)
	if err := r.patchUID(ctx, object, patch); err != nil {
		return fmt.Errorf("asking Rancher to deploy its agent again: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Asked Rancher to deploy its agent again, because it does not notice that it was installed anew", "rancherCluster", cluster.Name)
	return nil
}

// lacksDeployment reports whether Rancher takes its agent for deployed, is not connected to it, and was not asked to
// deploy it again.
func lacksDeployment(cluster *managementv3.Cluster) bool {
	view := viewOf(cluster)
	return view.deployed && !view.connected && cluster.DeletionTimestamp.IsZero() && cluster.Annotations[forceDeployAnnotation] != forceDeployYes
}

// redeploy has Rancher apply its agent again as soon as one registers, whatever is in the workload cluster.
type redeploy struct{ management managementCluster }

func (a redeploy) String() string {
	return "ask Rancher to deploy the agent of v3 Rancher cluster " + a.management.name + " again"
}

func (a redeploy) do(ctx context.Context, r *Reconciler, o *Observation) outcome.Outcome {
	if err := r.requestDeployment(ctx, a.management, agent.State{}); err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, err)
	}
	o.redeployed = true
	return outcome.Done()
}
