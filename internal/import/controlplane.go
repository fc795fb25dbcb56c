package importer

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/terminal"
)

// upConditions are the conditions of a CAPI cluster that say that its control plane serves, each of them. A Cluster can
// do without one of them:
//   - Cluster API sets ControlPlaneInitialized when the provider reports it, by the v1beta1 contract or a later one, or
//     when a control plane machine without provider has a node. It never becomes False again.
//   - It copies ControlPlaneAvailable from the provider. Without a control plane object it stays Unknown.
//   - RemoteConnectionProbe is all that there is of a control plane that the infrastructure provider hosts.
func upConditions() []string {
	return []string{
		clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneAvailableCondition,
		clusterv1.ClusterRemoteConnectionProbeCondition,
	}
}

// controlPlaneUp reports whether Cluster API has seen the control plane of a cluster serve. Rancher's agent needs no
// more, so a control plane that lost a machine since, or does not answer now, counts as up: the work in the workload
// cluster says what it meets.
func controlPlaneUp(cluster *clusterv1.Cluster) bool {
	if ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return true
	}
	for _, kind := range upConditions() {
		if meta.IsStatusConditionTrue(cluster.GetConditions(), kind) {
			return true
		}
	}
	return false
}

// upSince returns when a control plane came up, zero if it is not up or if no condition says it.
func upSince(cluster *clusterv1.Cluster) time.Time {
	var since time.Time
	for _, kind := range upConditions() {
		found := meta.FindStatusCondition(cluster.GetConditions(), kind)
		if found == nil || found.Status != metav1.ConditionTrue {
			continue
		}
		if since.IsZero() || found.LastTransitionTime.Time.Before(since) {
			since = found.LastTransitionTime.Time
		}
	}
	return since
}

// What is quoted of a condition of Cluster API, in bytes. Whoever may write the status of a Cluster can write one.
const (
	longestQuote       = 256
	longestQuoteReason = 64
)

// quoted returns what Cluster API says about a control plane that is not up: the reason of its condition, and the
// message in quotation marks. It is empty if Cluster API says nothing, or if the control plane is up.
func quoted(cluster *clusterv1.Cluster) string {
	if controlPlaneUp(cluster) {
		return ""
	}
	kinds := []string{clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition}
	if !cluster.Spec.ControlPlaneRef.IsDefined() && !cluster.Spec.Topology.IsDefined() {
		kinds = kinds[1:] // The first one has no object to speak of.
	}
	for _, kind := range kinds {
		found := meta.FindStatusCondition(cluster.GetConditions(), kind)
		switch {
		case found == nil:
		case found.Message == "":
			return printable(found.Reason, longestQuoteReason)
		default:
			return fmt.Sprintf(`%s: "%s"`, printable(found.Reason, longestQuoteReason),
				strings.ReplaceAll(printable(found.Message, longestQuote), `"`, "'"))
		}
	}
	return ""
}

// printable returns the beginning of a text as one line that is safe to print.
func printable(text string, most int) string {
	const more = "..."
	line := strings.Join(strings.Fields(terminal.Printable(controller.Head(text, most))), " ")
	if len(line) > most || len(text) > most {
		line = controller.Head(line, most-len(more)) + more
	}
	return line
}

// waitingFor says that a control plane is waited for, what Cluster API says about it, and where to look.
func waitingFor(cluster *clusterv1.Cluster, quote string) string {
	says := "has not reported its state yet"
	if quote != "" {
		says = "reports " + quote
	}
	where := "condition TopologyReconciled of this Cluster"
	switch ref := cluster.Spec.ControlPlaneRef; {
	case ref.IsDefined():
		where = fmt.Sprintf("%s %s/%s", ref.Kind, cluster.Namespace, ref.Name)
	case !cluster.Spec.Topology.IsDefined():
		where = "the control plane Machines and condition RemoteConnectionProbe of this Cluster"
	}
	return fmt.Sprintf("Waiting for the control plane of this Cluster. Cluster API %s. Check %s", says, where)
}

// onlyQuoteDiffers reports whether two messages say the same thing but for what they quote. The later one quotes this.
func onlyQuoteDiffers(before, after, quote string) bool {
	head, tail, found := strings.Cut(after, quote)
	return quote != "" && found && len(before) > len(head)+len(tail) &&
		strings.HasPrefix(before, head) && strings.HasSuffix(before, tail)
}
