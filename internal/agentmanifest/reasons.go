package agentmanifest

// Reasons of condition AgentManifest that it does not have in common with RancherImported.
const (
	// ReadyReason is that of True: the Secret has the current manifest.
	ReadyReason = "ManifestReady"
	// WaitingReason: the import of the Cluster is not so far that an agent may connect.
	WaitingReason = "WaitingForImport"
	// TakenReason: there is a Secret of that name already, which was not created for the Cluster.
	TakenReason = "ManifestSecretTaken"
	// FailedReason: the manifest or the Secret could not be read or written. It is tried again.
	FailedReason = "ManifestFailed"
)
