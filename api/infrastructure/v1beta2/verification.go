package v1beta2

// IdentityVerifiedCondition of an OCIClusterIdentity is True if OCI has confirmed, with the principal of the identity,
// the compartment of each cluster that uses it. It is Unknown if OCI does not say, and False if it refuses a cluster.
// It is there only if clusters are verified.
const IdentityVerifiedCondition = "IdentityVerified"

// Reasons of IdentityVerified. Those of False are also reasons why a cluster is not imported, and so are
// CredentialRejected, CredentialInvalid and SecretNotFound.
const (
	// VerifiedReason: OCI accepts the principal, which sees the compartments, and they are in its tenancy.
	VerifiedReason = "Verified"
	// NoClusterReason: no cluster uses the identity, so there is nothing to ask about.
	NoClusterReason = "NoCluster"
	// VerificationPendingReason: OCI has not been asked about a cluster.
	VerificationPendingReason = "VerificationPending"
	// OCIUnreachableReason: OCI did not answer, or not the question.
	OCIUnreachableReason = "OCIUnreachable"
	// TooManyCompartmentsReason: clusters with the same Secret name more compartments than OCI is asked about.
	TooManyCompartmentsReason = "TooManyCompartments"
	// TenancyNotVisibleReason: the principal sees the compartment, and not what that is a part of.
	TenancyNotVisibleReason = "TenancyNotVisible"
	// ClientOverrideIgnoredReason: the cluster names another address of OCI, which the administrator does not allow.
	ClientOverrideIgnoredReason = "ClientOverrideIgnored"
	// PrincipalNotCheckedReason: the principal is one of CAPOCI's process, which Archelon does not have.
	PrincipalNotCheckedReason = "PrincipalNotChecked"
	// CompartmentInvalidReason: spec.compartmentId of the cluster is not the OCID of a compartment.
	CompartmentInvalidReason = "CompartmentInvalid"
	// CompartmentNotVisibleReason: the principal does not see the compartment, or there is none.
	CompartmentNotVisibleReason = "CompartmentNotVisible"
	// CompartmentInOtherTenancyReason: the compartment is in another tenancy than the principal.
	CompartmentInOtherTenancyReason = "CompartmentInOtherTenancy"
)
