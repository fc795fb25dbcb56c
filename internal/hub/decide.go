package hub

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// Reasons of Events on the Secrets.
const (
	// EngagedReason: CAPI Clusters are imported from the management cluster.
	EngagedReason = "Engaged"
	// KubeconfigRefusedReason: the kubeconfig is not safe to use.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// UnreachableReason: the management cluster does not answer as one does.
	UnreachableReason = "Unreachable"
	// ForbiddenReason: the account of the kubeconfig lacks permissions.
	ForbiddenReason = "Forbidden"
	// OtherClusterReason: the kubeconfig leads to another management cluster than at first.
	OtherClusterReason = "OtherCluster"
	// SameClusterReason: somebody else imports from this management cluster.
	SameClusterReason = "SameCluster"
)

// errNoAnswer is of a management cluster that takes long.
var errNoAnswer = errors.New("no answer")

// LackingError is why an import does not begin: the account of the kubeconfig lacks a
// permission, such as "list secrets".
type LackingError struct{ Permission string }

// Error implements error.
func (e *LackingError) Error() string { return "the account lacks a permission: " + e.Permission }

// ServedError is why an import has ended: another Archelon imports from the management cluster.
type ServedError struct{ Why string }

// Error implements error.
func (e *ServedError) Error() string { return e.Why }

// observation is what is known of a management cluster.
type observation struct {
	registration

	// others are all registrations, this one among them.
	others []registration
	// own is the UID of the cluster that Rancher is in.
	own types.UID
	// seen is the UID of the management cluster that answered last; empty before.
	seen types.UID
	// lost is why it does not answer, nil while it does.
	lost error
	// failed is why the import ended, nil while it runs or has yet to begin.
	failed error
	// served is why the import waits for another Archelon; empty while it does not.
	served string
	// synced: the import has received what it works with.
	synced bool
}

// decision is what is done about a management cluster.
type decision struct {
	state
	// pin is the UID that the Secret is to carry from now on; empty for none.
	pin types.UID
	// run: the import runs, or is to.
	run bool
}

// state is what is said of a management cluster. Without a reason there is nothing to say yet.
type state struct{ reason, message string }

// decide says what is done about a management cluster, and what is said.
func (o observation) decide() decision {
	stop := func(reason, message string) decision { return decision{state: state{reason, message}} }
	switch older := o.older(); {
	case o.refused != "":
		return stop(KubeconfigRefusedReason, "Nothing is imported from this management cluster: "+o.refused)
	case o.seen == "" && o.lost == nil:
		return decision{}
	case o.seen == "":
		return stop(lostState(o.lost))
	case o.seen == o.own:
		return stop(SameClusterReason, "The kubeconfig leads to the cluster that Rancher runs in. Nothing is imported from it: "+
			"delete this Secret, and install Archelon there without gate management-clusters")
	case o.uid != "" && o.uid != o.seen:
		return stop(otherCluster())
	case older != "":
		return stop(SameClusterReason, fmt.Sprintf("Secret %s leads to the same management cluster, and is older. Nothing is imported by this one: delete one of them", older))
	case o.uid == "":
		return decision{pin: o.seen}
	}
	d := decision{run: true}
	switch {
	case o.lost != nil:
		d.reason, d.message = lostState(o.lost)
	case errors.Is(o.failed, errOtherCluster):
		d.reason, d.message = otherCluster()
	case o.servedElsewhere() != "":
		d.reason, d.message = SameClusterReason, "Nothing is imported from this management cluster: "+o.servedElsewhere()
	case o.failed != nil:
		d.reason, d.message = lostState(o.failed)
	case o.synced:
		d.state = state{EngagedReason, "CAPI Clusters are imported from the management cluster with UID " + string(o.uid)}
	}
	return d
}

// servedElsewhere says who else imports from the management cluster, "" if nobody is known to.
func (o observation) servedElsewhere() string {
	if taken, ok := errors.AsType[*ServedError](o.failed); ok && o.served == "" {
		return taken.Why
	}
	return o.served
}

// older returns the name of an older registration of the same management cluster, "" if there is none.
func (o observation) older() string {
	for _, other := range o.others {
		if other.name != o.name && other.uid == o.seen && other.before(o.registration) {
			return other.name
		}
	}
	return ""
}

// otherCluster says that the kubeconfig leads elsewhere than at first.
func otherCluster() (reason, message string) {
	return OtherClusterReason, fmt.Sprintf("The kubeconfig leads to another management cluster than before. Nothing is imported from it, and the "+
		"Rancher clusters stay as they are: correct the kubeconfig, or register that management cluster by a Secret of its own (annotation %s has the "+
		"UID of the first)", archelonv1.ManagementClusterUIDAnnotation)
}

// lostState says why a management cluster does not answer. The error itself may quote what a
// stranger says, so it is explained.
func lostState(err error) (reason, message string) {
	const stays = ". Its Rancher clusters stay as they are, and it is tried again"
	if lacking, ok := errors.AsType[*LackingError](err); ok {
		return ForbiddenReason, fmt.Sprintf("The account of the kubeconfig may not %s: give it the permissions of the chart with role=management-side", lacking.Permission) + stays
	}
	if apierrors.IsForbidden(err) {
		return ForbiddenReason, "The account of the kubeconfig lacks permissions: give it those of the chart with role=management-side" + stays
	}
	if errors.Is(err, errNoAnswer) {
		return UnreachableReason, "The management cluster does not answer: check its control plane and the network in between" + stays
	}
	explained := workload.Explain(err, "asking the management cluster", answerWithin, time.Time{}).Message
	return UnreachableReason, strings.ReplaceAll(explained, "workload cluster", "management cluster") + stays
}
