package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// patience is how long a chain of steps may take before the demo fails. It takes about a second.
const patience = 90 * time.Second

var errTooLong = fmt.Errorf("it has not happened within %s", patience)

// step is something that a cluster has to reach.
type step struct {
	// name completes "waiting for".
	name string
	// reached reports whether it has happened.
	reached func(view) bool
	// text says that it has; nil for a step that is not worth a line.
	text func(view) string
}

// track leads one cluster through its steps, one after the other.
type track struct {
	subject subject
	steps   []step
	last    view
}

// newClusterSteps lead from a new cluster to one that can be imported.
func newClusterSteps() []step {
	return []step{
		{"the import label", selected, func(v view) string {
			return fmt.Sprintf("label %s=true is set on its %s", archelonv1.ImportLabel, labelled(v))
		}},
		{"the control plane", controlPlaneUp, constant("CAPI: kubeconfig Secret written, control plane available")},
	}
}

// importSteps lead from there to a connected one.
func importSteps(kind string) []step {
	steps := []step{{"the Rancher cluster", hasRecord, func(v view) string { return describeRecord(kind, v) }}}
	if kind == kindV1 {
		steps = append(steps, step{"Rancher's v3 Cluster", hasManagement, func(v view) string {
			return fmt.Sprintf("Rancher made its v3 Cluster %s of it, display name %q", v.management.Name, v.management.Spec.DisplayName)
		}})
	}
	return append(steps,
		step{"the registration token", func(v view) bool { return hasManagement(v) && v.registered }, func(v view) string {
			return fmt.Sprintf("registered: Rancher issued a token in namespace %s", v.management.Name)
		}},
		step{"the agent", func(v view) bool { return v.agent }, constant(
			fmt.Sprintf("agent applied: Deployment %s/%s (workload cluster)", agentNamespace, agentName))},
		step{"the connection", isImported, constant("RancherImported=True: Rancher reports the agent as connected")},
		step{"the Event", func(v view) bool { return hasEvent(v, archelonv1.ImportedReason) }, nil},
	)
}

// unimportSteps follow the deletion of a Rancher cluster in Rancher.
func unimportSteps() []step {
	return []step{
		{"the annotation", func(v view) bool {
			return v.cluster != nil && v.cluster.Annotations[archelonv1.ImportedAnnotation] == "true"
		}, constant(fmt.Sprintf("annotation %s=true on the CAPI cluster: it is not to be imported again", archelonv1.ImportedAnnotation))},
		{"the condition", func(v view) bool {
			c := condition(v)
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason == archelonv1.RemovedInRancherReason
		}, constant("RancherImported=False (RemovedInRancher), and the CAPI cluster stays")},
		{"the end of the Rancher cluster", func(v view) bool { return v.rancherClusters == 0 }, constant("the Rancher cluster is gone")},
		{"Rancher's clean-up", func(v view) bool { return !v.agentNamespace }, constant("Rancher's clean-up has removed its agent from the workload cluster")},
	}
}

// deletionSteps follow the deletion of a CAPI cluster.
func deletionSteps() []step {
	return []step{
		{"the end of the CAPI cluster", func(v view) bool { return v.cluster == nil }, constant("the CAPI cluster is gone")},
		{"the end of the Rancher cluster", func(v view) bool { return v.rancherClusters == 0 }, constant("the Rancher cluster is gone")},
		{"Rancher's clean-up", func(v view) bool { return !v.agentNamespace }, constant("Rancher's clean-up has removed its agent from the workload cluster")},
	}
}

func describeRecord(kind string, v view) string {
	if kind == kindV1 {
		return fmt.Sprintf("provisioning.cattle.io/v1 Cluster %s/%s created", v.record.GetNamespace(), v.record.GetName())
	}
	return fmt.Sprintf("management.cattle.io/v3 Cluster %s created, display name %q", v.record.GetName(), v.management.Spec.DisplayName)
}

func constant(text string) func(view) string { return func(view) string { return text } }

// labelled says where the label stands that selects the cluster.
func labelled(v view) string {
	if _, ok := v.cluster.Labels[archelonv1.ImportLabel]; ok {
		return "Cluster"
	}
	return "Namespace"
}

func selected(v view) bool {
	if v.cluster == nil {
		return false
	}
	value, ok := v.cluster.Labels[archelonv1.ImportLabel]
	if !ok {
		value = v.namespaceLabels[archelonv1.ImportLabel]
	}
	chosen, err := strconv.ParseBool(value)
	return err == nil && chosen
}

func controlPlaneUp(v view) bool {
	return v.cluster != nil && conditions.IsTrue(v.cluster, clusterv1.ClusterControlPlaneAvailableCondition)
}

func hasRecord(v view) bool { return v.record != nil && v.record.GetDeletionTimestamp().IsZero() }

func hasManagement(v view) bool {
	return v.management != nil && v.management.DeletionTimestamp.IsZero()
}

// condition returns the condition of the import, nil if there is none.
func condition(v view) *metav1.Condition {
	if v.cluster == nil {
		return nil
	}
	return conditions.Get(v.cluster, archelonv1.RancherImportedCondition)
}

func isImported(v view) bool {
	c := condition(v)
	return c != nil && c.Status == metav1.ConditionTrue
}

func hasEvent(v view, reason string) bool {
	return slices.ContainsFunc(v.events, func(e corev1.Event) bool { return e.Reason == reason })
}

// advance prints the steps that were reached, in their order, and reports whether it was the last one.
func (t *track) advance(p *printer, began time.Time) bool {
	for len(t.steps) > 0 && t.steps[0].reached(t.last) {
		if text := t.steps[0].text; text != nil {
			p.step(time.Since(began), t.subject.name, text(t.last))
		}
		t.steps = t.steps[1:]
	}
	return len(t.steps) == 0
}

// stuck says what a track waits for.
func (t *track) stuck() error {
	text := "nothing yet"
	if c := condition(t.last); c != nil {
		text = fmt.Sprintf("RancherImported=%s (%s) %s", c.Status, c.Reason, c.Message)
	}
	return fmt.Errorf("%s/%s: waiting for %s; its condition: %s", t.subject.namespace, t.subject.name, t.steps[0].name, text)
}

// follow prints the steps of clusters as they happen, until all have taken their last one.
func (w *world) follow(ctx context.Context, p *printer, began time.Time, tracks ...*track) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errTooLong)
	defer cancel()
	for {
		change := w.observer.nextChange()
		waiting := []error{}
		for _, t := range tracks {
			var err error
			if t.last, err = w.observer.see(ctx, t.subject); err != nil {
				return fmt.Errorf("looking at %s/%s: %w", t.subject.namespace, t.subject.name, err)
			}
			if !t.advance(p, began) {
				waiting = append(waiting, t.stuck())
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-change:
			continue
		case <-ctx.Done():
		case <-w.managerDone():
		case <-w.rancherDone():
		}
		cause := context.Cause(ctx)
		switch {
		case errors.Is(cause, errTooLong):
			return fmt.Errorf("%w: %w", cause, errors.Join(waiting...))
		case cause != nil:
			return cause
		default:
			return fmt.Errorf("%w: %w", w.alive(), errors.Join(waiting...))
		}
	}
}
