package agent

import (
	"context"
	"errors"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/workload"
)

// What is read of a workload cluster at most. A Deployment keeps ten ReplicaSets beside its newest one.
const (
	setsRead  = 20
	podsRead  = 10
	nodesRead = 10
)

// Evidence is what a workload cluster shows of an agent that does not connect.
type Evidence struct {
	// uid, idle and refused are those of the Deployment.
	uid     types.UID
	idle    bool
	refused Cause
	// host is that of the URL that the agent connects to.
	host string
	// warned says that the API server warned of Pod Security when the agent was installed.
	warned bool

	sets []replicaSet
	pods []pod
	// listed says that both are known. If not, the user of the kubeconfig may be forbidden to list them.
	listed, setsForbidden, podsForbidden bool
	nodes                                []node
	nodesKnown                           bool
	// logs are the ends of those of the agent, the present one first.
	logs []string
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type owned struct {
	Name            string            `json:"name"`
	UID             types.UID         `json:"uid"`
	Annotations     map[string]string `json:"annotations"`
	OwnerReferences []struct {
		UID types.UID `json:"uid"`
	} `json:"ownerReferences"`
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
}

func (o *owned) by(uid types.UID) bool {
	for i := range o.OwnerReferences {
		if o.OwnerReferences[i].UID == uid {
			return true
		}
	}
	return false
}

type replicaSet struct {
	Metadata owned `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// revision is the number that the controller of Deployments gives its ReplicaSets, zero without one.
func (r *replicaSet) revision() int64 {
	number, err := strconv.ParseInt(r.Metadata.Annotations["deployment.kubernetes.io/revision"], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

type pod struct {
	Metadata owned `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Conditions []condition       `json:"conditions"`
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	RestartCount int32          `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
	Waiting    because   `json:"waiting"`
	Running    *struct{} `json:"running"`
	Terminated because   `json:"terminated"`
}

type because struct {
	Reason string `json:"reason"`
}

// hasRun reports whether the container has ever started.
func (c *containerStatus) hasRun() bool {
	return c.RestartCount > 0 || c.State.Running != nil || c.State.Terminated.Reason != "" || c.LastState.Terminated.Reason != ""
}

// How far a Pod is.
const (
	placeless = iota // It has no Node.
	placed           // It has one, and its container has not started.
	started
)

func (p *pod) progress() int {
	switch {
	case p.Spec.NodeName == "":
		return placeless
	case !p.agent().hasRun():
		return placed
	default:
		return started
	}
}

// agentContainer is the container of the agent in its Pod.
const agentContainer = "cluster-register"

// agent returns the status of the agent's container.
func (p *pod) agent() *containerStatus {
	for i := range p.Status.Containers {
		if p.Status.Containers[i].Name == agentContainer {
			return &p.Status.Containers[i]
		}
	}
	return &containerStatus{}
}

// waitsFor reports whether a container of the Pod waits for one of the reasons.
func (p *pod) waitsFor(reasons ...string) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.Init, p.Status.Containers), func(c containerStatus) bool {
		return slices.Contains(reasons, c.State.Waiting.Reason)
	})
}

type node struct {
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
}

// ready reports whether the Node is ready, and has none of the taints of one that is not ready yet.
func (n node) ready() bool {
	for _, taint := range n.Spec.Taints {
		if slices.Contains(startTaints(), taint.Key) {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c condition) bool {
		return c.Type == string(corev1.NodeReady) && c.Status == string(corev1.ConditionTrue)
	})
}

// newest returns the ReplicaSet of the Deployment's present template, nil if none is known.
func (e *Evidence) newest() *replicaSet {
	var found *replicaSet
	for i := range e.sets {
		set := &e.sets[i]
		if set.Metadata.by(e.uid) && (found == nil || set.revision() > found.revision()) {
			found = set
		}
	}
	return found
}

// pod returns the Pod that has got furthest, of those of the newest ReplicaSet if there are any, nil if there is none.
func (e *Evidence) pod() *pod {
	var found *pod
	set := e.newest()
	better := func(p *pod) bool {
		if set != nil && p.Metadata.by(set.Metadata.UID) != found.Metadata.by(set.Metadata.UID) {
			return p.Metadata.by(set.Metadata.UID)
		}
		return p.progress() > found.progress()
	}
	for i := range e.pods {
		p := &e.pods[i]
		if p.Metadata.DeletionTimestamp == nil && (found == nil || better(p)) {
			found = p
		}
	}
	return found
}

// Diagnose reads why the agent, which was inspected before, does not connect: up to four bounded requests, none if the
// Deployment shows it. warned says that the API server warned of Pod Security when the agent was installed. What cannot
// be read is left out.
func (s Site) Diagnose(ctx context.Context, inspected State, warned bool) Cause {
	e := &Evidence{uid: inspected.uid, idle: inspected.idle, refused: inspected.refused, host: inspected.Host(), warned: warned}
	if !e.idle && e.refused == Unknown {
		e.read(ctx, s.Client)
	}
	return Diagnose(e)
}

func (e *Evidence) read(ctx context.Context, cluster *workload.Client) {
	within := []client.ListOption{client.InNamespace(Namespace), client.MatchingLabels{"app": DeploymentName}}
	sets := struct {
		Items []replicaSet `json:"items"`
	}{}
	setsErr := cluster.List(ctx, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), setsRead, &sets, within...)
	pods := struct {
		Items []pod `json:"items"`
	}{}
	podsErr := cluster.List(ctx, corev1.SchemeGroupVersion.WithKind("Pod"), podsRead, &pods,
		append(within, client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed))})...)
	if setsErr == nil {
		e.sets = sets.Items
	}
	if podsErr == nil {
		e.pods = pods.Items // After a failure it has what was converted until then.
	}
	e.listed = setsErr == nil && podsErr == nil
	e.setsForbidden, e.podsForbidden = forbidden(setsErr), forbidden(podsErr)
	found := e.pod()
	switch {
	case found == nil:
	case found.progress() == placeless:
		nodes := struct {
			Items []node `json:"items"`
		}{}
		err := cluster.List(ctx, corev1.SchemeGroupVersion.WithKind("Node"), nodesRead, &nodes)
		e.nodes, e.nodesKnown = nodes.Items, err == nil
	case found.progress() == started:
		e.readLogs(ctx, cluster, found)
	}
}

// readLogs reads the end of the log of the agent, and of the container before if that one has only begun.
func (e *Evidence) readLogs(ctx context.Context, cluster *workload.Client, of *pod) {
	if len(validation.IsDNS1123Subdomain(of.Metadata.Name)) > 0 {
		return // It is a stranger's text, and would be part of a path.
	}
	key := client.ObjectKey{Namespace: Namespace, Name: of.Metadata.Name}
	for _, previous := range []bool{false, true} {
		if previous && (of.agent().State.Running == nil || of.agent().RestartCount == 0) {
			return
		}
		if log, err := cluster.Log(ctx, key, agentContainer, previous); err == nil {
			e.logs = append(e.logs, log)
		}
	}
}

// forbidden reports whether the user of the kubeconfig lacks a permission.
func forbidden(err error) bool {
	problem, ok := errors.AsType[*outcome.Problem](err)
	return ok && problem.Reason == archelonv1.WorkloadForbiddenReason
}
