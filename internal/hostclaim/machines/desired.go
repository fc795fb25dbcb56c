package machines

import (
	"maps"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// metadataOf returns that of a claim or a proxy.
func metadataOf(m *Machine) metav1.ObjectMeta {
	labels := map[string]string{metal3v1.MachineLabel: metal3v1.MachineLabelValue}
	if name := m.Labels[clusterv1.ClusterNameLabel]; name != "" {
		labels[clusterv1.ClusterNameLabel] = name
	}
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{ownerMachine(m)},
	}
}

// consumerRef names a Machine as the consumer of a host, or of a claim.
func consumerRef(m *Machine) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: machineKind().GroupVersion().String(), Kind: machineKind().Kind, Namespace: m.Namespace, Name: m.Name,
	}
}

// newClaim returns the claim of a Machine. Its host is not to be switched on yet.
func newClaim(m *Machine) *metal3v1.HostClaim {
	return &metal3v1.HostClaim{ObjectMeta: metadataOf(m), Spec: wanted(Observation{Machine: m})}
}

// wanted returns the spec that a claim is to have: what the Machine says, and what the provider has written to the
// proxy. The kind of a claim cannot be changed, so that of one that is there stays.
func wanted(o Observation) metal3v1.HostClaimSpec {
	m := o.Machine
	s := metal3v1.HostClaimSpec{
		Online: new(false), Kind: m.Kind, Args: maps.Clone(m.Args), Credentials: m.Credentials, HostSelector: m.Selector,
		FailureDomain: m.FailureDomain, ConsumerRef: consumerRef(m),
	}
	if m.Credentials != "" && m.Kind != metal3v1.KindRemote {
		s.Kind = metal3v1.KindRemote
		if s.Args == nil {
			s.Args = map[string]metal3v1.Argument{}
		}
		s.Args[metal3v1.RealKindArg] = metal3v1.Argument(m.Kind)
	}
	if claim := o.Claim; claim != nil {
		// The request is read once. What was asked for does not change under the host that it got.
		is := claim.Spec
		s.Kind, s.Args, s.Credentials, s.IdentityRef = is.Kind, is.Args, is.Credentials, is.IdentityRef
		s.HostSelector, s.AutomatedCleaningMode = is.HostSelector, is.AutomatedCleaningMode
	}
	proxy := o.Proxy
	if proxy == nil {
		return s
	}
	s.Online, s.AutomatedCleaningMode = new(proxy.Spec.Online), ""
	// Once its Cluster is being deleted, no next Machine goes on with the disks, and the host is cleaned for others.
	last := m.DeletionTimestamp != nil && o.Cluster == nil
	if hostclaim.NotCleaned(proxy) && !last {
		s.AutomatedCleaningMode = metal3v1.CleaningDisabled
	}
	s.UserData, s.MetaData = reference(proxy.Spec.UserData), reference(proxy.Spec.MetaData)
	s.NetworkData = reference(proxy.Spec.NetworkData)
	if proxy.Status.Provisioning.State == bmov1.StateNone && !asksFor(o.Claim) {
		return s // The provider takes its Machine off a proxy that has nothing, so the proxy says first that it has.
	}
	if image := proxy.Spec.Image; image != nil {
		s.Image = &metal3v1.Image{URL: image.URL, Checksum: image.Checksum, ChecksumType: string(image.ChecksumType)}
		if image.DiskFormat != nil {
			s.Image.Format = *image.DiskFormat
		}
		if image.OCIAuthSecretName != nil {
			s.Image.OCIAuthSecretName = *image.OCIAuthSecretName
		}
	} else if deploy := proxy.Spec.CustomDeploy; deploy != nil {
		s.CustomDeploy = &metal3v1.CustomDeploy{Method: deploy.Method}
	}
	return s
}

// reference names a Secret of the claim's own namespace, whatever the proxy says: the provider names no other ones.
func reference(ref *corev1.SecretReference) *corev1.SecretReference {
	if ref == nil {
		return nil
	}
	return &corev1.SecretReference{Name: ref.Name}
}

// reboots has a claim carry the annotations of the proxy that keep its host off, and no others of these. The provider
// sets them to fence a Machine.
func reboots(claim map[string]string, proxy *bmov1.BareMetalHost) map[string]string {
	const prefix = metal3v1.RebootAnnotation + "/"
	after := map[string]string{}
	for key, value := range claim {
		if !strings.HasPrefix(key, prefix) {
			after[key] = value
		}
	}
	if proxy != nil {
		for key, value := range proxy.Annotations {
			if strings.HasPrefix(key, prefix) {
				after[key] = value
			}
		}
	}
	if len(after) == 0 {
		return nil
	}
	return after
}

