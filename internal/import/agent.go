package importer

import (
	"context"
	"fmt"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
)

// kubeconfigRecheck is when a kubeconfig Secret that is missing or refused is looked at again although no watch shows it. The watch
// brings Secrets with CAPI's cluster-name label at once; some control plane providers leave the label out.
const kubeconfigRecheck = 30 * time.Second

// Conditions of a v3 Cluster.
const (
	// connectedCondition is True while Rancher reaches the workload cluster through its agent.
	connectedCondition = "Connected"
	// waitingCondition is True from the first time on that Rancher found the workload cluster healthy through its
	// agent. Ready is no such mark: it is False with reason Disconnected before the first connection, too.
	waitingCondition = "Waiting"
	// deployedCondition is True from the time on that Rancher has applied its agent itself.
	deployedCondition = "AgentDeployed"
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
}

// findManagement finds the v3 Cluster that Rancher works with: the record itself, or the one made from a v1 record.
func (r *Reconciler) findManagement(ctx context.Context, s *scope) outcome.Outcome {
	name := s.record.strategy.ManagementName(s.record.Object)
	if name == "" {
		return waitingForRancher()
	}
	cluster := &managementv3.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) && s.record.GetNamespace() != "" {
		// The cache has what carries owner labels. A v3 Cluster from before its v1 record was adopted has none yet, and they can be
		// taken off; the next phase puts them on.
		err = r.APIReader.Get(ctx, client.ObjectKey{Name: name}, cluster)
	}
	if err != nil {
		if apierrors.IsNotFound(err) {
			return waitingForRancher()
		}
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("getting the v3 Rancher cluster: %w", err))
	}
	if !s.record.stands(cluster) {
		// Nothing is done to it. A record under the name of a v3 Cluster, which tenants can make, becomes the companion of that.
		return outcome.Poll(archelonv1.ForeignRecordReason, fmt.Sprintf(
			"The %s leads to v3 Rancher cluster %s, which was not made from it; delete the %s and import the cluster again",
			s.record, name, s.record), unseenRecheck)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return outcome.Wait(archelonv1.RecordTerminatingReason, "The Rancher cluster is being deleted in Rancher")
	}
	s.management = viewOf(cluster)
	return outcome.Done()
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
		}
	}
	return view
}

// connectAgent installs Rancher's agent once and leaves it alone from then on: Rancher maintains it after the first contact.
// Only when Rancher says that the agent is not connected, and what is in the workload cluster cannot connect, it is installed again.
func (r *Reconciler) connectAgent(ctx context.Context, s *scope) outcome.Outcome {
	if out := r.noteTakeOver(ctx, s); !out.IsDone() {
		return out
	}
	gone := r.AgentGone != nil && r.AgentGone(s.key())
	if s.management.connected && !gone {
		r.jobs.Connected(s.key())
		r.forget(s.key())
		return outcome.Done()
	}
	if left := r.disconnectionGrace(s); left > 0 && !gone {
		return outcome.DoneFor(left)
	}
	want, err := r.wishFor(ctx, s)
	if err != nil {
		return outcome.FromError(err, archelonv1.InternalErrorReason)
	}
	input, out := r.agentInput(ctx, s)
	if !out.IsDone() {
		return out
	}
	input += fmt.Sprintf("\n%s\ngone %t", want.input(), gone)
	logger := ctrl.LoggerFrom(ctx)
	key, management := s.key(), *s.management
	management.object = nil // A job outlives this copy.
	watched, err := versionOf(ctx, r.Client, kubeconfigOf(key).Secret)
	if err != nil {
		return outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("looking for the kubeconfig Secret: %w", err))
	}
	// The job is done again while the agent does not connect: nothing in the management cluster tells of a Deployment that was
	// deleted in a workload cluster, and a workload cluster is not watched for an import alone.
	result, ended := r.jobs.Do(key, input, func(ctx context.Context) outcome.Outcome { //nolint:contextcheck // a job outlives the reconcile
		out := r.installAgent(ctrl.LoggerInto(ctx, logger), key, management, want)
		if out.Kind == outcome.KindWait && watched == "" {
			out.Kind, out.After = outcome.KindPoll, kubeconfigRecheck
		}
		return out
	})
	switch {
	case !ended && management.known:
		return outcome.Wait(archelonv1.AgentDisconnectedReason, agentDisconnected)
	case !ended:
		return outcome.Wait(archelonv1.ConnectingAgentReason, "Rancher's agent is being installed in the workload cluster")
	case !result.IsDone():
		return asDelayed(result)
	case management.known:
		return outcome.Poll(archelonv1.AgentDisconnectedReason, agentDisconnected, result.After)
	default:
		return outcome.Poll(archelonv1.WaitingForAgentReason,
			"Rancher's agent is installed in the workload cluster and has yet to connect to Rancher", result.After)
	}
}

