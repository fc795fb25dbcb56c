package v1alpha1

// Labels, annotations and finalizers of claims.
const (
	// BareMetalFinalizer holds claims of kind baremetal that may have a host.
	BareMetalFinalizer = "hostclaims.metal3.io/baremetal"
	// Metal3Finalizer holds claims that Metal3's own controller of HostClaims has taken. That controller is part of the
	// baremetal-operator, which runs it with --hostclaims.
	Metal3Finalizer = "metal3.io/hostclaim"
	// KindLabel of a claim is its kind, for those who list by label. "baremetal" and
	// "baremetalhost" are two names of one kind.
	KindLabel = "hostclaims.metal3.io/kind"
	// HostLabel of a claim names its host: "NAMESPACE.NAME", or a hash of that if it is too long for a label. A host that
	// does not name the claim is not the one of the claim, whatever the label says.
	HostLabel = "hostclaims.metal3.io/host"
	// HostAnnotation of a Metal3Machine names its host: "NAMESPACE/NAME". The Metal3 provider of Cluster API sets it.
	HostAnnotation = "metal3.io/BareMetalHost"
	// ParkedAnnotation of a claim names the host of its namespace that it had when it was paused: "NAMESPACE/NAME". Where
	// both are moved to, the claim waits for that host, and takes no other one. It goes when the claim has the host.
	ParkedAnnotation = "hostclaims.metal3.io/parked"
	// LostHostAnnotation of a claim names the host that it had in use, and has lost. As long as it is there the claim gets
	// no other host, because what ran there may still run. Who knows better removes it.
	LostHostAnnotation = "hostclaims.metal3.io/lost-host"
	// PoweredOnAnnotation of a claim is "true" if it said last that its host is to be powered on. Another CRD of
	// HostClaims drops spec.online, and cannot drop this. It switches nothing on: without it, a spec that says nothing
	// means off.
	PoweredOnAnnotation = "hostclaims.metal3.io/powered-on"
)

// Labels and annotations of hosts.
const (
	// NamespacesKey is the key of a label and of an annotation of a BareMetalHost. They say which namespaces' claims may
	// have it. The annotation is "*", or names separated by commas. The label cannot have these signs: there it is "ALL",
	// or names separated by "_" or ".".
	NamespacesKey = "hostclaims.metal3.io/namespaces"
	// SavedAnnotation of a BareMetalHost has what its administrator had set when it was claimed, as JSON. It is set while
	// the host is claimed, and proves that it was claimed by this controller.
	SavedAnnotation = "hostclaims.metal3.io/saved"
	// ProvisionedWithAnnotation of a BareMetalHost says with which versions of its claim's Secrets it was provisioned, as
	// JSON. It is set together with the image.
	ProvisionedWithAnnotation = "hostclaims.metal3.io/provisioned-with"
	// AdoptAnnotation of a BareMetalHost gives it to the claim that took the place of the one that had it, for example
	// after a restore. Its value is the UID of the earlier claim, as the consumerRef has it. Administrators set it.
	AdoptAnnotation = "hostclaims.metal3.io/adopt"
	// ReleaseAnnotation of a BareMetalHost has it cleaned and released if its claim is gone. Its value is the UID of that
	// claim. The controller sets it when it begins to clean a host, and administrators set it where a claim is gone
	// without that.
	ReleaseAnnotation = "hostclaims.metal3.io/release"
	// ProblemAnnotation of a BareMetalHost says why it is left as it is although its claim is gone, and what to do.
	ProblemAnnotation = "hostclaims.metal3.io/problem"
	// LastUseAnnotation of a BareMetalHost says whose claim had it last, as JSON with "namespace", "provisioned", and
	// whether it was "uncleaned" then.
	LastUseAnnotation = "hostclaims.metal3.io/last-use"
	// FailureDomainLabel of a BareMetalHost is its failure domain.
	FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"
	// NodeReuseLabel of a BareMetalHost keeps it for the next machine of the same owner. The Metal3 provider of Cluster
	// API sets it.
	NodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"
	// UnhealthyAnnotation of a BareMetalHost keeps it from being chosen. The Metal3 provider of Cluster API (CAPM3) sets
	// it since 1.13, also on the host that stands for one. From there it is passed on to the claim, to the claim in
	// another cluster, and to the real host, and stays there. On a claim, it marks the host that the claim has.
	UnhealthyAnnotation = "capm3.metal3.io/unhealthy"
	// FormerUnhealthyAnnotation is the one that CAPM3 set before 1.13, and still reads.
	FormerUnhealthyAnnotation = "capi.metal3.io/unhealthy"
)

