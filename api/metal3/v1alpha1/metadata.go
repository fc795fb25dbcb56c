package v1alpha1

// Labels, annotations and finalizers of claims.
const (
	// BareMetalFinalizer holds claims of kind baremetal that may have a host.
	BareMetalFinalizer = "hostclaims.metal3.io/baremetal"
	// KindLabel of a claim is its spec.kind, for those who list by label.
	KindLabel = "hostclaims.metal3.io/kind"
	// HostLabel of a claim names its host: "NAMESPACE.NAME", or a hash of that if it is too long for a label. It is for
	// people and says nothing to the controller.
	HostLabel = "hostclaims.metal3.io/host"
	// HostAnnotation of a claim names its host: "NAMESPACE/NAME". It is for people, too.
	HostAnnotation = "metal3.io/BareMetalHost"
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
	// FailureDomainLabel of a BareMetalHost is its failure domain.
	FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"
	// NodeReuseLabel of a BareMetalHost keeps it for the next machine of the same owner. The Metal3 provider of Cluster
	// API sets it.
	NodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"
	// UnhealthyAnnotation of a BareMetalHost keeps it from being chosen. The Metal3 provider of Cluster API sets it.
	UnhealthyAnnotation = "capi.metal3.io/unhealthy"
)
