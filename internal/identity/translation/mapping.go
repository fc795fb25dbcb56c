package translation

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
)

// What Rancher calls things.
const (
	// CredentialNamespace is where Rancher keeps cloud credentials.
	CredentialNamespace = "cattle-global-data"

	driverAnnotation = "provisioning.cattle.io/driver"
	fieldPrefix      = "ocicredentialConfig-"
)

// field is a field of a cloud credential, and the key of a principal Secret that it becomes.
type field struct {
	from, to string
	clean    func([]byte) []byte
}

// fields are all of them. Rancher has no field for a passphrase; who writes credentials without Rancher may add it.
func fields() []field {
	return []field{
		{from: "tenancyId", to: "tenancy", clean: bytes.TrimSpace},
		{from: "userId", to: "user", clean: bytes.TrimSpace},
		{from: "fingerprint", to: "fingerprint", clean: func(raw []byte) []byte {
			return bytes.ToLower(bytes.TrimSpace(raw))
		}},
		{from: "privateKeyContents", to: "key", clean: cleanKey},
		{from: "privateKeyPassphrase", to: "passphrase", clean: func(raw []byte) []byte { return raw }},
	}
}

// cleanKey gives a key its lines back that went through a form or a variable of an environment.
func cleanKey(raw []byte) []byte {
	for _, lineBreak := range []string{`\r\n`, `\n`, "\r\n"} {
		raw = bytes.ReplaceAll(raw, []byte(lineBreak), []byte("\n"))
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil
	}
	return append(bytes.Clone(raw), '\n')
}

// Translate returns the data of the principal Secret for those of a cloud credential, or says all that is wrong with
// them, in a text that quotes nothing. The region is optional.
func Translate(data map[string][]byte, region string) (map[string][]byte, string) {
	principal := map[string][]byte{}
	for _, f := range fields() {
		if value := f.clean(data[fieldPrefix+f.from]); len(value) > 0 {
			principal[f.to] = value
		}
	}
	if region != "" {
		principal["region"] = []byte(region)
	}
	if _, flaw := oci.ParseCredential(principal); flaw != "" {
		return nil, strings.NewReplacer("the Secret", "the cloud credential", "The Secret", "The cloud credential").Replace(flaw)
	}
	return principal, ""
}

// driver says for which cloud a credential is.
type driver int

const (
	otherDriver driver = iota
	ociDriver
	// noDriver is that of a credential that was not created by the dashboard: its fields tell.
	noDriver
)

// driverOf reads the annotation. The dashboard writes the name that the driver has in its forms.
func driverOf(credential *metav1.PartialObjectMetadata) driver {
	switch name, ok := credential.Annotations[driverAnnotation]; {
	case !ok:
		return noDriver
	case name == "oracle" || name == "oci":
		return ociDriver
	default:
		return otherDriver
	}
}

// hasField reports whether data have a field of a credential for OCI. One that lacks others is reported.
func hasField(data map[string][]byte) bool {
	return slices.ContainsFunc(fields(), func(f field) bool {
		_, ok := data[fieldPrefix+f.from]
		return ok
	})
}

// maxMark is how much of an annotation is kept. Users of Rancher may write them.
const maxMark = 1024

// keepMarks leaves of the metadata of a Secret what is read of it. It is a transform of a cache.
func keepMarks(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.ObjectMeta = marks(found.ObjectMeta)
	}
	return object, nil
}

func marks(of metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion,
		DeletionTimestamp: of.DeletionTimestamp,
	}
	if uid, ok := of.Labels[infrav1.CredentialUIDLabel]; ok {
		kept.Labels = map[string]string{infrav1.CredentialUIDLabel: uid}
	}
	for _, key := range []string{
		driverAnnotation, infrav1.RegionAnnotation, infrav1.CredentialIdentityAnnotation, infrav1.TranslationAnnotation,
	} {
		value, ok := of.Annotations[key]
		if !ok {
			continue
		}
		if kept.Annotations == nil {
			kept.Annotations = map[string]string{}
		}
		kept.Annotations[key] = strings.Clone(value[:min(len(value), maxMark)])
	}
	return kept
}
