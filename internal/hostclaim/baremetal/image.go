package baremetal

import (
	"errors"
	"net/url"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// imageProblems says why the webhook of Metal3 would refuse the image that a claim asks for: it would refuse all else
// that is written to the host as well. An image that the host has already was accepted.
func imageProblems(host *bmov1.BareMetalHost, claim *metal3v1.HostClaim) []problem {
	want := imageOf(claim, "")
	if want == nil {
		return nil
	}
	if is := host.Spec.Image.DeepCopy(); is != nil {
		is.OCIAuthSecretName = nil // That is the copy's.
		if equality.Semantic.DeepEqual(is, want) {
			return nil
		}
	}
	var problems []problem
	if _, err := url.ParseRequestURI(want.URL); err != nil {
		// The text around the cause repeats the URL, which may have a password.
		if part, ok := errors.AsType[*url.Error](err); ok {
			err = part.Err
		}
		problems = append(problems, problem{metal3v1.ImageInvalidReason, "Metal3 does not accept spec.image.url: " + err.Error() +
			". Set a whole URL, such as https://images.example/os.qcow2"})
	}
	if _, _, err := want.GetChecksum(); err != nil {
		problems = append(problems, problem{metal3v1.ImageInvalidReason, "Metal3 does not accept spec.image.checksum: " + err.Error() +
			". Set the checksum, or the URL of a file with it. Only images of format live-iso and oci:// have none"})
	}
	return problems
}
