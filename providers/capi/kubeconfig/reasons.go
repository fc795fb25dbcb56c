package kubeconfig

// Reasons of the Problems of kubeconfigs.
const (
	// MissingReason: the Secret with the kubeconfig of the workload cluster, or its key value,
	// does not exist. Its control plane provider makes it; look there if it does not appear. A Secret that an annotation
	// names needs label cluster.x-k8s.io/cluster-name with the name of the Cluster.
	MissingReason = "KubeconfigMissing"

	// InvalidReason: the kubeconfig cannot be parsed, or its current context does not lead to a
	// cluster and a user with a valid URL and certificates. Correct the Secret.
	InvalidReason = "KubeconfigInvalid"

	// ExecReason: the kubeconfig wants a program run to get credentials, which would run in the
	// process that reads it. Put a token or client certificate into the kubeconfig instead.
	ExecReason = "KubeconfigExecRefused"

	// AuthProviderReason: the kubeconfig names an auth-provider, which Kubernetes has removed. Put
	// a token or client certificate into the kubeconfig instead.
	AuthProviderReason = "KubeconfigAuthProviderRefused"

	// FilePathReason: the kubeconfig refers to files, which would be files of the process that reads it. Put the
	// contents in line (the fields that end in -data, and token).
	FilePathReason = "KubeconfigFilePathRefused"

	// ImpersonationReason: the kubeconfig impersonates another user. Use the credentials of that
	// user instead.
	ImpersonationReason = "KubeconfigImpersonationRefused"

	// InsecureReason: the kubeconfig leads to a server without TLS, or asks not to verify it.
	// Use an https URL and certificate-authority-data.
	InsecureReason = "KubeconfigInsecureRefused"

	// ProxyReason: the proxy-url of the kubeconfig is not an http, https or socks5 URL, or leads to a
	// loopback, link-local, unspecified or multicast address. Correct it.
	ProxyReason = "KubeconfigProxyRefused"

	// CredentialsReason: the user of the kubeconfig has no credentials. Put a token or a client
	// certificate with its key into the kubeconfig.
	CredentialsReason = "KubeconfigCredentialsMissing"

	// InvalidSettingReason: an annotation of the Cluster cannot be used. Correct the annotation.
	InvalidSettingReason = "InvalidSetting"
)
