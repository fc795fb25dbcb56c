package importer

import (
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
)

// Conditions of a v3 Cluster.
const (
	// connectedCondition is True while Rancher reaches the workload cluster through its agent.
	connectedCondition = "Connected"
	// waitingCondition is True from the first time on that Rancher found the workload cluster healthy through its
	// agent. Ready is no such mark: it is False with reason Disconnected before the first connection, too.
	waitingCondition = "Waiting"
	// deployedCondition is True from the time on that Rancher has applied its agent itself.
	deployedCondition = "AgentDeployed"
	// migratedCondition is True once Rancher has no secret of a v3 Cluster left to move, which is so within a second of
	// its creation. Rancher 2.15 never connects an agent that registers before that, as it may just after Rancher has
	// started: the controller that sets this and the one that reports the registration write against each other for ever.
	migratedCondition = "ServiceAccountSecretsMigrated"
	// namespaceCondition is True from about the same time on.
	namespaceCondition = "BackingNamespaceCreated"
)

// managementCluster is what matters of the management.cattle.io/v3 Cluster behind a record.
type managementCluster struct {
	name string
	// object is a copy of the v3 Cluster from the cache.
	object *managementv3.Cluster
	// connected: Rancher reaches the workload cluster through its agent.
	connected bool
	// known: the agent has connected at least once.
	known bool
	// deployed: Rancher has applied its agent itself, and does not look whether it is still there.
	deployed bool
	// since changes whenever the connection does.
	since string
	// migrated: Rancher is ready for its agent.
	migrated bool
	// namespaced is when Rancher made its namespace, zero if it has not, or does not say.
	namespaced time.Time
}

func viewOf(cluster *managementv3.Cluster) *managementCluster {
	view := &managementCluster{name: cluster.Name, object: cluster}
	for i := range cluster.Status.Conditions {
		condition := &cluster.Status.Conditions[i]
		switch condition.Type {
		case connectedCondition:
			view.connected = condition.Status == corev1.ConditionTrue
			view.since = condition.LastUpdateTime
		case waitingCondition:
			view.known = condition.Status == corev1.ConditionTrue
		case deployedCondition:
			view.deployed = condition.Status == corev1.ConditionTrue
		case migratedCondition:
			view.migrated = condition.Status == corev1.ConditionTrue
		case namespaceCondition:
			view.namespaced, _ = time.Parse(time.RFC3339, condition.LastUpdateTime)
		}
	}
	return view
}

// prepared reports whether Rancher is ready for the agent.
func (m managementCluster) prepared() bool { return m.migrated || m.known || m.deployed }

// served reports whether the Rancher cluster has had an agent that it reached, so that what Rancher applied
// itself is there to be taken over.
func (m managementCluster) served() bool { return m.known || m.deployed }