// newProxy returns the host that the provider takes for its Machine: it has the labels that the Machine selects by, and
// the name of the claim.
func newProxy(m *Machine, claim *metal3v1.HostClaim) *bmov1.BareMetalHost {
	proxy := &bmov1.BareMetalHost{
		ObjectMeta: metadataOf(m),
		Spec: bmov1.BareMetalHostSpec{
			BootMACAddress: claim.Status.BootMACAddress, ConsumerRef: consumerRef(m),
			AutomatedCleaningMode: bmov1.AutomatedCleaningMode(claim.Spec.AutomatedCleaningMode),
		},
	}
	proxy.Name = claim.Name
	proxy.Annotations = map[string]string{bmov1.PausedAnnotation: metal3v1.ProxyPause}
	for _, each := range m.Selector.MatchExpressions {
		value := ""
		if strings.EqualFold(each.Operator, "In") && len(each.Values) > 0 {
			value = each.Values[0]
		} else if !strings.EqualFold(each.Operator, "Exists") {
			continue
		}
		label(proxy.Labels, each.Key, value)
	}
	for key, value := range m.Selector.MatchLabels {
		label(proxy.Labels, key, value)
	}
	for key, value := range claim.Labels {
		if strings.HasPrefix(key, metal3v1.InfoPrefix) {
			label(proxy.Labels, key, value)
		}
	}
	for key, value := range claim.Annotations {
		if strings.HasPrefix(key, metal3v1.InfoPrefix) {
			proxy.Annotations[key] = value
		}
	}
	putCopies(proxy, m.Selector, hostclaim.CopiedTo(claim))
	return proxy
}

// putCopies sets on a proxy what was copied from the real host to the claim. It leaves out labels that the selector of
// the Machine names: the real host may have another value by now, and the provider would not choose the proxy.
func putCopies(proxy *bmov1.BareMetalHost, selector metal3v1.HostSelector, copies hostclaim.Copies) {
	for key, value := range copies.Labels {
		_, matched := selector.MatchLabels[key]
		if !matched && !slices.ContainsFunc(selector.MatchExpressions, func(each metal3v1.HostSelectorRequirement) bool {
			return each.Key == key
		}) {
			label(proxy.Labels, key, value)
		}
	}
	maps.Copy(proxy.Annotations, copies.Annotations)
}

// label sets a label that can be one, and is none of this project's own.
func label(labels map[string]string, key, value string) {
	own := strings.HasPrefix(key, "hostclaims.metal3.io/") || key == clusterv1.ClusterNameLabel
	if !own && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
		labels[key] = value
	}
}

// statusOf returns the status of the proxy: what is known of the host, by the claim.
func statusOf(o Observation) bmov1.BareMetalHostStatus {
	after := *o.Proxy.Status.DeepCopy()
	after.OperationalStatus, after.ErrorType, after.ErrorMessage = bmov1.OperationalStatusOK, "", ""
	after.Provisioning.State = stateOf(o)
	if after.Provisioning.State == bmov1.StateProvisioned && o.Proxy.Spec.Image != nil {
		after.Provisioning.Image = *o.Proxy.Spec.Image.DeepCopy()
	} else if after.Provisioning.State == bmov1.StateAvailable {
		after.Provisioning.Image = bmov1.Image{}
	}
	claim := o.Claim
	if claim == nil || hostclaim.LostForGood(claim) {
		after.OperationalStatus, after.PoweredOn = bmov1.OperationalStatusError, false
		after.ErrorMessage = "The HostClaim of this Metal3Machine has lost its host, or was deleted. Delete the Machine"
		return after
	}
	after.PoweredOn = claim.Status.PoweredOn != nil && *claim.Status.PoweredOn
	if len(claim.Status.NICs) == 0 && len(claim.Status.Addresses) == 0 {
		return after
	}
	if after.HardwareDetails == nil {
		after.HardwareDetails = &bmov1.HardwareDetails{}
	}
	details := after.HardwareDetails
	details.NIC, details.Hostname = nil, ""
	for _, nic := range claim.Status.NICs {
		details.NIC = append(details.NIC, bmov1.NIC{MAC: nic.MAC, IP: nic.IP, Name: nic.Name})
	}
	for _, address := range claim.Status.Addresses {
		if address.Type == "Hostname" {
			details.Hostname = address.Address
		}
	}
	return after
}
