package v1alpha1

// Conditions of a HostClaim.
const (
	// AssociateBMHCondition is the name that the proposal has for AssociatedCondition. Both are always the same.
	AssociateBMHCondition = "AssociateBMH"
	// AssociatedCondition is True while the claim has a host.
	AssociatedCondition = "Associated"
	// SynchronizedCondition is True when the host was told all that the claim asks for.
	SynchronizedCondition = "Synchronized"
	// ProvisionedCondition is True when the host runs what it was told.
	ProvisionedCondition = "Provisioned"
	// AvailableForProvisioningCondition is True when the host has nothing to run and could be given something.
	AvailableForProvisioningCondition = "AvailableForProvisioning"
	// ReadyCondition is True when all that the claim asks for is there: the host, and if it asks for an image, the
	// image on the host.
	ReadyCondition = "Ready"
	// RemoteSyncedCondition of a claim of kind remote is True when the claim in the other cluster is as this one says, and
	// this one tells what became of that. While it is not, what the other conditions say may be old.
	RemoteSyncedCondition = "RemoteSynced"
	// ServedByArchelonCondition is there while Metal3's own controller has its finalizer on the claim. It is False if
	// the claim is left to that controller, and True if Archelon serves the claim all the same. That controller does not
	// write this condition.
	ServedByArchelonCondition = "ServedByArchelon"
)

// Reasons of ServedByArchelon.
const (
	// ServedByMetal3Reason: Metal3's own controller has taken the claim, and Archelon has not. Archelon does nothing with
	// the claim.
	ServedByMetal3Reason = "ServedByMetal3"
	// SharedWithMetal3Reason: Archelon serves the claim, and Metal3's own controller has its finalizer on it, too. That
	// controller releases the host without cleaning it when the claim is deleted.
	SharedWithMetal3Reason = "SharedWithMetal3"
)

// Reasons of Associated.
const (
	// BareMetalHostAssociatedReason: the claim has a host.
	BareMetalHostAssociatedReason = "BareMetalHostAssociated"
	// NoBareMetalHostReason: no host that fits is free.
	NoBareMetalHostReason = "NoBareMetalHost"
	// NotCleanedReason: hosts fit and are free, and all of them may have data of another namespace on their disks.
	NotCleanedReason = "NotCleaned"
	// PermissionWithdrawnReason: the claim has a host, and keeps it although its namespace may not have it any more.
	PermissionWithdrawnReason = "PermissionWithdrawn"
	// HostDeletingReason: the claim has a host, and an administrator is deleting its BareMetalHost. Ready has it, too.
	HostDeletingReason = "HostDeleting"
	// BindingReason: a host was chosen and is about to be taken.
	BindingReason = "Binding"
	// HostLostReason: the host is gone or belongs to somebody else, and the claim gets no other one because it was in
	// use.
	HostLostReason = "HostLost"
	// AdoptionRequiredReason: a host belongs to an earlier claim of this name, and an administrator has to say whether it
	// is this one's.
	AdoptionRequiredReason = "AdoptionRequired"
	// SelectorInvalidReason: the hostSelector cannot be read.
	SelectorInvalidReason = "SelectorInvalid"
	// HostClaimDeletingReason: the claim is being deleted, and its host cleaned.
	HostClaimDeletingReason = "HostClaimDeleting"
)

