package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Credentials say which kubeconfig a source uses.
type Credentials struct {
	// Secret has it. It is in the namespace of the source.
	Secret types.NamespacedName
	// Context is that of the kubeconfig; its current one if it is empty.
	Context string
}

// Problem is why a source and its target are not in step.
type Problem struct {
	// Reason is that of the condition RemoteSynced.
	Reason string
	// Message says what is wrong and what to do. It holds no secret.
	Message string
}

// yetToAnswer is that nobody knows yet whether the other cluster can be asked.
func yetToAnswer() Problem {
	return Problem{metal3v1.RemoteConnectingReason, "Waiting for the first answer of the remote cluster"}
}

// problemError is a Problem as an error.
type problemError struct{ problem Problem }

// Error implements error.
func (e *problemError) Error() string { return e.problem.Message }

// refuse returns a Problem as an error.
func refuse(reason, message string) error { return &problemError{Problem{reason, message}} }

func invalid(format string, args ...any) *Problem {
	return &Problem{metal3v1.ConfigurationInvalidReason, fmt.Sprintf(format, args...)}
}

// requestOf reads which kind of host a source asks for, and where.
func requestOf(claim *metal3v1.HostClaim) (kind string, credentials Credentials, problem *Problem) {
	kind = string(claim.Spec.Args[metal3v1.RealKindArg])
	switch {
	case kind == "":
		return "", credentials, invalid("spec.args has no %s. Set it to the kind of the remote HostClaim", metal3v1.RealKindArg)
	case kind == metal3v1.KindRemote:
		return "", credentials, invalid("spec.args.%s must not be remote. Name the kind of the host", metal3v1.RealKindArg)
	case len(validation.IsValidLabelValue(kind)) > 0:
		return "", credentials, invalid("spec.args.%s is not the name of a kind. Correct it", metal3v1.RealKindArg)
	}
	credentials, problem = credentialsOf(claim)
	return kind, credentials, problem
}

// credentialsOf reads which kubeconfig a source uses. All places that name it have to name the same.
func credentialsOf(claim *metal3v1.HostClaim) (Credentials, *Problem) {
	name := claim.Spec.Credentials
	for _, other := range []string{string(claim.Spec.Args[metal3v1.CredentialsArg]), identity(claim).Name} {
		if name != "" && other != "" && name != other {
			return Credentials{}, invalid("spec.credentials, spec.args.%s and spec.identityRef name different Secrets. Keep one of them", metal3v1.CredentialsArg)
		}
		if name == "" {
			name = other
		}
	}
	switch {
	case name == "":
		return Credentials{}, invalid("spec.credentials is not set. Set it to the name of a Secret with a kubeconfig")
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return Credentials{}, invalid("spec.credentials is not the name of a Secret. Correct it")
	}
	return Credentials{types.NamespacedName{Namespace: claim.Namespace, Name: name}, identity(claim).Context}, nil
}

func identity(claim *metal3v1.HostClaim) metal3v1.IdentityReference {
	if claim.Spec.IdentityRef == nil {
		return metal3v1.IdentityReference{}
	}
	return *claim.Spec.IdentityRef
}

// originOf says which source it is, in the value of a label. One that has moved here from another cluster has the UID
// of its first life in an annotation. A copy of it under another name is another origin.
func originOf(claim *metal3v1.HostClaim) string {
	sum := sha256.Sum256([]byte(originUID(claim) + "/" + claim.Namespace + "/" + claim.Name))
	return hex.EncodeToString(sum[:16])
}

func originUID(claim *metal3v1.HostClaim) string {
	if uid := claim.Annotations[metal3v1.OriginUIDAnnotation]; uid != "" {
		return uid
	}
	return string(claim.UID)
}

// originKept is that of a source whose target is known, whatever its annotation says by now.
func originKept(claim *metal3v1.HostClaim) string {
	if at := claim.Status.Remote; at != nil && len(at.Name) > len(targetPrefix) && at.Name[:len(targetPrefix)] == targetPrefix {
		return at.Name[len(targetPrefix):]
	}
	return originOf(claim)
}

const targetPrefix = "hc-"

// targetName is that of the target of a source.
func targetName(origin string) string { return targetPrefix + origin }

// moved reports whether a source may have a target from a life in another cluster.
func moved(claim *metal3v1.HostClaim) bool {
	uid := claim.Annotations[metal3v1.OriginUIDAnnotation]
	return uid != "" && uid != string(claim.UID)
}

// handled reports whether a claim is of this kind.
func handled(claim *metal3v1.HostClaim) bool { return claim.Spec.Kind == metal3v1.KindRemote }

func held(claim *metal3v1.HostClaim) bool {
	return controllerutil.ContainsFinalizer(claim, metal3v1.RemoteFinalizer)
}

func abandoned(claim *metal3v1.HostClaim) bool {
	return claim.Annotations[metal3v1.AbandonAnnotation] == "true"
}
