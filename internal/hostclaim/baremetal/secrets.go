package baremetal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// maxName is how long the name of a Secret may be.
const maxName = 253

// copyOf returns the name of the copy of a Secret beside a host.
func copyOf(host types.NamespacedName, r hostclaim.Role) types.NamespacedName {
	end := "-hc-" + string(r)
	name := host.Name + end
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(host.Name))
		name = hex.EncodeToString(sum[:16]) + end
	}
	return types.NamespacedName{Namespace: host.Namespace, Name: name}
}

// hostOfCopy returns the host that a Secret may be a copy for.
func hostOfCopy(secret types.NamespacedName) (types.NamespacedName, bool) {
	for _, r := range hostclaim.Roles() {
		if name, ok := strings.CutSuffix(secret.Name, "-hc-"+string(r)); ok {
			return types.NamespacedName{Namespace: secret.Namespace, Name: name}, true
		}
	}
	return types.NamespacedName{}, false
}

// Secrets are the metadata of those that matter to a run, by their names.
type Secrets map[types.NamespacedName]*metav1.PartialObjectMetadata

// problem is why something is not as the claim wants it.
type problem struct{ reason, message string }

// plan is what is to be done about the Secrets of a claim.
type plan struct {
	// copies come first.
	copies []Action
	// names are those by which the host finds them, in its own namespace.
	names map[hostclaim.Role]string
	// versions are those of the Secrets for the first boot.
	versions map[hostclaim.Role]string
	problems []problem
	// keepsDisk is whether Metal3 is to keep what is on the disks.
	keepsDisk bool
	// surplus are copies that the claim has no use for any more.
	surplus []Action
}

// planSecrets says how a host gets the Secrets of its claim.
func planSecrets(o Observation, host *bmov1.BareMetalHost) plan {
	p := plan{names: map[hostclaim.Role]string{}, versions: versionsOf(o), keepsDisk: keepsDisk(o, host)}
	named := hostclaim.Sources(o.Claim)
	for _, r := range hostclaim.Roles() {
		ref, wanted := named[r]
		standIn := hostclaim.Described(o.Claim, r)
		if !wanted && standIn == nil || host.Namespace == o.Claim.Namespace && standIn == nil {
			if found := o.Secrets[copyOf(keyOf(host), r)]; found != nil && isCopy(found) {
				p.surplus = append(p.surplus, removeCopy{found})
			}
			if wanted {
				p.direct(o, r, ref)
			}
			continue
		}
		p.copied(o, host, r, ref, standIn)
	}
	return p
}

// copied has a host use a copy of a Secret, or a Secret that describes the stand-in and nothing else if the claim names
// none.
func (p *plan) copied(o Observation, host *bmov1.BareMetalHost, r hostclaim.Role, ref corev1.SecretReference, standIn *hostclaim.StandIn) {
	at := copyOf(keyOf(host), r)
	found, is := o.Secrets[at], o.Secrets[types.NamespacedName{Namespace: o.Claim.Namespace, Name: ref.Name}]
	switch {
	case !hostclaim.MayRead(o.Claim, ref):
		p.add(r, "Secret %s is in another namespace. Use a Secret in the namespace of this HostClaim", ref.Name)
	case ref.Name != "" && is == nil:
		p.add(r, "Secret %s does not exist. Create it, or correct the field", ref.Name)
	case found != nil && !isCopy(found):
		p.add(r, "the namespace of the host has another Secret with the name of the copy. Ask your administrator to delete it")
	default:
		p.names[r] = at.Name
		if found == nil || found.Labels[metal3v1.SourceLabel] != hostclaim.CopyVersion(is, standIn) ||
			found.Labels[metal3v1.ClaimUIDLabel] != string(o.Claim.UID) {
			p.copies = append(p.copies, copySecret{source: is, standIn: standIn, to: at, replaces: found, claim: o.Claim, host: host})
		}
	}
}

// isCopy reports whether a Secret that has the name of a copy is one. One of another claim is left over: the host has
// one claim at a time.
func isCopy(secret *metav1.PartialObjectMetadata) bool {
	return secret.Labels[metal3v1.ClaimUIDLabel] != "" && secret.Labels[metal3v1.SourceLabel] != ""
}

// direct has a host in the namespace of the claim use a Secret as it is.
func (p *plan) direct(o Observation, r hostclaim.Role, ref corev1.SecretReference) {
	switch {
	case !hostclaim.MayRead(o.Claim, ref):
		p.add(r, "Secret %s is in another namespace. Use a Secret in the namespace of this HostClaim", ref.Name)
	case o.Secrets[types.NamespacedName{Namespace: o.Claim.Namespace, Name: ref.Name}] == nil:
		p.add(r, "Secret %s does not exist. Create it, or correct the field", ref.Name)
	default:
		p.names[r] = ref.Name
	}
}

func (p *plan) add(r hostclaim.Role, format string, args ...any) {
	p.problems = append(p.problems, problem{r.Reason(), "Field " + string(r) + ": " + fmt.Sprintf(format, args...)})
}

// reference returns how a host names a Secret, nil if it is to have none.
func (p *plan) reference(host *bmov1.BareMetalHost, r hostclaim.Role) *corev1.SecretReference {
	if p.names[r] == "" {
		return nil
	}
	return &corev1.SecretReference{Namespace: host.Namespace, Name: p.names[r]}
}
