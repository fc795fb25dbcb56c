package connection

// Reasons of the Problems of requests to workload clusters.
const (
	// UnreachableReason: no connection to the API of the workload cluster. Check that its control
	// plane runs and that the network lets the management cluster reach it.
	UnreachableReason = "WorkloadUnreachable"

	// TimeoutReason: the API of the workload cluster did not answer in time. Check its control
	// plane, and firewalls that drop packets silently.
	TimeoutReason = "WorkloadTimeout"

	// TLSReason: the certificate of the workload cluster's API is not the one that the kubeconfig
	// trusts, or it has expired. Renew it, or correct certificate-authority-data in the kubeconfig.
	TLSReason = "WorkloadTLSNotTrusted"

	// UnauthorizedReason: the workload cluster does not accept the credentials of the kubeconfig
	// (401), often because its client certificate has expired. Renew the kubeconfig.
	UnauthorizedReason = "WorkloadUnauthorized"

	// ForbiddenReason: the user of the kubeconfig lacks permissions in the workload cluster (403).
	// Use the kubeconfig of a user that has them.
	ForbiddenReason = "WorkloadForbidden"

	// ServerErrorReason: the API of the workload cluster failed to answer properly. It is tried
	// again; look at the logs of its API server if it lasts.
	ServerErrorReason = "WorkloadServerError"

	// RejectedReason: the cluster does not accept an object, or does not have its kind.
	RejectedReason = "WorkloadRejected"

	// ConflictReason: another controller owns fields of an object with other values.
	ConflictReason = "WorkloadConflict"
)
