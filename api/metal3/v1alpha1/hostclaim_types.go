package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of hosts, the values of spec.kind. The list is open: other controllers may handle further ones.
const (
	// KindBareMetal claims a BareMetalHost of this cluster.
	KindBareMetal = "baremetal"
	// KindBareMetalHost is another name of KindBareMetal.
	KindBareMetalHost = "baremetalhost"
	// KindRemote claims a host by a HostClaim in another cluster.
	KindRemote = "remote"
)

// CleaningDisabled is the value of spec.automatedCleaningMode that keeps what is on the disks.
const CleaningDisabled = "disabled"

// Args of kind remote.
const (
	// RealKindArg is the kind of the HostClaim in the other cluster.
	RealKindArg = "real-kind"
	// CredentialsArg is another way to write spec.credentials.
	CredentialsArg = "credentials"
)

// What tenants write is kept in memory by the controllers, so all of it has bounds: a spec has about 64 KiB at most.

// HostClaimSpec says what is asked for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.online) || !has(self.poweredOn) || self.online == self.poweredOn",message="online and poweredOn are two names of one thing: they must not contradict each other"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.customDeploy)",message="image and customDeploy exclude each other"
type HostClaimSpec struct {
	// online is whether the host is to be powered on. A host is provisioned only if it is.
	// +optional
	Online *bool `json:"online,omitempty"`

	// poweredOn is the name that Metal3 has for online.
	// +optional
	PoweredOn *bool `json:"poweredOn,omitempty"`

	// kind is what kind of host is asked for: baremetal, which is also called baremetalhost, remote, or another one
	// that a controller handles. It cannot be changed.
	// +kubebuilder:default=baremetal
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the kind of a host cannot be changed"
	// +optional
	Kind string `json:"kind,omitempty"`

	// args are for the controller of the kind.
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.map(key, size(key) + size(self[key])).sum() <= 16384",message="args are too long: all keys and values together may have 16384 characters"
	// +optional
	Args map[string]Argument `json:"args,omitempty"`

	// credentials is the name of a Secret in the namespace of the claim with a kubeconfig of another cluster. It is
	// read for kind remote, and means nothing for others.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Credentials string `json:"credentials,omitempty"`

	// identityRef is another way to write credentials.
	// +optional
	IdentityRef *IdentityReference `json:"identityRef,omitempty"`

	// hostSelector says which hosts will do.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitzero"`

	// image is what is written to the host. Without it, and without customDeploy, nothing is.
	// +optional
	Image *Image `json:"image,omitempty"`

	// customDeploy names a procedure that takes the place of an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// userData is a Secret in the namespace of the claim with user data for the first boot.
	// +kubebuilder:validation:XValidation:rule="(!has(self.name) || size(self.name) <= 253) && (!has(self.__namespace__) || size(self.__namespace__) <= 63)",message="it is too long: the name of a Secret has at most 253 characters, that of a namespace 63"
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// metaData is a Secret in the namespace of the claim with metadata for the first boot.
	// +kubebuilder:validation:XValidation:rule="(!has(self.name) || size(self.name) <= 253) && (!has(self.__namespace__) || size(self.__namespace__) <= 63)",message="it is too long: the name of a Secret has at most 253 characters, that of a namespace 63"
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// networkData is a Secret in the namespace of the claim with the configuration of the network.
	// +kubebuilder:validation:XValidation:rule="(!has(self.name) || size(self.name) <= 253) && (!has(self.__namespace__) || size(self.__namespace__) <= 63)",message="it is too long: the name of a Secret has at most 253 characters, that of a namespace 63"
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// consumerRef may say what uses the claim. Nothing depends on it.
	// +kubebuilder:validation:XValidation:rule="size(self.?apiVersion.orValue('')) + size(self.?fieldPath.orValue('')) + size(self.?kind.orValue('')) + size(self.?name.orValue('')) + size(self.?__namespace__.orValue('')) + size(self.?resourceVersion.orValue('')) + size(self.?uid.orValue('')) <= 1024",message="consumerRef is too long: all its fields together may have 1024 characters"
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// failureDomain prefers hosts whose label infrastructure.cluster.x-k8s.io/failure-domain has this value.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`

	// automatedCleaningMode is disabled if Metal3 is to keep what is on the disks when it deprovisions the host while
	// the claim has it. A HostDeployPolicy has to allow this by allowKeptDisks. Without the field, and with metadata,
	// the host is cleaned as its administrator has set it, and so is a host that the claim gives back.
	// +kubebuilder:validation:Enum=metadata;disabled
	// +optional
	AutomatedCleaningMode string `json:"automatedCleaningMode,omitempty"`
}

// Image says what is written to a host. It is as Metal3 has it.
type Image struct {
	// url is where the image is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	URL string `json:"url"`
	// checksum is that of the image, or the URL of a file with it. Images of format live-iso and oci:// have none.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Checksum string `json:"checksum,omitempty"`
	// checksumType is what the checksum was computed by.
	// +kubebuilder:validation:Enum=md5;sha256;sha512;auto
	// +optional
	ChecksumType string `json:"checksumType,omitempty"`
	// format is that of the image.
	// +kubebuilder:validation:Enum=raw;qcow2;vdi;vmdk;live-iso
	// +optional
	Format string `json:"format,omitempty"`
	// ociAuthSecretName is a Secret in the namespace of the claim with credentials of the registry of an oci:// image.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	OCIAuthSecretName string `json:"ociAuthSecretName,omitempty"`
}

