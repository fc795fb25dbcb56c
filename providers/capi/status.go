package capi

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// ErrNotConnected is that a cluster is engaged, or was, and does not answer. It is worth another try later, other than
// multicluster.ErrClusterNotFound.
var ErrNotConnected = errors.New("the workload cluster is not connected")

// ErrAccessEnded is what a GetSecret of others returns, wrapped or not, when the cluster must not be accessed any more.
// The connection ends at once. GetSecret is asked again later.
var ErrAccessEnded = errors.New("the access to the workload cluster has ended")

// State is where the engagement of a cluster stands.
type State string

const (
	// Pending is a cluster that is not provisioned yet, or has no kubeconfig that can be used.
	Pending State = "Pending"
	// Connecting is a cluster that controllers have not worked with before: it has not answered, has not sent all that
	// they watch, or they could not be started for it.
	Connecting State = "Connecting"
	// Engaged is a cluster that controllers work with.
	Engaged State = "Engaged"
	// Degraded is a cluster that controllers work with, although something of it does not work.
	Degraded State = "Degraded"
	// Disconnected is a cluster that controllers worked with and do not any more.
	Disconnected State = "Disconnected"
)

// States returns all of them.
func States() []State { return []State{Pending, Connecting, Engaged, Degraded, Disconnected} }

// Reasons of states. What is wrong with a kubeconfig or a connection has the reasons that the import of clusters has.
const (
	// NotProvisionedReason is that the phase of the Cluster is not Provisioned, or that IsReady says no.
	NotProvisionedReason = "NotProvisioned"
	// ConnectingReason is that the first connection is being made.
	ConnectingReason = "Connecting"
	// EngagedReason is that everything works.
	EngagedReason = "Engaged"
	// ForbiddenReason is that the user of the kubeconfig may not list or watch a kind.
	ForbiddenReason = "Forbidden"
	// KindMissingReason is that the cluster does not have a kind.
	KindMissingReason = "KindMissing"
	// KindFailingReason is that the cluster fails to serve a kind.
	KindFailingReason = "KindFailing"
	// KindTimeoutReason is that the cluster does not send all objects of a kind, or does not begin a watch, in time.
	KindTimeoutReason = "KindTimeout"
	// KindTooLargeReason is that all objects of a kind have more bytes than are received: Options.MaxListBytes.
	KindTooLargeReason = "KindTooLarge"
	// SyncingReason is that the first objects are being received.
	SyncingReason = "Syncing"
	// RotationFailingReason is that the kubeconfig was deleted, or replaced by one that cannot be read or does not
	// connect. The connection with the earlier one is used for a while, which the message says.
	RotationFailingReason = "RotationFailing"
	// EngagementFailingReason is that a controller could not be started for the cluster.
	EngagementFailingReason = "EngagementFailing"
	// AccessEndedReason is that GetSecret says so: ErrAccessEnded.
	AccessEndedReason = "AccessEnded"
	// KubeconfigUnreadableReason is that the kubeconfig could not be read in the management cluster.
	KubeconfigUnreadableReason = "KubeconfigUnreadable"
)

// Status is what there is to say of one cluster. It holds no credentials, and no text that a workload cluster sent.
type Status struct {
	// State is where it stands, since a time.
	State State
	Since time.Time
	// Reason is why, in one word; Message says what to do.
	Reason, Message string
}

// NameOf returns the name of a Cluster in a multi-cluster manager.
func NameOf(key types.NamespacedName) multicluster.ClusterName {
	return multicluster.ClusterName(key.String())
}

// Status returns where the engagement of a Cluster stands. It is false for one that is not to be engaged.
func (p *Provider) Status(key types.NamespacedName) (Status, bool) {
	m := p.member(NameOf(key))
	if m == nil {
		return Status{}, false
	}
	return m.currentStatus(), true
}

// Statuses returns those of all clusters that are to be engaged.
func (p *Provider) Statuses() map[types.NamespacedName]Status {
	p.mu.RLock()
	members := make([]*member, 0, len(p.members))
	for _, m := range p.members {
		members = append(members, m)
	}
	p.mu.RUnlock()
	statuses := make(map[types.NamespacedName]Status, len(members))
	for _, m := range members {
		statuses[m.key] = m.currentStatus()
	}
	return statuses
}

// provisioned is the gate of the phase. It says nothing of whether the API server answers, which a probe finds out.
func provisioned(ccl *clusterv1.Cluster) bool {
	return ccl.Status.GetTypedPhase() == clusterv1.ClusterPhaseProvisioned
}

// leaving is whether a Cluster is on its way out.
func leaving(ccl *clusterv1.Cluster) bool {
	return !ccl.DeletionTimestamp.IsZero() || ccl.Status.GetTypedPhase() == clusterv1.ClusterPhaseDeleting
}

// notReady is the status of a Cluster that is not connected to yet.
func (o *Options) notReady(ccl *clusterv1.Cluster) Status {
	message := fmt.Sprintf("The phase of the Cluster is %q. It is connected to when it is Provisioned", ccl.Status.GetTypedPhase())
	if o.readyByOthers {
		message = "IsReady of the provider says that the Cluster is not ready"
	}
	return Status{State: Pending, Reason: NotProvisionedReason, Message: message}
}

// errNoAPI is that something else than a Kubernetes API answers.
var errNoAPI = errors.New("the answer is not that of a Kubernetes API")
