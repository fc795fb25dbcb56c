package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// wanted returns the target as the source says, nil if it is so. Image and Secrets come together, and none
// of them while one is missing.
func wanted(o Observation, p plan) *metal3v1.HostClaim {
	claim, after := o.Claim, o.Target.DeepCopy()
	if after == nil {
		after = &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Place.Namespace, Name: targetName(originKept(claim)),
		}}
	}
	before := after.DeepCopy()
	spec := claim.Spec.DeepCopy()
	spec.Kind, spec.Credentials, spec.IdentityRef = o.RealKind, "", nil
	delete(spec.Args, metal3v1.RealKindArg)
	delete(spec.Args, metal3v1.CredentialsArg)
	if len(spec.Args) == 0 {
		spec.Args = nil
	}
	spec.UserData, spec.MetaData, spec.NetworkData = p.reference(hostclaim.UserData), p.reference(hostclaim.MetaData), p.reference(hostclaim.NetworkData)
	if spec.Image != nil {
		spec.Image.OCIAuthSecretName = p.names[hostclaim.ImageAuth]
	}
	if len(p.problems) > 0 {
		was := before.Spec
		spec.Image, spec.CustomDeploy = was.Image, was.CustomDeploy
		spec.UserData, spec.MetaData, spec.NetworkData = was.UserData, was.MetaData, was.NetworkData
	}
	after.Labels = hostclaim.Set(after.Labels, metal3v1.OriginLabel, originKept(claim))
	after.Annotations = hostclaim.Set(after.Annotations, metal3v1.OriginAnnotation, claim.Namespace+"/"+claim.Name)
	if originOf(claim) == originKept(claim) {
		after.Annotations[metal3v1.OriginUIDAnnotation] = originUID(claim)
	}
	after.Annotations = hostclaim.RebootsOf(claim).Tell(after.Annotations)
	hostclaim.PassMark(claim, metal3v1.HostClaimKind, after)
	if !equality.Semantic.DeepEqual(*spec, before.Spec) || after.Annotations[metal3v1.WrittenAnnotation] == "" {
		after.Spec = *spec
		after.Annotations[metal3v1.WrittenAnnotation] = hashOf(*spec)
	}
	if o.Target != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec) &&
		equality.Semantic.DeepEqual(before.ObjectMeta, after.ObjectMeta) {
		return nil
	}
	return after
}

// hashOf tells one spec from another.
func hashOf(spec metal3v1.HostClaimSpec) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		return "" // It has come as JSON.
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// edited returns a warning if somebody else has changed the spec of the target, and it is about to be changed back.
func edited(o Observation, after *metal3v1.HostClaim) *hostclaim.Warning {
	is := o.Target
	written := is.Annotations[metal3v1.WrittenAnnotation]
	fields := differing(is.Spec, after.Spec)
	if written == "" || written == hashOf(is.Spec) || len(fields) == 0 {
		return nil
	}
	return &hostclaim.Warning{
		Reason: "RemoteEdited", Note: "Reverted a change of fields " + strings.Join(fields, ", ") + " in the remote HostClaim, which this HostClaim sets. Change them here",
	}
}

// differing returns the names of the fields that two specs have with different values.
func differing(a, b metal3v1.HostClaimSpec) []string {
	was, is := fieldsOf(a), fieldsOf(b)
	var names []string
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	for name, value := range is {
		if string(was[name]) != string(value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func fieldsOf(spec metal3v1.HostClaimSpec) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	raw, err := json.Marshal(spec)
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil // It has come as JSON.
	}
	return fields
}

// taken returns a source that is held.
func taken(claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	after := claim.DeepCopy()
	controllerutil.AddFinalizer(after, metal3v1.RemoteFinalizer)
	hostclaim.LabelKind(after)
	hostclaim.KeepPower(after)
	if after.Annotations[metal3v1.OriginUIDAnnotation] == "" {
		after.Annotations = hostclaim.Set(after.Annotations, metal3v1.OriginUIDAnnotation, string(after.UID))
	}
	return after
}

// keepTarget has the metadata of a source keep where its target is.
func keepTarget(claim *metal3v1.HostClaim, is *metal3v1.RemoteReference) {
	if raw, err := json.Marshal(is); err == nil {
		claim.Annotations = hostclaim.Set(claim.Annotations, metal3v1.TargetAnnotation, string(raw))
	}
}

// known returns where the target of a source is, nil if it has none: its status says so, or what was kept of that.
func known(claim *metal3v1.HostClaim) *metal3v1.RemoteReference {
	if claim.Status.Remote != nil {
		return claim.Status.Remote
	}
	return keptTarget(claim)
}

// keptTarget is what the metadata of a source keep of where its target is, nil if that is nothing.
func keptTarget(claim *metal3v1.HostClaim) *metal3v1.RemoteReference {
	kept := &metal3v1.RemoteReference{}
	if json.Unmarshal([]byte(claim.Annotations[metal3v1.TargetAnnotation]), kept) != nil || kept.Namespace == "" {
		return nil
	}
	return kept
}

// dropped returns a source that is not held any more.
func dropped(claim *metal3v1.HostClaim) *metal3v1.HostClaim {
	after := claim.DeepCopy()
	controllerutil.RemoveFinalizer(after, metal3v1.RemoteFinalizer)
	return after
}

// informed returns the source with what its target tells, nil if it has that, and what a patch to it is computed from.
// A reboot that was told is not asked for any more.
func informed(o Observation) (from, after *metal3v1.HostClaim) {
	from, after = o.Claim, o.Claim.DeepCopy()
	hostclaim.LabelKind(after)
	hostclaim.KeepPower(after)
	if o.Target != nil {
		keepTarget(after, at(o))
		hostclaim.Inform(after, o.Target.Labels, o.Target.Annotations)
		hostclaim.Rebooted(after, o.Target.Annotations)
		lost := ""
		if hostclaim.ConditionOf(o.Target, metal3v1.AssociatedCondition).Reason == metal3v1.HostLostReason {
			lost = lostThere
		}
		after.Annotations = hostclaim.Set(after.Annotations, metal3v1.LostHostAnnotation, lost)
		from = hostclaim.PutCopies(o.Claim, after, hostclaim.CopiedTo(o.Target))
	}
	if equality.Semantic.DeepEqual(after.ObjectMeta, o.Claim.ObjectMeta) {
		return nil, nil
	}
	return from, after
}

// lostThere is what a source says of a host that was lost in the other cluster. Its name there says nothing here.
const lostThere = "remote"

// reference returns how the target names a Secret, nil if it is to have none.
func (p *plan) reference(r hostclaim.Role) *corev1.SecretReference {
	if p.names[r] == "" {
		return nil
	}
	return &corev1.SecretReference{Name: p.names[r]}
}
