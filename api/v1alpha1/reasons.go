package v1alpha1

// Reasons that concern Rancher: its settings, its registration tokens and the download of the
// manifest of its agent.
const (
	// SettingsUnavailableReason: a setting of Rancher does not exist or cannot be read, most likely
	// because Rancher is not installed or still starting. Check that Rancher runs in this cluster.
	SettingsUnavailableReason = "RancherSettingsUnavailable"

	// ServerURLMissingReason: Rancher's setting server-url is empty, so agents have nothing to connect
	// to. Set it in Rancher's global settings.
	ServerURLMissingReason = "ServerURLMissing"

	// ServerURLInvalidReason: Rancher's setting server-url is not an https URL of a host. Correct it in
	// Rancher's global settings.
	ServerURLInvalidReason = "ServerURLInvalid"

	// AgentTLSModeInvalidReason: Rancher's setting agent-tls-mode is neither strict nor system-store.
	// Correct it in Rancher's global settings.
	AgentTLSModeInvalidReason = "AgentTLSModeInvalid"

	// CACertsInvalidReason: Rancher's setting cacerts holds no PEM certificate although agents must trust
	// nothing else. Correct the CA of Rancher's installation, or set agent-tls-mode to system-store.
	CACertsInvalidReason = "CACertsInvalid"

	// RegistrationTokenMissingReason: Rancher has not made the registration token of its cluster yet. It
	// appears within seconds of the Rancher cluster; if not, look at the logs of Rancher.
	RegistrationTokenMissingReason = "RegistrationTokenMissing"

	// RegistrationURLMissingReason: the registration token has no manifest URL yet, which is so while
	// Rancher's server-url is empty. Set server-url; if it is set, look at the logs of Rancher.
	RegistrationURLMissingReason = "RegistrationURLMissing"

	// RegistrationURLInvalidReason: the manifest URL of the registration token is not an https URL.
	// Correct server-url in Rancher and delete the token, which Rancher then makes anew.
	RegistrationURLInvalidReason = "RegistrationURLInvalid"

	// TokenSecretMissingReason: the Secret that the registration token refers to does not exist. Rancher
	// makes it; if it does not appear, delete the registration token, which Rancher then makes anew.
	TokenSecretMissingReason = "TokenSecretMissing"

	// TokenSecretEmptyReason: the Secret of the registration token has no key token. Delete the
	// registration token, which Rancher then makes anew together with its Secret.
	TokenSecretEmptyReason = "TokenSecretEmpty"

	// RancherUnreachableReason: no connection to the host of Rancher's server-url. Check DNS, network
	// policies, the proxy settings of Archelon, and that Rancher is up.
	RancherUnreachableReason = "RancherUnreachable"

	// RancherTimeoutReason: Rancher did not deliver the manifest in time. Check its load and the network,
	// or raise the time limit.
	RancherTimeoutReason = "RancherTimeout"

	// RancherTLSNotTrustedReason: the certificate of Rancher's server-url is not trusted. In mode strict
	// the setting cacerts must hold its CA; in mode system-store the CA must be in the trust store of
	// the image.
	RancherTLSNotTrustedReason = "RancherTLSNotTrusted"

	// RancherProxyFailedReason: the proxy between Archelon and Rancher refused the connection. Check
	// HTTPS_PROXY and NO_PROXY of Archelon, and the proxy.
	RancherProxyFailedReason = "RancherProxyFailed"

	// RegistrationRefusedReason: Rancher answered that it does not know the cluster or the token (400). The
	// token may just have been rotated, which passes; if it lasts, delete the registration token.
	RegistrationRefusedReason = "RegistrationRefused"

	// ManifestNotFoundReason: the manifest URL leads nowhere (404). Check that server-url is that of
	// Rancher and that an ingress in between passes /v3/import on.
	ManifestNotFoundReason = "ManifestNotFound"

	// RancherServerErrorReason: Rancher, or an ingress before it, failed to answer (5xx or 429). It is
	// tried again; if it lasts, look at the logs of Rancher.
	RancherServerErrorReason = "RancherServerError"

	// ManifestStatusReason: the manifest URL was answered with a status that Rancher does not use. Check
	// what stands between Archelon and Rancher.
	ManifestStatusReason = "ManifestUnexpectedStatus"

	// ManifestRedirectedReason: the manifest URL was redirected to another host, which is not followed
	// because the URL holds a token. Set server-url to the address that Rancher answers at.
	ManifestRedirectedReason = "ManifestRedirected"

	// ManifestTooLargeReason: the manifest, or one object in it, exceeds the size limit. Check that
	// server-url is that of Rancher, or raise the limit.
	ManifestTooLargeReason = "ManifestTooLarge"

	// ManifestEmptyReason: the manifest holds no object. Check that server-url is that of Rancher, and
	// the logs of Rancher.
	ManifestEmptyReason = "ManifestEmpty"

	// ManifestTruncatedReason: the connection ended before the manifest did. It is tried again; check
	// what stands between Archelon and Rancher if it lasts.
	ManifestTruncatedReason = "ManifestTruncated"

	// ManifestHTMLReason: a web page came instead of the manifest, from a login page or a captive proxy for
	// example. Check that server-url is that of Rancher and reachable without a login.
	ManifestHTMLReason = "ManifestIsHTML"

	// ManifestNotYAMLReason: what came instead of the manifest is not a series of YAML objects. Check that
	// server-url is that of Rancher, and the logs of Rancher.
	ManifestNotYAMLReason = "ManifestNotYAML"

	// ManifestForeignObjectReason: the manifest holds an object outside of the agent's namespace, or of a kind
	// that reaches further than the agent. Nothing of it is applied. Check that server-url is that of Rancher.
	ManifestForeignObjectReason = "ManifestForeignObject"

	// ManifestIncompleteReason: the manifest lacks the Deployment of Rancher's agent or the Secret with the
	// credentials that it names. It is tried again; look at the logs of Rancher if it lasts.
	ManifestIncompleteReason = "ManifestIncomplete"
)

