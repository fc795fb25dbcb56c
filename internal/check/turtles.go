package check

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/docs"
	"github.com/archelon-io/archelon/internal/instance"
)

const (
	turtlesID      = "turtles"
	turtlesFleetID = "turtles-fleet"
	// turtlesDeployment is what charts of Turtles call its manager.
	turtlesDeployment = "rancher-turtles-controller-manager"
	// turtlesFilter is the argument that parks its importer.
	turtlesFilter = "--watch-filter"
	// turtlesGates is the argument that switches its features on and off. Turtles lets a later one override.
	turtlesGates = "--feature-gates"
	// turtlesFleetGate is the gate of Turtles 0.28 whose controller works whatever the watch filter is.
	turtlesFleetGate = "fleet-integration"
)

// parkRemedy is for a Turtles whose importer runs.
func parkRemedy() string {
	return "Park its importer, and install with turtles.parked=true: " + docs.Page(docs.Turtles) + "#park-turtles"
}

// turtles looks whether Rancher Turtles runs, and whether its importer is parked.
func (c *checker) turtles(ctx context.Context) []Finding {
	for _, namespace := range c.TurtlesNamespaces {
		lease, err := c.clients.CoordinationV1().Leases(namespace).Get(ctx, archelonv1.TurtlesLease, metav1.GetOptions{})
		if client.IgnoreNotFound(err) != nil {
			return []Finding{unseen(turtlesID, "The Lease of Rancher Turtles in "+namespace, err)}
		}
		if apierrors.IsNotFound(err) {
			lease = nil
		}
		deployment, err := c.clients.AppsV1().Deployments(namespace).Get(ctx, turtlesDeployment, metav1.GetOptions{})
		if client.IgnoreNotFound(err) != nil {
			return []Finding{unseen(turtlesID, "The Deployment of Rancher Turtles in "+namespace, err)}
		}
		if apierrors.IsNotFound(err) {
			deployment = nil
		}
		if !turtlesRuns(lease, deployment, c.now()) {
			continue
		}
		if parkedBy(deployment) == "" {
			return withFleet(c.judgeTurtles(namespace, deployment, false), namespace, deployment)
		}
		fits := &clusterv1.ClusterList{}
		err = c.reader.List(ctx, fits, client.MatchingLabels{clusterv1.WatchLabel: parkedBy(deployment)}, client.Limit(1))
		if client.IgnoreNotFound(err) != nil {
			return []Finding{unseen(turtlesID, "Which CAPI Clusters the watch filter of Rancher Turtles fits", err)}
		}
		return withFleet(c.judgeTurtles(namespace, deployment, len(fits.Items) > 0), namespace, deployment)
	}
	f := Finding{ID: turtlesID, State: OK, Message: fmt.Sprintf("Rancher Turtles does not run in %s.", strings.Join(c.TurtlesNamespaces, " or "))}
	return []Finding{f}
}

// turtlesRuns reports whether Turtles runs: it holds its Lease, or it is to run. Either can be nil.
func turtlesRuns(lease *coordinationv1.Lease, deployment *appsv1.Deployment, now time.Time) bool {
	return lease != nil && instance.Held(lease, now) || deployment != nil && ptr.Deref(deployment.Spec.Replicas, 1) > 0
}

// withFleet adds what Turtles does with Fleet Clusters to the finding about its importer. The Deployment can be nil.
func withFleet(importer Finding, namespace string, deployment *appsv1.Deployment) []Finding {
	if deployment == nil {
		return []Finding{importer}
	}
	return []Finding{importer, judgeTurtlesFleet(namespace, deployment)}
}

// judgeTurtlesFleet says what a Turtles that runs does with Fleet Clusters.
func judgeTurtlesFleet(namespace string, deployment *appsv1.Deployment) Finding {
	on := false
	for _, gates := range argumentsOf(deployment, turtlesGates) {
		for gate := range strings.SplitSeq(gates, ",") {
			name, value, _ := strings.Cut(gate, "=")
			if strings.TrimSpace(name) == turtlesFleetGate {
				on, _ = strconv.ParseBool(strings.TrimSpace(value)) // Turtles does not start with another value.
			}
		}
	}
	if !on {
		message := fmt.Sprintf("Rancher Turtles in %s leaves Fleet Clusters alone: its gate %s is off.", namespace, turtlesFleetGate)
		return Finding{ID: turtlesFleetID, State: OK, Message: message}
	}
	return Finding{
		ID: turtlesFleetID, State: Warning,
		Message: fmt.Sprintf("Rancher Turtles runs in %s with gate %s: it puts finalizer fleetcluster.turtles.cattle.io on "+
			"the Fleet Clusters of all Rancher clusters, also with a watch filter.", namespace, turtlesFleetGate),
		Remedy: "Unless you use it, switch the gate off and remove the finalizer: nothing removes it while the gate is off or " +
			"Turtles does not run. See " + docs.Page(docs.Turtles),
	}
}

// parkedBy returns the watch filter of the importer of Turtles, empty if it has none.
func parkedBy(deployment *appsv1.Deployment) string {
	filters := argumentsOf(deployment, turtlesFilter)
	if len(filters) == 0 {
		return ""
	}
	return filters[len(filters)-1]
}

// argumentsOf returns the values of an argument of Turtles in their order. The Deployment can be nil.
func argumentsOf(deployment *appsv1.Deployment, name string) []string {
	if deployment == nil {
		return nil
	}
	var values []string
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for i, argument := range container.Args {
			if value, found := strings.CutPrefix(argument, name+"="); found {
				values = append(values, value)
			} else if argument == name && i+1 < len(container.Args) {
				values = append(values, container.Args[i+1])
			}
		}
	}
	return values
}

// judgeTurtles says what a Turtles that runs means. The Deployment is nil if nobody sees one.
func (c *checker) judgeTurtles(namespace string, deployment *appsv1.Deployment, fits bool) Finding {
	f := Finding{ID: turtlesID, State: Error, Remedy: parkRemedy()}
	filter := parkedBy(deployment)
	switch {
	case deployment == nil:
		f.State = Warning
		f.Message = fmt.Sprintf("Rancher Turtles holds its Lease in %s, and Deployment %s is not there to say whether it is parked.", namespace, turtlesDeployment)
	case filter == "":
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s and imports clusters with the same label.", namespace)
	case fits:
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s with watch filter %q, which CAPI Clusters fit.", namespace, filter)
		f.Remedy = "Give it a watch filter that no CAPI Cluster fits: " + docs.Page(docs.Turtles) + "#park-turtles"
	case deployment.Status.ObservedGeneration < deployment.Generation ||
		deployment.Status.UpdatedReplicas < deployment.Status.Replicas:
		f.State, f.Remedy = Warning, "Wait until its Deployment is rolled out, and check again."
		f.Message = fmt.Sprintf("Rancher Turtles in %s is being parked: a Pod without the watch filter may still run.", namespace)
	case !c.TurtlesParked:
		f.State, f.Remedy = Warning, "Install with turtles.parked=true, or nothing new is imported. Check again with --turtles-parked."
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s and its importer is parked, which Archelon has to be told.", namespace)
	default:
		f.State, f.Remedy = OK, ""
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s and its importer is parked.", namespace)
	}
	return f
}
