package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Cause says why an agent that is installed does not connect. It is a word of ours: nothing that a workload cluster
// says becomes part of it.
type Cause string

// Causes. Unknown is none.
const (
	Unknown Cause = ""

	// ScaledDown: the Deployment has no replicas, or is paused.
	ScaledDown Cause = "ScaledDown"
	// NoController: the Deployment has no Pods, and nothing refuses them.
	NoController Cause = "NoController"
	// Quota, PodSecurity, WebhookUnavailable: what refuses the Pods. Refused: something else does.
	Quota              Cause = "Quota"
	PodSecurity        Cause = "PodSecurity"
	WebhookUnavailable Cause = "WebhookUnavailable"
	Refused            Cause = "Refused"

	// NoScheduler: nothing looks for a Node.
	NoScheduler Cause = "NoScheduler"
	// NoNodes: there is no Node. NodesNotReady: none is ready.
	NoNodes       Cause = "NoNodes"
	NodesNotReady Cause = "NodesNotReady"
	// Taints, InsufficientResources: why no Node accepts the Pod. NoFittingNode: it is something else.
	Taints                Cause = "Taints"
	InsufficientResources Cause = "InsufficientResources"
	NoFittingNode         Cause = "NoFittingNode"

	// Starting: the Pod has a Node, and its container has not started.
	Starting Cause = "Starting"
	// ImagePull: the image cannot be pulled. NotStartable: the container cannot be started.
	ImagePull    Cause = "ImagePull"
	NotStartable Cause = "NotStartable"
	// CrashLoop: the container ends again and again. OutOfMemory: because it takes more memory than it may.
	CrashLoop   Cause = "CrashLoop"
	OutOfMemory Cause = "OutOfMemory"
	// Running: the agent runs.
	Running Cause = "Running"
	// ServerUnresolvable, ServerUnreachable, ServerNotTrusted: what the agent says about Rancher's server-url.
	ServerUnresolvable Cause = "ServerUnresolvable"
	ServerUnreachable  Cause = "ServerUnreachable"
	ServerNotTrusted   Cause = "ServerNotTrusted"

	// PodsUnreadable, ReplicaSetsUnreadable: the user of the kubeconfig may not list them. PodSecurityWarned: nor is more
	// known than that the API server warned of Pod Security.
	PodsUnreadable        Cause = "PodsUnreadable"
	ReplicaSetsUnreadable Cause = "ReplicaSetsUnreadable"
	PodSecurityWarned     Cause = "PodSecurityWarned"
)

// examined is how much of a message is looked at. The messages of Kubernetes are shorter.
const examined = 8 << 10

// Diagnose returns the cause that the evidence shows.
func Diagnose(e *Evidence) Cause {
	if e.idle {
		return ScaledDown
	}
	if e.refused != Unknown {
		return e.refused
	}
	set := e.newest()
	if set != nil {
		if found := refusalIn(set.Status.Conditions); found != Unknown {
			return found
		}
	}
	if found := e.pod(); found != nil {
		return e.ofPod(found)
	}
	switch {
	case e.podsForbidden && e.warned, e.setsForbidden && e.warned:
		return PodSecurityWarned
	case e.podsForbidden:
		return PodsUnreadable
	case e.setsForbidden:
		return ReplicaSetsUnreadable
	case !e.listed:
		return Unknown
	case set != nil && e.warned:
		return PodSecurity
	default:
		return NoController
	}
}

// ofPod returns the cause that the Pod shows.
func (e *Evidence) ofPod(p *pod) Cause {
	switch p.progress() {
	case placeless:
		return e.unscheduled(p)
	case placed:
		return p.notStarted()
	default:
		return e.notConnected(p)
	}
}

