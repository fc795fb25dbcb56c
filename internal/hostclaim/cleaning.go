package hostclaim

import (
	"encoding/json"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// lastUse is whose a host was last. It is in an annotation of the host, as JSON.
type lastUse struct {
	// Namespace is that of the claim.
	Namespace string `json:"namespace"`
	// Provisioned is when the host was provisioned last. If that is another time by now, somebody else has used the host
	// since. An administrator who writes the annotation may leave it out.
	Provisioned string `json:"provisioned,omitempty"`
	// Uncleaned is whether the host was released without having been cleaned.
	Uncleaned bool `json:"uncleaned,omitempty"`
}

// WithLastUse returns the annotations of a host that a claim of a namespace gives back. Kept is whether Metal3 has kept
// what was on the disks. On a host that was never provisioned, the claim has left nothing.
func WithLastUse(host *bmov1.BareMetalHost, namespace string, kept bool) map[string]string {
	provisioned := lastProvisioned(host)
	if provisioned == "" {
		return host.Annotations
	}
	raw, err := json.Marshal(lastUse{Namespace: namespace, Provisioned: provisioned, Uncleaned: kept || NotCleaned(host)})
	if err != nil {
		return host.Annotations // It has nothing that cannot be written.
	}
	return Set(host.Annotations, metal3v1.LastUseAnnotation, string(raw))
}

// mayHoldOthersData reports whether the disks of a free host may have data of another namespace than this one. Nothing
// erases them if cleaning is disabled, or was when the host was released. What is not known counts as another's.
func mayHoldOthersData(host *bmov1.BareMetalHost, namespace string) bool {
	provisioned := lastProvisioned(host)
	annotation, recorded := host.Annotations[metal3v1.LastUseAnnotation]
	var last lastUse
	known := recorded && json.Unmarshal([]byte(annotation), &last) == nil && last.Namespace != "" &&
		(last.Provisioned == "" || last.Provisioned == provisioned)
	switch {
	case !NotCleaned(host) && (!known || !last.Uncleaned):
		return false
	case known:
		return last.Namespace != namespace
	default:
		return recorded || provisioned != ""
	}
}

// NotCleaned reports whether Metal3 cleans nothing when it deprovisions a host.
func NotCleaned(host *bmov1.BareMetalHost) bool {
	return host.Spec.AutomatedCleaningMode == bmov1.CleaningModeDisabled
}

// lastProvisioned is when the provisioning of a host last began, empty if it never did.
func lastProvisioned(host *bmov1.BareMetalHost) string {
	began := host.Status.OperationHistory.Provision.Start
	if began.IsZero() {
		return ""
	}
	return began.UTC().Format(time.RFC3339)
}
