package baremetal

import (
	"slices"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Metal3 provisions again for another URL alone.
func TestImageDetailsThatChangeAreReported(t *testing.T) {
	image := bmov1.Image{URL: "http://x", Checksum: "old", ChecksumType: "md5"}
	for name, tc := range map[string]struct {
		image metal3v1.Image
		want  string
	}{
		"the same":            {metal3v1.Image{URL: "http://x", Checksum: "old", ChecksumType: "md5"}, ""},
		"another checksum":    {metal3v1.Image{URL: "http://x", Checksum: "new", ChecksumType: "md5"}, "spec.image.checksum."},
		"all but the URL":     {metal3v1.Image{URL: "http://x", Checksum: "new", Format: "raw"}, "spec.image.checksum, spec.image.checksumType, spec.image.format."},
		"another registry":    {metal3v1.Image{URL: "http://x", Checksum: "old", ChecksumType: "md5", OCIAuthSecretName: "s"}, ""},
		"another URL as well": {metal3v1.Image{URL: "http://y", Checksum: "new"}, "another URL"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(Observation{Claim: claimWith(all(named, on, asksFor(tc.image))), Consumed: hosts(boots(image)), Secrets: Secrets{
				{Namespace: "a", Name: "s"}: {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "u", ResourceVersion: "1"}},
			}}, time.Now())
			switch is := saidOf(t, d, "Provisioned"); tc.want {
			case "":
				wantSaid(t, is, "True Provisioned")
			case "another URL":
				wantSaid(t, is, "False Provisioning")
			default:
				wantSaid(t, is, "True ImageDetailsChanged", "Changed after the host was provisioned: "+tc.want, "Metal3 does not provision again for that",
					"set another spec.image.url, which deletes what is on the host")
				wantSaid(t, saidOf(t, d, "Ready"), "True Ready")
			}
		})
	}
}

// provisionedCase is a host at some time of its provisioning, and a claim with a Secret.
type provisionedCase struct {
	claim   *metal3v1.HostClaim
	host    *bmov1.BareMetalHost
	version string
}

func newProvisionedCase() *provisionedCase {
	claim := claimWith(all(named, on, asksFor(metal3v1.Image{URL: "http://x", Checksum: "y"}), func(c *metal3v1.HostClaim) {
		c.Spec.UserData = &corev1.SecretReference{Name: "s"}
	}))
	return &provisionedCase{claim, hostOfClaim(func(h *bmov1.BareMetalHost) { h.UID, h.Spec.Online = "h", true }), "1"}
}

// work has the host be as the claim asks, and returns what the claim says.
func (p *provisionedCase) work(t *testing.T) Decision {
	t.Helper()
	o := Observation{Claim: p.claim, Consumed: list(p.host), Secrets: Secrets{
		{Namespace: "a", Name: "s"}: {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "u", ResourceVersion: p.version}},
	}}
	d := Decide(o, time.Now())
	for _, action := range d.Actions {
		if change, ok := action.(changeHost); ok {
			p.host = change.after.DeepCopy()
		}
	}
	return d
}

// deploys has Metal3 provision the host.
func (p *provisionedCase) deploys() {
	p.host.Status.Provisioning = bmov1.ProvisionStatus{State: bmov1.StateProvisioned, Image: *p.host.Spec.Image}
}

// Secrets are read when a host is provisioned, and never again.
func TestDataThatChangesAfterProvisioningIsReported(t *testing.T) {
	p := newProvisionedCase()
	p.work(t)
	p.version = "2"
	p.work(t)
	if !strings.Contains(p.host.Annotations[metal3v1.ProvisionedWithAnnotation], "u.2") || p.host.Spec.Image == nil {
		t.Fatalf("it is written with %v", p.host.Annotations)
	}
	p.deploys()
	wantSaid(t, saidOf(t, p.work(t), "Provisioned"), "True Provisioned")

	p.version = "3"
	d := p.work(t)
	wantSaid(t, saidOf(t, d, "Provisioned"), "True DataChanged", "Changed after the host was provisioned: the Secret of spec.userData.",
		"keeps what it has until it is provisioned the next time", "set another spec.image.url")
	wantSaid(t, saidOf(t, d, "Ready"), "True Ready")
	p.claim.Spec.Image.Checksum = "z"
	p.work(t)
	wantSaid(t, saidOf(t, p.work(t), "Provisioned"), "True DataChanged", "the Secret of spec.userData, spec.image.checksum.")

	p.claim.Spec.Image.URL = "http://next"
	p.work(t)
	p.deploys()
	wantSaid(t, saidOf(t, p.work(t), "Provisioned"), "True Provisioned")
	p.claim.Spec.UserData = nil
	p.work(t)
	wantSaid(t, saidOf(t, p.work(t), "Provisioned"), "True DataChanged", "the Secret of spec.userData")

	p.claim.Spec.Image = nil
	p.work(t)
	if _, left := p.host.Annotations[metal3v1.ProvisionedWithAnnotation]; left {
		t.Error("a host without an image keeps what it was provisioned with")
	}
}

// What Metal3 has read, and what it reads again, differs.
func TestDataAreThoseThatMetal3Reads(t *testing.T) {
	for name, tc := range map[string]struct {
		state bmov1.ProvisioningState
		fails bmov1.ErrorType
		want  string
	}{
		"waits to be powered on":     {bmov1.StateAvailable, "", "u.2"},
		"is being provisioned":       {bmov1.StateProvisioning, "", "u.1"},
		"is to be provisioned again": {bmov1.StateProvisioning, bmov1.ProvisioningError, "u.2"},
		"is deprovisioned for that":  {bmov1.StateDeprovisioning, bmov1.ProvisioningError, "u.2"},
	} {
		p := newProvisionedCase()
		p.work(t)
		p.host.Status.Provisioning.State, p.host.Status.ErrorType, p.version = tc.state, tc.fails, "2"
		p.work(t)
		if got := p.host.Annotations[metal3v1.ProvisionedWithAnnotation]; !strings.Contains(got, tc.want) {
			t.Errorf("a host that %s: got %s, want %s", name, got, tc.want)
		}
	}
}

// Of a host that was provisioned before there was the annotation, or was moved or restored, nothing is known: nothing
// is said of it, and nothing written.
func TestDataThatAreNotKnownAreNotReported(t *testing.T) {
	for name, change := range map[string]func(*bmov1.BareMetalHost){
		"provisioned by an earlier version": func(h *bmov1.BareMetalHost) { setOn(h, metal3v1.ProvisionedWithAnnotation, "") },
		"moved here":                        func(h *bmov1.BareMetalHost) { h.UID = "here" },
		"with what cannot be read":          func(h *bmov1.BareMetalHost) { setOn(h, metal3v1.ProvisionedWithAnnotation, "{") },
		"adopted":                           func(h *bmov1.BareMetalHost) { h.Annotations = adopted(h, claimWith(nil)).Annotations },
	} {
		p := newProvisionedCase()
		p.work(t)
		p.deploys()
		change(p.host)
		p.version = "2"
		d := p.work(t)
		wantSaid(t, saidOf(t, d, "Provisioned"), "True Provisioned")
		if slices.ContainsFunc(d.Actions, func(action Action) bool { _, ok := action.(changeHost); return ok }) {
			t.Errorf("%s: %s", name, printed(d))
		}
	}
	p := newProvisionedCase()
	p.work(t)
	if _, left := released(p.host).Annotations[metal3v1.ProvisionedWithAnnotation]; left {
		t.Error("a host that is given back keeps what it was provisioned with")
	}
}
