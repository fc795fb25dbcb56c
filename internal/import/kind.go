package importer

import (
	"fmt"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// kind returns the strategy that the cluster is imported by. It is sticky: that of the Rancher cluster that exists, and
// the one for new imports as long as there is none.
func (d *deciding) kind() Strategy {
	if own := d.standing(); own != nil {
		return own.strategy
	}
	return d.Active
}

// findKind looks for a Rancher cluster that the cache does not show and that is not of the kind of new imports, if
// the cluster names one. The cache does not show it if it was created a moment ago or lost its labels. The name alone
// does not tell: a process may have ended before it created the Rancher cluster, and tenants can write the annotation.
// If the API server has no such Rancher cluster of this cluster, the import begins anew with another name. A cluster
// that names one of the kind of new imports costs no request here.
func (d *deciding) findKind() Decision {
	if named, look := d.named(); look && named.strategy != d.Active {
		return ask(named)
	}
	return pass()
}

// waitForDerived waits for what Rancher derived from earlier Rancher clusters of this cluster: Rancher cleans the
// workload cluster up before such an object is gone, and the clean-up would remove the next agent. If the cache does
// not show the Rancher cluster, no watch tells when the object is gone.
func (d *deciding) waitForDerived() Decision {
	for _, old := range d.derived {
		if !old.madeFor(d.cluster) || !old.deleting() {
			continue
		}
		out := outcome.Wait(archelonv1.RancherClusterTerminatingReason, fmt.Sprintf("Waiting until Rancher has deleted the earlier %s, usually less than a minute. After 5 minutes, check the log of Rancher", old))
		if own := d.standing(); own != nil && own.unseen {
			out.Kind, out.After = outcome.KindPoll, unseenRecheck
		}
		return stop(out)
	}
	return pass()
}