// unscheduled says why a Pod has no Node.
func (e *Evidence) unscheduled(p *pod) Cause {
	i := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == string(corev1.PodScheduled) })
	if i < 0 || p.Status.Conditions[i].Reason != corev1.PodReasonUnschedulable {
		if e.nodesKnown && len(e.nodes) == 0 {
			return NoNodes
		}
		return NoScheduler
	}
	says := containing(p.Status.Conditions[i].Message)
	switch {
	case e.nodesKnown && len(e.nodes) == 0, says("no nodes available to schedule pods"), says("0/0 nodes are available"):
		return NoNodes
	case e.nodesKnown && !slices.ContainsFunc(e.nodes, node.ready):
		return NodesNotReady
	case says("Insufficient ", "Too many pods", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure",
		"node.kubernetes.io/pid-pressure"):
		return InsufficientResources
	case says(startTaints()...):
		return NodesNotReady
	case says("untolerated taint", "that the pod didn't tolerate"):
		return Taints
	default:
		return NoFittingNode
	}
}

// startTaints are those of Nodes that are not ready yet.
func startTaints() []string {
	return []string{
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable,
		"node.cloudprovider.kubernetes.io/uninitialized", "node.cluster.x-k8s.io/uninitialized",
	}
}

// notStarted says why no container of a Pod has started.
func (p *pod) notStarted() Cause {
	switch {
	case p.waitsFor("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
		"ImageInspectError", "SignatureValidationFailed"):
		return ImagePull
	case p.waitsFor("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError",
		"PreCreateHookError", "PreStartHookError"):
		return NotStartable
	default:
		return Starting
	}
}

// restartsOfCrash is how often the container of an agent that runs at the moment has ended before that is a crash loop.
const restartsOfCrash = 3

// notConnected says why an agent that has started does not connect.
func (e *Evidence) notConnected(p *pod) Cause {
	if found := p.notStarted(); found != Starting {
		return found
	}
	agent := p.agent()
	if agent.LastState.Terminated.Reason == "OOMKilled" || agent.State.Terminated.Reason == "OOMKilled" {
		return OutOfMemory
	}
	for _, log := range e.logs {
		if found := saidIn(log, e.host); found != Unknown {
			return found
		}
	}
	if agent.State.Running == nil || agent.RestartCount >= restartsOfCrash {
		return CrashLoop
	}
	return Running
}

// refusalIn returns what refuses the Pods of a ReplicaSet or of a Deployment.
func refusalIn(conditions []condition) Cause {
	for _, c := range conditions {
		failed := c.Type == "ReplicaFailure" && c.Status == string(corev1.ConditionTrue) && c.Reason == "FailedCreate"
		if !failed && (c.Type != "Progressing" || c.Status != string(corev1.ConditionFalse) || c.Reason != "ReplicaSetCreateError") {
			continue
		}
		says := containing(c.Message)
		switch {
		case says("exceeded quota: ", "failed quota: ", "status unknown for quota: "):
			return Quota
		case says("violates PodSecurity "):
			return PodSecurity
		case says("failed calling webhook "):
			return WebhookUnavailable
		default:
			return Refused
		}
	}
	return Unknown
}

// saidIn returns what the last line of a log that is about Rancher's server-url says about it.
func saidIn(log, host string) Cause {
	lines := strings.Split(log, "\n")
	for _, line := range slices.Backward(lines) {
		says := containing(line)
		if !says("is not accessible", "Failed to connect to proxy", "cacerts", "CATTLE_CA_CHECKSUM", "Certificate chain is not complete") &&
			(host == "" || !says(host)) {
			continue
		}
		switch {
		case says("x509: ", "does not match given --ca-checksum", "SSL certificate problem", "Certificate chain is not complete",
			"CATTLE_CA_CHECKSUM is set but there is no CA certificate", "does not look like an x509 certificate"):
			return ServerNotTrusted
		case says("Could not resolve host", "no such host", "dial tcp: lookup ", "Temporary failure in name resolution", "Name or service not known"):
			return ServerUnresolvable
		case says("is not accessible", "connection refused", "Connection refused", "i/o timeout", "timed out", "no route to host", "No route to host",
			"network is unreachable", "connection reset", "deadline exceeded", "proxyconnect", "bad handshake", "Could not resolve proxy", "handshake timeout"):
			return ServerUnreachable
		}
	}
	return Unknown
}

// containing returns what reports whether a text, as far as it is examined, contains one of some parts.
func containing(text string) func(parts ...string) bool {
	text = text[:min(len(text), examined)]
	return func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
}
