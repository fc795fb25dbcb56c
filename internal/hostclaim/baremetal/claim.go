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
	hostclaim.LabelKind(after)
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
func (d *Decision) associate(claim *metal3v1.HostClaim, host *bmov1.BareMetalHost, lost string, copies hostclaim.Copies) {
	after := claim.DeepCopy()
	label := ""
	if host != nil {
		label = labelOf(host.Namespace, host.Name)
	}
	hostclaim.LabelKind(after)
	hostclaim.KeepPower(after)
	setLabel(after, metal3v1.HostLabel, label)
	setAnnotation(after, metal3v1.ParkedAnnotation, "")
	setAnnotation(after, metal3v1.LostHostAnnotation, lost)
	if host == nil {
		hostclaim.Inform(after, nil, nil)
	} else {
		hostclaim.Inform(after, host.Labels, host.Annotations)
		hostclaim.Rebooted(after, host.Annotations)
	}
	from := hostclaim.PutCopies(claim, after, copies)
	if equality.Semantic.DeepEqual(after.ObjectMeta, claim.ObjectMeta) {
		return
	}
	d.Actions = append(d.Actions, changeClaim{from, after, "have it name its host", forged(claim, label)})
}

// had reports whether the metadata of a claim say that it had the host which its status names. They are written before
// the status, and no request writes both.
func had(claim *metal3v1.HostClaim, host *metal3v1.ObjectReference) bool {
	return claim.Labels[metal3v1.HostLabel] == labelOf(host.Namespace, host.Name) ||
		claim.Annotations[metal3v1.LostHostAnnotation] == host.Namespace+"/"+host.Name
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
func forged(claim *metal3v1.HostClaim, label string) *hostclaim.Warning {
	said, known := claim.Labels[metal3v1.HostLabel], claim.Status.BareMetalHost
	if said == "" || said == label || known != nil && said == labelOf(known.Namespace, known.Name) {
		return nil // Otherwise it is its own host, which it has lost.
	}
	return &hostclaim.Warning{
		Reason: "AssociationErased", Note: "Removed label " + metal3v1.HostLabel + ", because it named a host that this HostClaim does not have",
	}
}

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