// agentDisconnected is true while a lost agent is looked at and afterwards, so that a loss costs one write of the condition.
const agentDisconnected = "Rancher reports the agent as disconnected; what is installed is being looked at, and installed again if it cannot connect: " +
	"if this lasts, look at the Deployment cattle-system/cattle-cluster-agent and at the network of the workload cluster"

// forget drops what is kept for the work on a workload cluster: the last result, the connection, and since when its agent is disconnected.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.jobs.Forget(key)
	r.registrations.forget(key)
	r.Workloads.Forget(kubeconfigOf(key))
	r.disconnections.forget(key)
	r.contests.forget(key)
}

// asDelayed turns a failed job into a wait for its next try. The backoff is that of the job, so the error is not
// handed to the queue, which would add its own.
func asDelayed(result outcome.Outcome) outcome.Outcome {
	if result.Kind == outcome.KindFail {
		result.Kind = outcome.KindPoll
	}
	return result
}

// agentInput digests what the installation of the agent depends on. Each part of it is watched, so a change of any
// starts a new try at once. It stops as long as Rancher has not made the registration.
func (r *Reconciler) agentInput(ctx context.Context, s *scope) (string, outcome.Outcome) {
	registration, err := r.Tokens.Fingerprint(ctx, s.management.name)
	if err != nil {
		out := outcome.FromError(fmt.Errorf("reading the registration: %w", err), archelonv1.InternalErrorReason)
		if out.Kind != outcome.KindWait {
			return "", out
		}
		// No token, and a token without a URL, are passing states, unless Rancher does not know its own address.
		server, err := r.Settings.ServerURL(ctx)
		if err != nil {
			return "", outcome.FromError(err, archelonv1.InternalErrorReason)
		}
		return "", r.requestRegistration(ctx, s, server.String(), false)
	}
	if out := r.renewRegistration(ctx, s); !out.IsDone() {
		return "", out
	}
	r.registrations.arrive(s.key(), r.Clock.Now())
	settings, err := r.Settings.Fingerprint(ctx)
	if err != nil {
		return "", outcome.FromError(fmt.Errorf("reading Rancher's settings: %w", err), archelonv1.InternalErrorReason)
	}
	parts := []string{s.management.name, registration, settings}
	if s.management.known {
		// Each loss of the connection is looked into once. Before the first there is none to lose.
		parts = append(parts, s.management.since)
	}
	for _, secret := range []struct {
		reader client.Reader
		key    client.ObjectKey
	}{
		{r.Client, kubeconfigOf(s.key()).Secret},
		{r.tokenSecrets, client.ObjectKey{Namespace: s.management.name, Name: rancher.DefaultTokenSecretName}},
	} {
		version, err := versionOf(ctx, secret.reader, secret.key)
		if err != nil {
			return "", outcome.Fail(archelonv1.InternalErrorReason, fmt.Errorf("looking for Secret %s: %w", secret.key, err))
		}
		parts = append(parts, version)
	}
	return strings.Join(parts, "\n"), outcome.Done()
}

// versionOf returns what changes with every write to a Secret, "" if there is none. It reads from a cache of metadata.
func versionOf(ctx context.Context, reader client.Reader, key client.ObjectKey) (string, error) {
	secret := secretMetadata()
	if err := reader.Get(ctx, key, secret); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return string(secret.UID) + "/" + secret.ResourceVersion, nil
}

func waitingForRancher() outcome.Outcome {
	return outcome.Wait(archelonv1.WaitingForRancherReason, "The Rancher cluster was made; Rancher has yet to prepare its registration: if that lasts, look at the logs of Rancher")
}
