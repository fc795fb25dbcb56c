package check

import (
	"context"
	"fmt"
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
	"github.com/archelon-io/archelon/internal/instance"
)

const (
	turtlesID = "turtles"
	// turtlesDeployment is what charts of Turtles call its manager.
	turtlesDeployment = "rancher-turtles-controller-manager"
	// turtlesFilter is the argument that parks its importer.
	turtlesFilter = "--watch-filter"

	parkRemedy = "Park its importer as docs/operations/turtles.md says, and install with turtles.parked=true."
)

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
			return []Finding{c.judgeTurtles(namespace, deployment, false)}
		}
		fits := &clusterv1.ClusterList{}
		err = c.reader.List(ctx, fits, client.MatchingLabels{clusterv1.WatchLabel: parkedBy(deployment)}, client.Limit(1))
		if client.IgnoreNotFound(err) != nil {
			return []Finding{unseen(turtlesID, "Which CAPI Clusters the watch filter of Rancher Turtles fits", err)}
		}
		return []Finding{c.judgeTurtles(namespace, deployment, len(fits.Items) > 0)}
	}
	f := Finding{ID: turtlesID, State: OK, Message: fmt.Sprintf("Rancher Turtles does not run in %s.", strings.Join(c.TurtlesNamespaces, " or "))}
	return []Finding{f}
}

// turtlesRuns reports whether Turtles runs: it holds its Lease, or it is to run. Either can be nil.
func turtlesRuns(lease *coordinationv1.Lease, deployment *appsv1.Deployment, now time.Time) bool {
	return lease != nil && instance.Held(lease, now) || deployment != nil && ptr.Deref(deployment.Spec.Replicas, 1) > 0
}

// parkedBy returns the watch filter of the importer of Turtles, empty if it has none.
func parkedBy(deployment *appsv1.Deployment) string {
	if deployment == nil {
		return ""
	}
	filter := ""
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for i, argument := range container.Args {
			switch {
			case strings.HasPrefix(argument, turtlesFilter+"="):
				filter = strings.TrimPrefix(argument, turtlesFilter+"=")
			case argument == turtlesFilter && i+1 < len(container.Args):
				filter = container.Args[i+1]
			}
		}
	}
	return filter
}

// judgeTurtles says what a Turtles that runs means. The Deployment is nil if nobody sees one.
func (c *checker) judgeTurtles(namespace string, deployment *appsv1.Deployment, fits bool) Finding {
	f := Finding{ID: turtlesID, State: Error, Remedy: parkRemedy}
	filter := parkedBy(deployment)
	switch {
	case deployment == nil:
		f.State = Warning
		f.Message = fmt.Sprintf("Rancher Turtles holds its Lease in %s, and Deployment %s is not there to say whether it is parked.", namespace, turtlesDeployment)
	case filter == "":
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s and imports clusters with the same label.", namespace)
	case fits:
		f.Message = fmt.Sprintf("Rancher Turtles runs in %s with watch filter %q, which CAPI Clusters fit.", namespace, filter)
		f.Remedy = "Give it a watch filter that no CAPI Cluster fits, as docs/operations/turtles.md says."
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
