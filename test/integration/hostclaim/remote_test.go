package hostclaim_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"

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
	var stop func()

	BeforeAll(func(ctx SpecContext) {
		here, there = newWorldOf(ctx, "hostclaim-here", "hostclaim-remote"), newWorld(ctx, "hostclaim-there")
		there.namespace(ctx, "infra")
		metal3 = there.operate()
		there.start(ctx)
		stop = here.startRemote(ctx)
		// An API server that is followed stops late.
		DeferCleanup(func() { stop() })
	})

	It("has a host of another cluster run what it says, until it is deleted (cases 22, 23, 24)", func(ctx SpecContext) {
		t := newTenant(ctx, here, there, "whole")
		there.host(ctx, "infra", "whole", func(h *bmov1.BareMetalHost) {
			h.Labels["only"] = "whole"
			h.Labels["info.hostclaims.metal3.io/rack"], h.Annotations["info.hostclaims.metal3.io/room"] = "r1", "the blue one"
			h.Labels["example.com/site"] = "s1"
		})
		there.create(ctx, &metal3v1.HostDeployPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "sites"},
			Spec: metal3v1.HostDeployPolicySpec{
				HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"},
				MetadataCopy:        &metal3v1.MetadataCopy{LabelsMatch: "example.com/site"},
			},
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
			Should(And(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "r1"), HaveKeyWithValue("example.com/site", "s1")))
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

		By("changing its data")
		t.secret(ctx, "my-user-data", map[string][]byte{"value": []byte("#changed")})
		Eventually(t.copies(ctx)).Should(Equal("userdata: #changed"))

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
	slowSpecs(func() (*world, *world) { return here, there })
	fickleSpecs(func() (*world, *world) { return here, there })
	permissionSpecs(func() *world { return here })
	exampleSpecs(func() (*world, *world, *standin.Standin) { return here, there, metal3 })

	It("has asked for nothing but its own claims here, and claims and Secrets of one namespace there (case 21)", func() {
		stop()
		requests, err := here.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		lists := 0
		for _, request := range requests {
			if request.User.Username != "system:serviceaccount:"+system+":"+account || request.ObjectRef == nil {
				continue
			}
			Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(http.StatusForbidden), "%s %s", request.Verb, request.RequestURI)
			if request.ObjectRef.Resource == "hostclaims" && (request.Verb == "list" || request.Verb == "watch") {
				lists++
				Expect(request.RequestURI).To(ContainSubstring("spec.kind%3Dremote"))
			}
		}
		Expect(lists).To(BeNumerically(">", 1))

		requests, err = there.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		seen := map[string]bool{}
		for _, request := range requests {
			user, ok := strings.CutPrefix(request.User.Username, "system:serviceaccount:user-")
			if !ok {
				continue
			}
			Expect(request.ObjectRef).NotTo(BeNil(), request.RequestURI)
			Expect(request.ObjectRef.Namespace).To(Equal("user-"+strings.TrimSuffix(user, ":archelon")), request.RequestURI)
			Expect(request.ObjectRef.Subresource).To(BeEmpty())
			Expect(request.ObjectRef.Name).NotTo(Equal("foreign"))
			if request.Verb == "list" || request.Verb == "watch" {
				Expect(request.RequestURI).To(ContainSubstring("labelSelector=hostclaims.metal3.io%2Forigin"))
			}
			seen[request.Verb+" "+request.ObjectRef.Resource] = true
		}
		delete(seen, "list hostclaims") // Servers that stream what there is are not asked for lists.
		Expect(slices.Sorted(maps.Keys(seen))).To(Equal([]string{
			"create hostclaims", "create secrets", "delete hostclaims", "delete secrets", "get hostclaims", "get secrets",
			"list secrets", "patch hostclaims", "patch secrets", "watch hostclaims", "watch secrets",
		}), "all that the Role has is needed")
	})
})