// Reboots, as annotations of a claim.
const (
	// RebootAnnotation reboots the host once, and goes. RebootAnnotation + "/KEY" keeps it off as long as it is there.
	RebootAnnotation = "reboot.metal3.io"
	// HostRebootAnnotation is the name that the proposal has for RebootAnnotation.
	HostRebootAnnotation = "host.metal3.io/reboot"
	// RebootingAnnotation of a BareMetalHost says that it was told to reboot, and that its claim still says so.
	RebootingAnnotation = "hostclaims.metal3.io/rebooting"
	// HoldsAnnotation of a BareMetalHost has the keys of reboot annotations that are its claim's.
	HoldsAnnotation = "hostclaims.metal3.io/holds"
)

// InfoPrefix is that of labels and annotations of a BareMetalHost that its claim gets. A claim has none that its host
// has not.
const InfoPrefix = "info.hostclaims.metal3.io/"

// CopiedAnnotation of a claim has the labels and annotations that were copied from its host, as JSON, because a
// HostDeployPolicy says so. By it, they go again, and what others write under these keys is not overwritten each time.
const CopiedAnnotation = "hostclaims.metal3.io/copied"

// Metal3Machines that get their hosts through claims.
const (
	// MachineKindAnnotation, MachineArgsAnnotation and MachineCredentialsAnnotation of a Metal3Machine are the kind, the
	// args, as a JSON object, and the credentials of its claim. Released types of it have no fields for them.
	MachineKindAnnotation        = "hostclaims.metal3.io/kind"
	MachineArgsAnnotation        = "hostclaims.metal3.io/args"
	MachineCredentialsAnnotation = "hostclaims.metal3.io/credentials"
	// MachineLabel is on the claim of a Metal3Machine, and on the BareMetalHost that stands for the host of that claim.
	// Its value is always the same. Both have one name: that of the Metal3Machine which they were created for.
	MachineLabel      = "hostclaims.metal3.io/machine"
	MachineLabelValue = "true"
	// StandInAnnotation of such a claim is the UID of this BareMetalHost. The metaData of the real host contains it.
	StandInAnnotation = "hostclaims.metal3.io/stand-in"
	// ProxyPause is the value of the annotation by which the baremetal-operator leaves such a BareMetalHost alone.
	ProxyPause = "hostclaims.metal3.io"
)

// Labels of a Secret that is the copy of one that a claim names.
const (
	// ClaimUIDLabel is the UID of the claim.
	ClaimUIDLabel = "hostclaims.metal3.io/claim-uid"
	// SourceLabel is the UID and the resourceVersion of the source, or a hash if the copy also describes a stand-in.
	SourceLabel = "hostclaims.metal3.io/source"
	// EnvironmentLabel is one by which the baremetal-operator finds its Secrets.
	EnvironmentLabel = "environment.metal3.io"
)

// Remote claims. The source is the claim of kind remote, the target the HostClaim in the other cluster that stands for
// it.
const (
	// RemoteFinalizer holds claims of kind remote that may have a target.
	RemoteFinalizer = "hostclaims.metal3.io/remote"
	// CredentialsFinalizer holds Secrets with a kubeconfig that claims of kind remote use.
	CredentialsFinalizer = "hostclaims.metal3.io/credentials"
	// OriginUIDAnnotation of a source is the UID that it had when it was held for the first time. It is what remains of
	// that when the source moves to another cluster, and its target is found by it. The target has it for people.
	OriginUIDAnnotation = "hostclaims.metal3.io/origin-uid"
	// TargetAnnotation of a source is a copy of its status.remote, as JSON. Another CRD of HostClaims drops that status,
	// and clusterctl does not move it. With the copy, a source gets no second target in another place.
	TargetAnnotation = "hostclaims.metal3.io/target"
	// AbandonAnnotation of a source, if it is "true", has the source go without its target when it is deleted.
	AbandonAnnotation = "hostclaims.metal3.io/abandon-remote"
	// OriginLabel of a target, and of the Secrets that go with it, says which source they stand for. Nothing without it
	// is touched.
	OriginLabel = "hostclaims.metal3.io/origin"
	// OriginAnnotation of a target is "NAMESPACE/NAME" of its source. It is for people.
	OriginAnnotation = "hostclaims.metal3.io/origin"
	// WrittenAnnotation of a target is a hash of the spec that was written for its source. Another spec is somebody
	// else's.
	WrittenAnnotation = "hostclaims.metal3.io/written"
)
