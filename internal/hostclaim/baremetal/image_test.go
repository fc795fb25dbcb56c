package baremetal

import (
	"slices"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// What Metal3's webhook refuses is not written to a host. It would refuse all else of that write, too.
func TestImagesAreValidatedAsMetal3Does(t *testing.T) {
	for name, tc := range map[string]struct {
		image metal3v1.Image
		want  string
	}{
		"no scheme":              {metal3v1.Image{URL: "images.example/os", Checksum: "y"}, "spec.image.url: invalid URI for request"},
		"a bad host":             {metal3v1.Image{URL: "http://a b/c", Checksum: "y"}, "spec.image.url: invalid character"},
		"a password":             {metal3v1.Image{URL: "http://u:s3cret@im ages/os", Checksum: "y"}, "spec.image.url: invalid character"},
		"no checksum":            {metal3v1.Image{URL: "http://x"}, "spec.image.checksum: checksum is required"},
		"neither":                {metal3v1.Image{URL: "x"}, "spec.image.url: invalid URI for request. Set a whole URL, such as https://images.example/os.qcow2; Metal3 does not accept spec.image.checksum"},
		"another algorithm":      {metal3v1.Image{URL: "http://x", Checksum: "y", ChecksumType: "crc"}, "spec.image.checksum: unknown checksumType crc"},
		"a path":                 {metal3v1.Image{URL: "/os", Checksum: "y"}, ""},
		"a checksum":             {metal3v1.Image{URL: "http://x", Checksum: "y", ChecksumType: "auto"}, ""},
		"a live ISO without one": {metal3v1.Image{URL: "http://x", Format: "live-iso"}, ""},
		"a registry without one": {metal3v1.Image{URL: "OCI://x/y"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			has := bmov1.Image{URL: "http://before", Checksum: "z"}
			d := Decide(Observation{Claim: claimWith(all(named, on, asksFor(tc.image))), Consumed: hosts(boots(has))}, time.Now())
			writes := slices.ContainsFunc(d.Actions, func(action Action) bool { _, ok := action.(changeHost); return ok })
			if tc.want == "" {
				if wantSaid(t, saidOf(t, d, "Synchronized"), "True ConfigurationSynced"); !writes {
					t.Errorf("it is not written: %s", printed(d))
				}
				return
			}
			for _, condition := range []string{"Synchronized", "Ready"} {
				is := saidOf(t, d, condition)
				if wantSaid(t, is, "False ImageInvalid", "Metal3 does not accept "+tc.want); strings.Contains(is.Message, "s3cret") {
					t.Errorf("it repeats the URL: %s", is.Message)
				}
			}
			if writes {
				t.Errorf("it is written: %s", printed(d))
			}
		})
	}
	// Where the webhook is off, a host may have such an image already.
	d := Decide(Observation{
		Claim: claimWith(all(named, on, asksFor(metal3v1.Image{URL: "http://x"}))), Consumed: hosts(boots(bmov1.Image{URL: "http://x"})),
	}, time.Now())
	wantSaid(t, saidOf(t, d, "Synchronized"), "True ConfigurationSynced")
	wantSaid(t, saidOf(t, d, "Ready"), "True Ready")
}
