package baremetal

import (
	"encoding/json"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// Metal3 provisions a host again for another URL of the image, or another method, and for nothing else. The status of
// the host says with which checksum that was. Only an annotation says with which Secrets.

// provisionedWith is with which Secrets a host was provisioned. It is in an annotation of the host, as JSON.
type provisionedWith struct {
	// Host is the UID of the host. Another one was moved here from another cluster, where Secrets have other versions.
	Host types.UID `json:"host,omitempty"`
	// Data are the versions of the Secrets for the first boot.
	Data map[hostclaim.Role]string `json:"data,omitempty"`
}

// versionsOf returns the versions of the Secrets for the first boot that a claim names.
func versionsOf(o Observation) map[hostclaim.Role]string {
	versions, named := map[hostclaim.Role]string{}, hostclaim.Sources(o.Claim)
	for _, r := range []hostclaim.Role{hostclaim.UserData, hostclaim.MetaData, hostclaim.NetworkData} {
		ref, wanted := named[r]
		source, tells := o.Secrets[types.NamespacedName{Namespace: o.Claim.Namespace, Name: ref.Name}], hostclaim.Described(o.Claim, r)
		if wanted && source != nil || !wanted && tells != nil {
			versions[r] = hostclaim.CopyVersion(source, tells)
		}
	}
	return versions
}

// recordOf returns the annotation of a host that says with which Secrets it is provisioned. Until Metal3 has read them,
// these are the present ones. A host that was provisioned without the annotation gets none: nothing is known of it.
func recordOf(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim, versions map[hostclaim.Role]string) string {
	switch {
	case !asks(claim):
		return ""
	case isProvisioned(host, claim), beingProvisioned(host, claim):
		return host.Annotations[metal3v1.ProvisionedWithAnnotation]
	}
	raw, err := json.Marshal(provisionedWith{host.UID, versions})
	if err != nil {
		return "" // It has nothing that cannot be written.
	}
	return string(raw)
}

// beingProvisioned reports whether Metal3 writes to a host what its claim asks for. If that has failed, Metal3 reads
// the Secrets again for the next try.
func beingProvisioned(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) bool {
	is, want := host.Spec, claim.Spec
	switch {
	case host.Status.Provisioning.State != bmov1.StateProvisioning || host.Status.ErrorType != "":
		return false
	case want.Image != nil:
		return is.Image != nil && is.Image.URL == want.Image.URL
	default:
		return is.CustomDeploy != nil && is.CustomDeploy.Method == want.CustomDeploy.Method
	}
}

// upToDate is what Provisioned says of a host that runs what its claim asks for: what has been changed since, and has
// no effect on it.
func upToDate(o Observation, host *bmov1.BareMetalHost) condition {
	is := condition{is: true, reason: metal3v1.ProvisionedReason}
	data, details := changedData(host, versionsOf(o)), changedDetails(host, o.Claim)
	switch {
	case len(data)+len(details) == 0:
		return is
	case len(data) > 0:
		is.reason = metal3v1.DataChangedReason
	default:
		is.reason = metal3v1.ImageDetailsChangedReason
	}
	again := "spec.image.url"
	if o.Claim.Spec.Image == nil {
		again = "spec.customDeploy.method"
	}
	is.message = "Changed after the host was provisioned: " + strings.Join(append(data, details...), ", ") + ". Metal3 does not provision again for that: " +
		"the host keeps what it has until it is provisioned the next time. For that, set another " + again + ", which deletes what is on the host"
	return is
}

// changedData returns the fields whose Secrets are other ones, or were written again, since the host was provisioned.
func changedData(host *bmov1.BareMetalHost, versions map[hostclaim.Role]string) []string {
	var was provisionedWith
	raw, known := host.Annotations[metal3v1.ProvisionedWithAnnotation]
	if !known || json.Unmarshal([]byte(raw), &was) != nil || was.Host != host.UID {
		return nil
	}
	var fields []string
	for _, each := range []struct {
		role  hostclaim.Role
		field string
	}{
		{hostclaim.UserData, "userData"}, {hostclaim.MetaData, "metaData"}, {hostclaim.NetworkData, "networkData"},
	} {
		if was.Data[each.role] != versions[each.role] {
			fields = append(fields, "the Secret of spec."+each.field)
		}
	}
	return fields
}

// changedDetails returns the fields of the image that are not as Metal3 has provisioned the host.
func changedDetails(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) []string {
	want, is := imageOf(claim, ""), host.Status.Provisioning.Image
	if want == nil {
		return nil
	}
	var fields []string
	for _, each := range []struct {
		field string
		same  bool
	}{
		{"spec.image.checksum", is.Checksum == want.Checksum},
		{"spec.image.checksumType", is.ChecksumType == want.ChecksumType},
		{"spec.image.format", equality.Semantic.DeepEqual(is.DiskFormat, want.DiskFormat)},
	} {
		if !each.same {
			fields = append(fields, each.field)
		}
	}
	return fields
}
