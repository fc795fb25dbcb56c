package baremetal

import (
	"encoding/json"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// saved is what an administrator had set on a host when it was claimed, and gets back when it is released.
type saved struct {
	// Host is the UID of the host. Another one has been created anew from a copy of the host.
	Host        types.UID               `json:"host,omitempty"`
	Online      bool                    `json:"online"`
	UserData    *corev1.SecretReference `json:"userData,omitempty"`
	MetaData    *corev1.SecretReference `json:"metaData,omitempty"`
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`
	// CleaningMode is the administrator's while that of the host keeps its disks for the claim, and nil otherwise.
	CleaningMode *bmov1.AutomatedCleaningMode `json:"automatedCleaningMode,omitempty"`
	// Kept is whether Metal3 may have deprovisioned the host without cleaning it, and has not cleaned it since.
	Kept bool `json:"kept,omitempty"`
}

// claimed returns a host that belongs to a claim.
func claimed(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	after.Spec.ConsumerRef = consumerRef(claim)
	setOn(after, metal3v1.SavedAnnotation, asIs(host).String())
	block(after)
	return after
}

// asIs returns what there is to save of a host.
func asIs(host *bmov1.BareMetalHost) saved {
	return saved{
		Host: host.UID, Online: host.Spec.Online,
		UserData: host.Spec.UserData, MetaData: host.Spec.MetaData, NetworkData: host.Spec.NetworkData,
	}
}

// String returns what the annotation is.
func (s saved) String() string {
	raw, err := json.Marshal(s)
	if err != nil {
		return "{}" // It has nothing that cannot be written.
	}
	return string(raw)
}

// savedOf reads what was saved of a host, and reports whether there is anything that can be read.
func savedOf(host *bmov1.BareMetalHost) (saved, bool) {
	var was saved
	if json.Unmarshal([]byte(host.Annotations[metal3v1.SavedAnnotation]), &was) != nil {
		return saved{}, false
	}
	return was, true
}

func consumerRef(claim *metal3v1.HostClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: metal3v1.GroupVersion.String(), Kind: metal3v1.HostClaimKind,
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
}

// synchronized returns the host of a claim as the claim says, nil if it is so. Image and Secrets come together, and
// none of them while one is missing.
func synchronized(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim, p plan) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	after.Spec.ConsumerRef.UID = claim.UID
	unparked(after)
	block(after)
	undisputed(after)
	hostclaim.PassMark(claim, metal3v1.HostClaimKind, after)
	// A host whose power must not be switched off is not to be offline: Metal3 refuses the pair.
	after.Spec.Online = hostclaim.IsOn(claim) || host.Spec.DisablePowerOff
	after.Annotations = hostclaim.RebootsOf(claim).Tell(after.Annotations)
	if len(p.problems) == 0 || !asks(claim) {
		after.Spec.Image, after.Spec.CustomDeploy = imageOf(claim, p.names[hostclaim.ImageAuth]), nil
		if claim.Spec.CustomDeploy != nil {
			after.Spec.CustomDeploy = &bmov1.CustomDeploy{Method: claim.Spec.CustomDeploy.Method}
		}
		after.Spec.UserData = p.reference(host, hostclaim.UserData)
		after.Spec.MetaData = p.reference(host, hostclaim.MetaData)
		after.Spec.NetworkData = p.reference(host, hostclaim.NetworkData)
		setOn(after, metal3v1.ProvisionedWithAnnotation, recordOf(host, claim, p.versions))
	}
	setCleaning(after, p.keepsDisk)
	recordKept(host, after)
	return changed(host, after)
}

// imageOf returns the image that a claim asks for. The Secret for its registry is beside the host.
func imageOf(claim *metal3v1.HostClaim, auth string) *bmov1.Image {
	want := claim.Spec.Image
	if want == nil {
		return nil
	}
	image := &bmov1.Image{URL: want.URL, Checksum: want.Checksum, ChecksumType: bmov1.ChecksumType(want.ChecksumType)}
	if want.Format != "" {
		image.DiskFormat = &want.Format
	}
	if auth != "" {
		image.OCIAuthSecretName = &auth
	}
	return image
}

func changed(before, after *bmov1.BareMetalHost) *bmov1.BareMetalHost {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return after
}

// releases returns what comes next on the way of hosts back to those whom nobody has. For one that is being cleaned it
// is nothing.
func releases(hosts []*bmov1.BareMetalHost, secrets Secrets) []Action {
	var actions []Action
	for _, host := range hosts {
		if after := emptied(host); after != nil {
			actions = append(actions, changeHost{host, after, "take off it what its claim has put there", nil})
		} else if clean(host) {
			actions = append(actions, removeCopies(host, secrets)...)
			actions = append(actions, changeHost{host, released(host), "release it", nil})
		}
	}
	return actions
}

// removeCopies removes the Secrets that were copied for the claim of a host.
func removeCopies(host *bmov1.BareMetalHost, secrets Secrets) []Action {
	var actions []Action
	for _, r := range hostclaim.Roles() {
		if found := secrets[copyOf(keyOf(host), r)]; found != nil && isCopy(found) {
			actions = append(actions, removeCopy{found})
		}
	}
	return actions
}

// leaves reports whether a host is about to be released.
func leaves(host *bmov1.BareMetalHost) bool { return emptied(host) == nil && clean(host) }

// emptied returns a host without all that a claim can have put there, nil if it has nothing of that. The image goes
// together with the Secrets: the host must not be provisioned without them. That it is to be released is written down:
// the claim can be gone before the host is clean.
func emptied(host *bmov1.BareMetalHost) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	after.Spec.Image, after.Spec.CustomDeploy = nil, nil
	after.Spec.UserData, after.Spec.MetaData, after.Spec.NetworkData = nil, nil, nil
	// A host whose power must not be switched off is not to be offline: Metal3 refuses the pair.
	after.Spec.Online = host.Spec.DisablePowerOff
	unparked(after)
	delete(after.Annotations, bmov1.RebootAnnotationPrefix)
	after.Annotations = hostclaim.Reboots{}.Tell(after.Annotations)
	setCleaning(after, false) // Before Metal3 deprovisions it for the last time.
	recordKept(host, after)
	if changed(host, after) == nil && clean(host) {
		return nil // It is released at once.
	}
	undisputed(after)
	setOn(after, metal3v1.ReleaseAnnotation, string(host.Spec.ConsumerRef.UID))
	return changed(host, after)
}

// clean reports whether nothing of a claim is on a host any more, and nothing is on its way there.
func clean(host *bmov1.BareMetalHost) bool {
	if restoring(host) {
		return false
	}
	switch host.Status.Provisioning.State {
	case bmov1.StateAvailable, bmov1.StateReady, bmov1.StateExternallyProvisioned,
		bmov1.StatePoweringOffBeforeDelete, bmov1.StateDeleting:
		return true
	case bmov1.StateNone, bmov1.StateUnmanaged, bmov1.StateRegistering, bmov1.StateMatchProfile,
		bmov1.StateInspecting, bmov1.StatePreparing:
		return !host.WasProvisioned()
	default:
		return false
	}
}

// released returns a host that belongs to nobody, as its administrator had it.
func released(host *bmov1.BareMetalHost) *bmov1.BareMetalHost {
	after := host.DeepCopy()
	setCleaning(after, false)
	was, known := savedOf(host)
	if known {
		after.Spec.Online = was.Online || host.Spec.DisablePowerOff
		after.Spec.UserData, after.Spec.MetaData, after.Spec.NetworkData = was.UserData, was.MetaData, was.NetworkData
	}
	after.Annotations = hostclaim.WithLastUse(after, host.Spec.ConsumerRef.Namespace, was.Kept)
	after.Spec.ConsumerRef = nil
	dropOurs(after, blockMove)
	undisputed(after)
	setOn(after, metal3v1.SavedAnnotation, "")
	setOn(after, metal3v1.ProvisionedWithAnnotation, "")
	return after
}

// disowned returns a host without what its former claim left there, nil if the claim left nothing. The host has another
// consumer, such as a Metal3Machine, which keeps everything else.
func disowned(host *bmov1.BareMetalHost) *bmov1.BareMetalHost {
	if _, _, claimed := consumerOf(host); claimed || host.Spec.ConsumerRef == nil {
		return nil
	}
	after := host.DeepCopy()
	setCleaning(after, false)
	was, _ := savedOf(host)
	for r, each := range map[hostclaim.Role]struct{ is, was **corev1.SecretReference }{
		hostclaim.UserData:    {&after.Spec.UserData, &was.UserData},
		hostclaim.MetaData:    {&after.Spec.MetaData, &was.MetaData},
		hostclaim.NetworkData: {&after.Spec.NetworkData, &was.NetworkData},
	} {
		if ref := *each.is; ref != nil && ref.Name == copyOf(keyOf(host), r).Name {
			*each.is = *each.was // The copy goes.
		}
	}
	unparked(after)
	dropOurs(after, blockMove)
	after.Annotations = hostclaim.Reboots{}.Tell(after.Annotations)
	undisputed(after)
	setOn(after, metal3v1.SavedAnnotation, "")
	setOn(after, metal3v1.ProvisionedWithAnnotation, "")
	return changed(host, after)
}
