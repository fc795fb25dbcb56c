package importer

import (
	"fmt"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// connectAgent installs Rancher's agent once and leaves it alone from then on: Rancher maintains it after the first
// contact. Only when Rancher says that the agent is not connected, and what is in the workload cluster cannot
// connect, it is installed again.
func (d *deciding) connectAgent() Decision {
	if noted := d.noteTakeOver(); !noted.passes() {
		return noted
	}
	if d.management.connected && !d.agentGone {
		d.connected = true
		return pass()
	}
	switch left, look := d.disconnectionGrace(); {
	case look != nil:
		return ask(look)
	case left > 0 && !d.agentGone:
		return stop(outcome.DoneFor(left))
	}
	if look := (askTerms{d.management.name}); d.lacks(look) {
		return ask(look)
	}
	want, err := d.wish()
	if err != nil {
		return fail(err)
	}
	if registered := d.awaitRegistration(); !registered.passes() {
		return registered
	}
	manual, manualErr := d.manualDelivery(d.cluster.Annotations)
	prepared := d.awaitPreparation()
	if !prepared.passes() {
		if manual || manualErr != nil || d.terms.settingsErr != nil {
			return prepared
		}
		if look := (askHalf{}); d.lacks(look) {
			return ask(look)
		}
		if !d.half {
			return prepared
		}
	}
	if err := d.terms.settingsErr; err != nil {
		return fail(fmt.Errorf("reading Rancher's settings: %w", err))
	}
	switch {
	case manualErr != nil:
		return fail(invalidSetting(archelonv1.AgentDeliveryAnnotation, manualErr))
	case manual:
		return d.awaitDelivery()
	case !d.worked:
		return act(work{
			start: start{input: d.input(want), unready: prepared.Outcome}, management: *d.management, want: want, watched: d.terms.kubeconfig != "",
		})
	case !d.ended && !prepared.passes():
		return prepared
	default:
		return d.workDone()
	}
}

// workDone says what came of the work in the workload cluster. It is done again while the agent does not connect:
// nothing in the management cluster tells of a Deployment that was deleted in a workload cluster, and a workload
// cluster is not watched for an import alone.
func (d *deciding) workDone() Decision {
	result := d.result
	switch known := d.management.known; {
	case !d.ended && known:
		return wait(archelonv1.AgentDisconnectedReason, agentDisconnected)
	case !d.ended:
		return wait(archelonv1.ConnectingAgentReason, "Installing Rancher's agent in the workload cluster")
	case result.Kind == outcome.KindFail:
		// It is a wait for the next try. The backoff is that of the job, so the error is not handed to the queue, which
		// would add its own.
		result.Kind = outcome.KindPoll
		return stop(result)
	case !result.IsDone():
		return stop(result)
	case known && result.Message != "":
		return stop(outcome.Poll(archelonv1.AgentDisconnectedReason, agentLost+result.Message, result.After))
	case known:
		return stop(outcome.Poll(archelonv1.AgentDisconnectedReason, agentDisconnected, result.After))
	case result.Message != "":
		return stop(outcome.Poll(result.Reason, agentNotConnected+result.Message, result.After))
	default:
		return stop(outcome.Poll(archelonv1.WaitingForAgentReason,
			"Installed Rancher's agent in the workload cluster. Waiting for its connection to Rancher, usually less than a minute", result.After))
	}
}

// What comes before an explanation of why an agent does not connect.
const (
	agentNotConnected = "Rancher's agent is installed in the workload cluster and has not connected to Rancher. "
	agentLost         = "The agent lost its connection to Rancher. "
)

// agentDisconnected is true while a lost agent is looked at, and afterwards where the look explains nothing, so that
// such a loss costs one write of the condition.
const agentDisconnected = "The agent lost its connection to Rancher. Archelon checks it, and installs it again if it cannot connect. After 5 minutes, " +
	"check Deployment cattle-system/cattle-cluster-agent in the workload cluster and its network path to Rancher"
