package hostclaim_test

import (
	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

const inStep = "True RemoteSynced"

var _ = Describe("A claim of kind remote", Ordered, ContinueOnFailure, func() {
	var here, there *world
	var metal3 *standin.Standin

	BeforeAll(func(ctx SpecContext) {
		here, there = newWorldOf(ctx, "hostclaim-here", "hostclaim-remote"), newWorld(ctx, "hostclaim-there")
		there.namespace(ctx, "infra")
		metal3 = there.operate()
		there.start(ctx)
		here.startRemote(ctx)
	})

	It("has a host of another cluster run what it says, until it is deleted (cases 22, 23, 24)", func(ctx SpecContext) {
		t := newTenant(ctx, here, there, "whole")
		there.host(ctx, "infra", "whole", func(h *bmov1.BareMetalHost) {
			h.Labels["only"] = "whole"
			h.Labels["info.hostclaims.metal3.io/rack"], h.Annotations["info.hostclaims.metal3.io/room"] = "r1", "the blue one"
		})

		By("claiming a host")
		t.claim(ctx, "work", "online: true\nhostSelector: {matchLabels: {only: whole}}\n")
		Eventually(t.synced(ctx, "work")).Should(Equal(inStep))
		Eventually(t.condition(ctx, "work", "Associated")).Should(Equal("True BareMetalHostAssociated"))
		target := t.target(ctx, "work")
		Expect(target.Spec.Kind).To(Equal("baremetal"))
		Expect(target.Spec.Credentials).To(BeEmpty())
		Expect(target.Spec.Args).To(Equal(map[string]metal3v1.Argument{"zone": "z1"}))
		source := here.getClaim(ctx, t.namespace, "work")
		Expect(source.Spec.Kind).To(Equal("remote"))
		Expect(source.Status.Addresses).To(ContainElement(metal3v1.HostAddress{Type: "InternalIP", Address: "192.168.133.33"}))
		Expect(source.Status.BootMACAddress).To(Equal("52:54:00:01:00:05"))
		Expect(source.Status.NICs).To(HaveLen(1))
		Expect(source.Status.Ready).To(BeFalse())
		Eventually(func() map[string]string { return here.getClaim(ctx, t.namespace, "work").Labels }).
			Should(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "r1"))
		Expect(here.getClaim(ctx, t.namespace, "work").Annotations).To(HaveKeyWithValue("info.hostclaims.metal3.io/room", "the blue one"))

		By("giving it an image and its data")
		t.secret(ctx, "my-user-data", map[string][]byte{"value": []byte("#cloud-config"), "format": []byte("cloud-config")})
		t.change(ctx, "work", func(c *metal3v1.HostClaim) {
			c.Spec.Image = &metal3v1.Image{URL: "https://url_image.qcow2", Checksum: "https://url_image.qcow2.md5", Format: "qcow2"}
			c.Spec.UserData = userData("my-user-data")
		})
		Eventually(func() bool { return here.getClaim(ctx, t.namespace, "work").Status.Ready }).Should(BeTrue())
		Expect(metal3.Provisioned("infra", "whole")).To(Equal([]standin.Provisioned{{
			Image: "https://url_image.qcow2", UserData: []byte("#cloud-config"),
		}}))
		Expect(t.copies(ctx)()).To(Equal("userdata: #cloud-config"))
		Expect(t.target(ctx, "work").UID).To(Equal(target.UID))

		By("switching it off, and another image")
		t.change(ctx, "work", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
		Eventually(func() bool { return *here.getClaim(ctx, t.namespace, "work").Status.PoweredOn }).Should(BeFalse())
		t.change(ctx, "work", func(c *metal3v1.HostClaim) { c.Spec.Online, c.Spec.Image.URL = new(true), "https://another" })
		Eventually(func() int { return len(metal3.Provisioned("infra", "whole")) }).Should(Equal(2))

		By("rebooting it")
		t.change(ctx, "work", func(c *metal3v1.HostClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "reboot.metal3.io", "") })
		Eventually(func() int { return metal3.Reboots("infra", "whole") }).Should(Equal(1))
		Eventually(func() any { return here.getClaim(ctx, t.namespace, "work").Annotations }).ShouldNot(HaveKey("reboot.metal3.io"))
		Eventually(func() any { return t.target(ctx, "work").Annotations }).ShouldNot(HaveKey("hostclaims.metal3.io/rebooting"))
		Expect(metal3.Reboots("infra", "whole")).To(Equal(1))

		By("deleting it")
		t.remove(ctx, "work")
		Eventually(t.synced(ctx, "work")).Should(Equal("NotFound"))
		Expect(t.targets(ctx, "work")).To(BeEmpty())
		Expect(t.copies(ctx)()).To(BeEmpty())
		Expect(there.getHost(ctx, "infra", "whole").Spec.ConsumerRef).To(BeNil())
	})

	faultSpecs(func() (*world, *world) { return here, there })
	hostileSpecs(func() (*world, *world) { return here, there })
})
