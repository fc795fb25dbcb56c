package remote

import (
	"errors"
	"strings"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// problemOf returns the Problem that an error is, nil if it is none.
func problemOf(err error) *Problem {
	if is, ok := errors.AsType[*problemError](err); ok {
		return &is.problem
	}
	found, ok := errors.AsType[*outcome.Problem](err)
	if !ok {
		return nil
	}
	message := strings.ReplaceAll(found.Message, "workload cluster", "remote cluster")
	message = strings.ReplaceAll(message, "Use the kubeconfig of a cluster-admin", "Give that user the Role for HostClaims and Secrets")
	return &Problem{reasonFor(found.Reason), message}
}

// reasonFor returns the reason of RemoteSynced for one of access to a cluster.
func reasonFor(reason string) string {
	switch {
	case reason == archelonv1.KubeconfigMissingReason:
		return metal3v1.CredentialsMissingReason
	case strings.HasPrefix(reason, "Kubeconfig"), reason == archelonv1.WorkloadUnauthorizedReason,
		reason == archelonv1.WorkloadForbiddenReason:
		return metal3v1.CredentialsInvalidReason
	case reason == archelonv1.WorkloadUnreachableReason, reason == archelonv1.WorkloadTimeoutReason,
		reason == archelonv1.WorkloadTLSReason, reason == archelonv1.WorkloadServerErrorReason:
		return metal3v1.RemoteUnreachableReason
	default:
		return metal3v1.RemoteRejectedReason
	}
}

// ofConnection reports whether an error is one of the connection to another cluster, and not of what it was asked.
func ofConnection(err error) bool {
	found, ok := errors.AsType[*outcome.Problem](err)
	if !ok {
		return false
	}
	switch found.Reason {
	case archelonv1.WorkloadUnreachableReason, archelonv1.WorkloadTimeoutReason, archelonv1.WorkloadTLSReason,
		archelonv1.WorkloadUnauthorizedReason, archelonv1.KubeconfigProxyReason:
		return true
	default:
		return false
	}
}