// Reasons of Synchronized.
const (
	// ConfigurationSyncedReason: the host has it all.
	ConfigurationSyncedReason = "ConfigurationSynced"
	// DiskNotKeptReason: the host has all that the claim asks for, but what is on its disks is not kept, because no policy
	// allows that. Synchronized is True with it.
	DiskNotKeptReason = "DiskNotKept"
	// NotAssociatedReason: there is no host.
	NotAssociatedReason = "NotAssociated"
	// BareMetalHostNotSynchronizedReason: writing to the host failed.
	BareMetalHostNotSynchronizedReason = "BareMetalHostNotSynchronized"
	// ImageInvalidReason: Metal3 does not accept the URL or the checksum of the image. The host keeps the image that it
	// has.
	ImageInvalidReason = "ImageInvalid"
	// UserDataSecretSyncFailureReason, and those of the other Secrets: the Secret is not there, or must not be used.
	UserDataSecretSyncFailureReason = "UserDataSecretSyncFailure"
	// MetaDataSecretSyncFailureReason is that of the Secret with metadata.
	MetaDataSecretSyncFailureReason = "MetaDataSecretSyncFailure"
	// NetworkDataSecretSyncFailureReason is that of the Secret with the configuration of the network.
	NetworkDataSecretSyncFailureReason = "NetworkDataSecretSyncFailure"
	// ImageSecretSyncFailureReason is that of the Secret with credentials of the registry that the image is in.
	ImageSecretSyncFailureReason = "ImageSecretSyncFailure"
)

// Reasons of Provisioned, AvailableForProvisioning and Ready.
const (
	// ReadyReason: all is as the claim asks for.
	ReadyReason = "Ready"
	// ProvisionedReason: the host runs what the claim asks for.
	ProvisionedReason = "Provisioned"
	// DataChangedReason: the host runs the image, and was provisioned with other Secrets for the first boot than the claim
	// names now. Provisioned is True with it.
	DataChangedReason = "DataChanged"
	// ImageDetailsChangedReason: the host runs the image of that URL, and its checksum or format has been changed since.
	// Metal3 does not provision again for that. Provisioned is True with it.
	ImageDetailsChangedReason = "ImageDetailsChanged"
	// ProvisioningReason: it is on its way there.
	ProvisioningReason = "Provisioning"
	// NotProvisionedReason: it is not, and not on its way.
	NotProvisionedReason = "NotProvisioned"
	// AvailableReason: the host could be given something to run.
	AvailableReason = "Available"
	// NotAvailableReason: it could not.
	NotAvailableReason = "NotAvailable"
	// HostErrorReason: the host reports an error.
	HostErrorReason = "HostError"
	// FieldsDroppedReason: the spec lacks what it had. It is not obeyed until somebody corrects it.
	FieldsDroppedReason = "FieldsDropped"
	// KindNotHandledReason: no controller has begun with a claim of this kind.
	KindNotHandledReason = "KindNotHandled"
)

// Reasons of RemoteSynced.
const (
	// RemoteSyncedReason: both claims are in step.
	RemoteSyncedReason = "RemoteSynced"
	// RemoteConnectingReason: the other cluster has yet to answer.
	RemoteConnectingReason = "RemoteConnecting"
	// ConfigurationInvalidReason: the claim does not say what kind of host it asks for, or which credentials to use.
	ConfigurationInvalidReason = "ConfigurationInvalid"
	// CredentialsMissingReason: there is no Secret of that name, or no kubeconfig in it.
	CredentialsMissingReason = "CredentialsMissing"
	// CredentialsInvalidReason: the kubeconfig cannot be used, or the other cluster refuses its user.
	CredentialsInvalidReason = "CredentialsInvalid"
	// RemoteUnreachableReason: the other cluster does not answer.
	RemoteUnreachableReason = "RemoteUnreachable"
	// RemoteRejectedReason: the other cluster does not accept the claim or a Secret.
	RemoteRejectedReason = "RemoteRejected"
	// RemoteDropsFieldsReason: the other cluster does not keep all that the claim asks for.
	RemoteDropsFieldsReason = "RemoteDropsFields"
	// RemoteIdentityChangedReason: the credentials lead to another place than before, and the claim there is not the one
	// that stands for this one.
	RemoteIdentityChangedReason = "RemoteIdentityChanged"
	// RemoteConflictReason: what has the name in the other cluster is somebody else's.
	RemoteConflictReason = "RemoteConflict"
	// RemoteDeletingReason: the claim in the other cluster is being deleted.
	RemoteDeletingReason = "RemoteDeleting"
)
