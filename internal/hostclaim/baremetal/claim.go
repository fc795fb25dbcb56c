package baremetal

import (
	"crypto/sha256"
	"encoding/hex"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

func held(claim *metal3v1.HostClaim) bool {
	return controllerutil.ContainsFinalizer(claim, metal3v1.BareMetalFinalizer)
}

// taken returns a claim that is held.
func taken(claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	after := claim.DeepCopy()
	controllerutil.AddFinalizer(after, metal3v1.BareMetalFinalizer)
	setLabel(after, metal3v1.KindLabel, after.Spec.Kind)
	hostclaim.KeepPower(after)
	return after
}

// dropped returns a claim that is not held any more.
func dropped(claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	after := claim.DeepCopy()
	controllerutil.RemoveFinalizer(after, metal3v1.BareMetalFinalizer)
	return after
}

// associate has the metadata of a claim name its host, and no other, and the host that it has lost, if it gets no other
// one for that. Whoever else wrote a name there is told of.
func (d *Decision) associate(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost, lost string) {
	after := claim.DeepCopy()
	label, annotation := "", ""
	if host != nil {
		label, annotation = hostLabel(host), keyOf(host).String()
	}
	setLabel(after, metal3v1.KindLabel, claim.Spec.Kind)
	hostclaim.KeepPower(after)
	setLabel(after, metal3v1.HostLabel, label)
	setAnnotation(after, metal3v1.HostAnnotation, annotation)
	setAnnotation(after, metal3v1.ParkedAnnotation, "")
	setAnnotation(after, metal3v1.LostHostAnnotation, lost)
	if host == nil {
		hostclaim.Inform(after, nil, nil)
	} else {
		hostclaim.Inform(after, host.Labels, host.Annotations)
		hostclaim.Rebooted(after, host.Annotations)
	}
	if equality.Semantic.DeepEqual(after.ObjectMeta, claim.ObjectMeta) {
		return
	}
	d.Actions = append(d.Actions, changeClaim{claim, after, "have it name its host", forged(claim, label, annotation)})
}

// had reports whether the metadata of a claim say that it had the host which its status names. They are written before
// the status, and no request writes both.
func had(claim *metal3v1.HostClaim, host *metal3v1.ObjectReference) bool {
	name := host.Namespace + "/" + host.Name
	return claim.Annotations[metal3v1.HostAnnotation] == name || claim.Annotations[metal3v1.LostHostAnnotation] == name ||
		claim.Labels[metal3v1.HostLabel] == labelOf(host.Namespace, host.Name)
}

// lostFor is the name of the host that a claim has lost, empty unless the claim gets no other one for that reason.
func lostFor(reason string, claim *metal3v1.HostClaim) string {
	switch was := hostOf(claim); {
	case reason != metal3v1.HostLostReason:
		return ""
	case was != nil:
		return was.String()
	default:
		return claim.Annotations[metal3v1.LostHostAnnotation]
	}
}

// forged returns a warning if somebody has a claim name a host that it does not have.
func forged(claim *metal3v1.HostClaim, label, annotation string) *hostclaim.Warning {
	known := claim.Status.BareMetalHost
	for _, said := range []string{claim.Labels[metal3v1.HostLabel], claim.Annotations[metal3v1.HostAnnotation]} {
		if said == "" || said == label || said == annotation {
			continue
		}
		if known != nil && (said == known.Namespace+"/"+known.Name || said == labelOf(known.Namespace, known.Name)) {
			continue // It is its own host, which it has lost.
		}
		return &hostclaim.Warning{
			Reason: "AssociationErased", Note: "Removed a label or annotation of this HostClaim, because it named a host that this HostClaim does not have",
		}
	}
	return nil
}

func hostLabel(host *bmov1.BareMetalHost) string { return labelOf(host.Namespace, host.Name) }

// maxLabel is how long the value of a label may be.
const maxLabel = 63

func labelOf(namespace, name string) string {
	value := namespace + "." + name
	if len(value) > maxLabel {
		sum := sha256.Sum256([]byte(value))
		return hex.EncodeToString(sum[:16])
	}
	return value
}

// setLabel removes a label whose value is empty.
func setLabel(claim *metal3v1.HostClaim, key, value string) {
	claim.Labels = hostclaim.Set(claim.Labels, key, value)
}

func setAnnotation(claim *metal3v1.HostClaim, key, value string) {
	claim.Annotations = hostclaim.Set(claim.Annotations, key, value)
}
