package v1beta2

// Keys of what is created for Rancher's cloud credentials.
const (
	// CredentialUIDLabel of an OCIClusterIdentity or a principal Secret has the UID of the cloud credential that it was
	// created for. What does not have it is never changed.
	CredentialUIDLabel = "archelon.io/credential-uid"
	// CredentialIdentityAnnotation of a cloud credential has namespace and name of its OCIClusterIdentity.
	CredentialIdentityAnnotation = "archelon.io/oci-cluster-identity"
	// TranslationAnnotation of a cloud credential says what became of it: a reason, and a message behind a colon.
	TranslationAnnotation = "archelon.io/oci-translation"
	// RegionAnnotation of a cloud credential is the region of its principal: Rancher's credentials have none.
	RegionAnnotation = "archelon.io/oci-region"
)

// TranslatedCondition of an OCIClusterIdentity is True if it is what its cloud credential says.
const TranslatedCondition = "Translated"

// Reasons of Translated, besides CredentialInvalidReason.
const (
	// TranslatedReason: the identity and its Secret are what the cloud credential says.
	TranslatedReason = "Translated"
	// RegionMissingReason: they are, and neither the cloud credential nor the installation names a region.
	RegionMissingReason = "RegionMissing"
	// CollisionReason: the identity or the Secret has the name of one that was not created for the cloud credential.
	CollisionReason = "Collision"
	// CredentialWithdrawnReason: the cloud credential has no working key any more, and clusters still use the identity
	// with the former one, or may use it. Ready has it, too, also if the cloud credential is gone.
	CredentialWithdrawnReason = "CredentialWithdrawn"
	// CredentialGoneReason: the cloud credential is gone, and clusters still use the identity, or may use it.
	CredentialGoneReason = "CredentialGone"
)
