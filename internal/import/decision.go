package importer

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Decision says how a run goes on.
type Decision struct {
	// Intent is what the run sets out to do.
	Intent intent
	// Phase names the rule that decided; logs and metrics have it.
	Phase string
	// Look is what has to be known before more can be decided, nil for nothing.
	Look question
	// Actions are to be done in this order. Then it is decided again, unless the Outcome ends the run.
	Actions []Action
	// Outcome is how the run ends. With actions, one that is Done does not end it.
	Outcome outcome.Outcome

	findings

	last bool // the run ends here even though the outcome is Done
}

// question is something that the rules have to know. It is asked once in a run, and prints as what it asks for.
type question interface {
	fmt.Stringer
	// read adds the answer to the observation. It changes nothing else.
	read(ctx context.Context, r *Reconciler, o *Observation) error
}

// findings are what the rules have found out on their way.
type findings struct {
	// record is the one that the cluster is followed under, and management the v3 Cluster behind it.
	record     *record
	management *managementCluster
	// unselected: neither the import label nor a selector asks for the import.
	unselected bool
	// quoted is what the outcome says in the words of Cluster API.
	quoted string
	// connected says that the agent has connected, and nothing has to be done about it.
	connected bool
}

func pass() Decision                        { return Decision{} }
func ask(q question) Decision               { return Decision{Look: q} }
func act(actions ...Action) Decision        { return Decision{Actions: actions} }
func stop(out outcome.Outcome) Decision     { return Decision{Outcome: out} }
func fail(err error) Decision               { return stop(outcome.FromError(err, archelonv1.InternalErrorReason)) }
func stall(reason, message string) Decision { return stop(outcome.Stall(reason, message)) }
func wait(reason, message string) Decision  { return stop(outcome.Wait(reason, message)) }
func endAfter(after time.Duration) Decision {
	return Decision{Outcome: outcome.DoneFor(after), last: true}
}
func actAndStop(a Action, out outcome.Outcome) Decision {
	return Decision{Actions: []Action{a}, Outcome: out}
}

// passes reports whether the next rule decides.
func (d Decision) passes() bool {
	return d.Look == nil && len(d.Actions) == 0 && d.Outcome.IsDone() && !d.last
}

// ends reports whether nothing follows on what the decision asks for.
func (d Decision) ends() bool {
	return d.Look == nil && (len(d.Actions) == 0 || !d.Outcome.IsDone())
}

// deciding is a decision in the making.
type deciding struct {
	Rules
	*Observation
	now time.Time
	findings
}

// lacks reports whether a question has yet to be asked in this run.
func (d *deciding) lacks(q fmt.Stringer) bool { return !d.answered[q.String()] }

// changed has the metadata of the CAPI cluster changed, and passes if that changes nothing.
func (d *deciding) changed(what, doing string, change func(*clusterv1.Cluster)) (changeCluster, bool) {
	after := *d.cluster // The rest of it is shared: it is not changed, and large.
	after.ObjectMeta = *d.cluster.ObjectMeta.DeepCopy()
	change(&after)
	differs := !equality.Semantic.DeepEqual(&d.cluster.ObjectMeta, &after.ObjectMeta)
	return changeCluster{before: d.cluster, after: &after, what: what, doing: doing}, differs
}

// change is changed for what is done alone.
func (d *deciding) change(what, doing string, change func(*clusterv1.Cluster)) Decision {
	if action, differs := d.changed(what, doing, change); differs {
		return act(action)
	}
	return pass()
}

// recordChange is a change of the metadata of a record.
func recordChange(found *record, what, doing string, change func(client.Object)) changeRecord {
	after, _ := found.Object.DeepCopyObject().(client.Object)
	change(after)
	return changeRecord{record: *found, after: after, what: what, doing: doing}
}

func waitingForRancher() outcome.Outcome {
	return outcome.Wait(archelonv1.WaitingForRancherReason, "Created the Rancher cluster. Waiting for Rancher to issue its registration token, usually less than 10 seconds. "+
		"After a minute, check the log of Rancher")
}

// startOver waits for the cache to show what the API server has said.
func startOver() outcome.Outcome {
	return outcome.Poll(archelonv1.InternalErrorReason, "This Cluster has changed meanwhile. Archelon starts over", conflictRetry)
}

// ownName returns the name of the Rancher cluster that was created for this cluster, empty if there is none.
func (d *deciding) ownName() string {
	if own := d.standing(); own != nil {
		return own.GetName()
	}
	return ""
}