// CustomDeploy names a procedure that takes the place of an image.
type CustomDeploy struct {
	// method is its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Method string `json:"method"`
}

// Argument is the value of one of the args.
//
// +kubebuilder:validation:MaxLength=4096
type Argument string

// IdentityReference names a Secret with a kubeconfig.
type IdentityReference struct {
	// name is that of the Secret.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// context is that of the kubeconfig; empty for its current one.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Context string `json:"context,omitempty"`
}

// HostSelector selects hosts by their labels.
//
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__)",message="the field is called inNamespace"
type HostSelector struct {
	// matchLabels are labels that a host must have.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 317 && size(self[key]) <= 63)",message="it is too long: the key of a label has at most 317 characters, its value 63"
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions must all hold for the labels of a host.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.map(each, has(each.values) ? size(each.values) : 0).sum() <= 256",message="there are too many values: all expressions together may have 256"
	// +optional
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`

	// inNamespace limits the hosts to those of one namespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	InNamespace string `json:"inNamespace,omitempty"`

	// namespace is refused, so that nobody takes it for inNamespace.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// HostSelectorRequirement is one of the matchExpressions.
type HostSelectorRequirement struct {
	// key is that of the label.
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// operator is In, NotIn, Exists or DoesNotExist, in upper or lower case, or one of the signs that Metal3's type has:
	// !, =, == and !=.
	// +kubebuilder:validation:MaxLength=16
	Operator string `json:"operator"`
	// values are for In and NotIn, and one for =, == and !=.
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Values []string `json:"values,omitempty"`
}

// HostClaimStatus says what was found. It is written by the controller of the kind, and read from it never without
// looking at the host.
type HostClaimStatus struct {
	// conditions are AssociateBMH and Associated, which say the same, Synchronized, Provisioned,
	// AvailableForProvisioning and Ready; RemoteSynced, if the kind is remote; and ServedByArchelon, while Metal3's own
	// controller has a finalizer on the claim.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:XValidation:rule="size(self.message) <= 2048",message="a message is too long: it may have 2048 characters"
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ready is whether the host runs what the claim asks for.
	// +optional
	Ready bool `json:"ready"`

	// addresses are those of the host.
	// +kubebuilder:validation:MaxItems=128
	// +optional
	Addresses []HostAddress `json:"addresses,omitempty"`

	// bootMACAddress is that of the network card which the host boots from.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// nics are the network cards of the host.
	// +kubebuilder:validation:MaxItems=128
	// +optional
	NICs []NIC `json:"nics,omitempty"`

	// poweredOn is whether the host was last seen powered on.
	// +optional
	PoweredOn *bool `json:"poweredOn,omitempty"`

	// bareMetalHost is the host. It follows the consumerRef of the host, and counts for nothing without that.
	// +optional
	BareMetalHost *ObjectReference `json:"bareMetalHost,omitempty"`

	// hardwareData has what was found out about the hardware of the host.
	// +optional
	HardwareData *ObjectReference `json:"hardwareData,omitempty"`

	// pendingHost is a host that is about to be taken.
	// +optional
	PendingHost *ObjectReference `json:"pendingHost,omitempty"`

	// remote is the HostClaim in another cluster that stands for one of kind remote.
	// +optional
	Remote *RemoteReference `json:"remote,omitempty"`

	// lastUpdated is when something in the status changed.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// observedGeneration is the generation of the claim that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// HostAddress is an address of a host.
type HostAddress struct {
	// type is InternalIP, Hostname or InternalDNS.
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type"`
	// address is the address.
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address"`
}

// NIC is a network card.
type NIC struct {
	// MAC is its hardware address.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	MAC string `json:"MAC,omitempty"`
	// ip is its address.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	IP string `json:"ip,omitempty"`
	// name is what the operating system calls it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Name string `json:"name,omitempty"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// namespace is that of the object.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is that of the object.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RemoteReference names a HostClaim in another cluster.
type RemoteReference struct {
	// server is the URL of the API server of that cluster.
	// +kubebuilder:validation:MaxLength=4096
	Server string `json:"server"`
	// authority is a hash of the certificates that vouch for the server.
	// +kubebuilder:validation:MaxLength=256
	Authority string `json:"authority"`
	// namespace is that of the HostClaim there.
	// +kubebuilder:validation:MaxLength=256
	Namespace string `json:"namespace"`
	// name is that of the HostClaim there.
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// uid is that of the HostClaim there, once it was seen.
	// +kubebuilder:validation:XValidation:rule="size(self) <= 256",message="a UID is too long: it may have 256 characters"
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// HostClaim asks for a host, and for what is to run on it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostclaims,shortName=hc
// +kubebuilder:selectablefield:JSONPath=`.spec.kind`
// +kubebuilder:metadata:labels={"clusterctl.cluster.x-k8s.io=","clusterctl.cluster.x-k8s.io/move-hierarchy="}
// +kubebuilder:metadata:annotations="archelon.io/feature=host-claim"
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Associated",type=string,JSONPath=`.status.conditions[?(@.type=="Associated")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Associated")].reason`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is asked for.
	// +kubebuilder:default={}
	// +optional
	Spec HostClaimSpec `json:"spec,omitzero"`
	// status says what was found.
	// +optional
	Status HostClaimStatus `json:"status,omitzero"`
}

// HostClaimList is a list of HostClaims.
//
// +kubebuilder:object:root=true
type HostClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []HostClaim `json:"items"`
}