// Reasons that concern a workload cluster: its kubeconfig, its API and the agent in it.
const (
	// KubeconfigMissingReason: the Secret with the kubeconfig of the workload cluster, or its key value,
	// does not exist. Its control plane provider makes it; look there if it does not appear. A Secret that an annotation
	// names needs label cluster.x-k8s.io/cluster-name with the name of the Cluster.
	KubeconfigMissingReason = "KubeconfigMissing"

	// KubeconfigInvalidReason: the kubeconfig cannot be parsed, or its current context does not lead to a
	// cluster and a user with a valid URL and certificates. Correct the Secret.
	KubeconfigInvalidReason = "KubeconfigInvalid"

	// KubeconfigExecReason: the kubeconfig wants a program run to get credentials, which would run inside
	// Archelon. Put a token or client certificate into the kubeconfig instead.
	KubeconfigExecReason = "KubeconfigExecRefused"

	// KubeconfigAuthProviderReason: the kubeconfig names an auth-provider, which Kubernetes has removed. Put
	// a token or client certificate into the kubeconfig instead.
	KubeconfigAuthProviderReason = "KubeconfigAuthProviderRefused"

	// KubeconfigFilePathReason: the kubeconfig refers to files, which would be Archelon's own. Put the
	// contents in line (the fields that end in -data, and token).
	KubeconfigFilePathReason = "KubeconfigFilePathRefused"

	// KubeconfigImpersonationReason: the kubeconfig impersonates another user. Use the credentials of that
	// user instead.
	KubeconfigImpersonationReason = "KubeconfigImpersonationRefused"

	// KubeconfigInsecureReason: the kubeconfig leads to a server without TLS, or asks not to verify it.
	// Use an https URL and certificate-authority-data.
	KubeconfigInsecureReason = "KubeconfigInsecureRefused"

	// KubeconfigProxyReason: the proxy-url of the kubeconfig is not an http, https or socks5 URL, or leads to a
	// loopback, link-local, unspecified or multicast address. Correct it.
	KubeconfigProxyReason = "KubeconfigProxyRefused"

	// KubeconfigCredentialsReason: the user of the kubeconfig has no credentials. Put a token or a client
	// certificate with its key into the kubeconfig.
	KubeconfigCredentialsReason = "KubeconfigCredentialsMissing"

	// WorkloadUnreachableReason: no connection to the API of the workload cluster. Check that its control
	// plane runs and that the network lets Archelon reach it.
	WorkloadUnreachableReason = "WorkloadUnreachable"

	// WorkloadTimeoutReason: the API of the workload cluster did not answer in time. Check its control
	// plane, and firewalls that drop packets silently.
	WorkloadTimeoutReason = "WorkloadTimeout"

	// WorkloadTLSReason: the certificate of the workload cluster's API is not the one that the kubeconfig
	// trusts, or it has expired. Renew it, or correct certificate-authority-data in the kubeconfig.
	WorkloadTLSReason = "WorkloadTLSNotTrusted"

	// WorkloadUnauthorizedReason: the workload cluster does not accept the credentials of the kubeconfig
	// (401), often because its client certificate has expired. Renew the kubeconfig.
	WorkloadUnauthorizedReason = "WorkloadUnauthorized"

	// WorkloadForbiddenReason: the user of the kubeconfig lacks permissions in the workload cluster (403).
	// Rancher's agent needs a cluster-admin to be installed; use such a kubeconfig.
	WorkloadForbiddenReason = "WorkloadForbidden"

	// WorkloadServerErrorReason: the API of the workload cluster failed to answer properly. It is tried
	// again; look at the logs of its API server if it lasts.
	WorkloadServerErrorReason = "WorkloadServerError"

	// AgentConflictReason: another field manager owns fields of the agent's objects with other values. See
	// who it is in the message; remove its objects, or let them be if they are those of Rancher itself.
	AgentConflictReason = "AgentConflict"

	// AgentRejectedReason: the workload cluster does not accept an object of the agent: a policy or an
	// admission webhook refuses it, or its Kubernetes version does not know it. See the message.
	AgentRejectedReason = "AgentRejected"

	// AgentOfAnotherClusterReason: the agent in the workload cluster is that of another Rancher cluster, which lives.
	// Delete that one in Rancher, or ask for the take-over by the annotation that the message names.
	AgentOfAnotherClusterReason = "AgentOfAnotherCluster"

	// AgentOfAnotherRancherReason: the agent in the workload cluster connects to another Rancher. Nothing was changed
	// there. Delete the cluster in the other Rancher, or ask for the take-over by the annotation that the message names.
	AgentOfAnotherRancherReason = "AgentOfAnotherRancher"

	// AgentContestedReason: the agent was replaced several times in a short time, because somebody else installs another
	// one. Find out who, and end it. It is tried again every few minutes.
	AgentContestedReason = "AgentContested"

	// ManagementClusterReason: the kubeconfig leads to the cluster that Rancher itself runs in. Un-import it, or allow it
	// by the annotation that the message names.
	ManagementClusterReason = "ManagementCluster"

	// WaitingForCleanupReason: Rancher's clean-up of an earlier registration is still under way in the
	// workload cluster. The import continues when it is over.
	WaitingForCleanupReason = "WaitingForCleanup"
)
