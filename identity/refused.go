package identity

// RefusedError says that a cluster may not use its OCI principal, or that there is no principal: this is known, and
// stays so until the identity, its Secret, the cluster or the policy changes.
type RefusedError struct {
	// Reason is one word for why not: one of the reasons in package api/v1beta2.
	Reason string
	// Message says to the owner of the cluster why not, and what to do. It has no secret, and says of identities and
	// namespaces of others no more than the cluster names itself.
	Message string
	// Detail says what is wrong with the identity itself, for people who may read the identity. It has no secret.
	Detail string
}

// Error implements error. It is for the owner of the cluster, and leaves the detail out.
func (e *RefusedError) Error() string { return e.Message }
