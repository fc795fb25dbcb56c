package hostclaim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// image is a part of a spec as the proposal has it.
const image = "image: {url: 'https://url_image.qcow2', checksum: 'https://url_image.qcow2.md5', format: qcow2}\n"

var _ = Describe("What claims of kind baremetal run", Ordered, ContinueOnFailure, func() {
	var w *world
	var stop func()
	var metal3 *standin.Standin
	pools := 0

	// newHost returns the namespace of a new host h.
	newHost := func(ctx context.Context, change func(*bmov1.BareMetalHost)) string {
		GinkgoHelper()
		pools++
		infra := fmt.Sprintf("infra-%d", pools)
		w.namespace(ctx, infra)
		w.host(ctx, infra, "h", change)
		return infra
	}
	secret := func(ctx context.Context, namespace, name, value string) {
		GinkgoHelper()
		object := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data:       map[string][]byte{"value": []byte(value), "format": []byte("cloud-config")},
		}
		if err := w.admin.Create(ctx, object); apierrors.IsAlreadyExists(err) {
			Expect(w.admin.Update(ctx, object)).To(Succeed())
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
	}
	copied := func(ctx context.Context, infra, role string) func() string {
		return func() string {
			object := &corev1.Secret{}
			err := w.admin.Get(ctx, types.NamespacedName{Namespace: infra, Name: "h-hc-" + role}, object)
			if err != nil {
				return string(apierrors.ReasonForError(err))
			}
			return string(object.Data["value"])
		}
	}
	change := func(ctx context.Context, namespace, name string, change func(*metal3v1.HostClaim)) {
		GinkgoHelper()
		before := w.getClaim(ctx, namespace, name)
		after := before.DeepCopy()
		change(after)
		Expect(w.admin.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	}
	condition := func(ctx context.Context, namespace, name, kind string) func() string {
		return func() string {
			claim := &metal3v1.HostClaim{}
			if err := w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, claim); err != nil {
				return err.Error()
			}
			found := meta.FindStatusCondition(claim.Status.Conditions, kind)
			if found == nil {
				return "none"
			}
			return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", found.Status, found.Reason, found.Message), ": ")
		}
	}
	ready := func(ctx context.Context, namespace, name string) func() bool {
		return func() bool { return w.getClaim(ctx, namespace, name).Status.Ready }
	}
	gone := func(ctx context.Context, namespace, name string) func() bool {
		return func() bool {
			return apierrors.IsNotFound(w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &metal3v1.HostClaim{}))
		}
	}
	remove := func(ctx context.Context, namespace, name string) {
		GinkgoHelper()
		Expect(w.admin.Delete(ctx, unstructuredClaim(namespace, name))).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "hostclaim-workload")
		w.namespace(ctx, "team-a")
		w.namespace(ctx, "team-b")
		metal3 = w.operate()
		stop = w.start(ctx)
		secret(ctx, "team-a", "my-user-data", "#cloud-config of a")
		secret(ctx, "team-a", "my-network-data", "links of a")
	})

	It("is the image with its data, until the claim is deleted (cases 2, 3, 5)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		w.claim(ctx, "team-a", "work", "online: false\n"+only(infra))
		Eventually(w.associated(ctx, "team-a", "work")).Should(Equal(bound))
		Expect(condition(ctx, "team-a", "work", "Ready")()).To(Equal("True Ready"), "it asks for no image")

		By("asking for an image")
		change(ctx, "team-a", "work", func(c *metal3v1.HostClaim) {
			c.Spec.Online = new(true)
			c.Spec.Image = &metal3v1.Image{URL: "https://url_image.qcow2", Checksum: "https://url_image.qcow2.md5", Format: "qcow2"}
			c.Spec.UserData = &corev1.SecretReference{Name: "my-user-data"}
			c.Spec.NetworkData = &corev1.SecretReference{Name: "my-network-data"}
		})
		Eventually(ready(ctx, "team-a", "work")).Should(BeTrue())
		Expect(metal3.Provisioned(infra, "h")).To(Equal([]standin.Provisioned{{
			Image: "https://url_image.qcow2", UserData: []byte("#cloud-config of a"), NetworkData: []byte("links of a"),
		}}))
		Expect(condition(ctx, "team-a", "work", "Ready")()).To(Equal("True Ready"))
		Expect(condition(ctx, "team-a", "work", "Provisioned")()).To(Equal("True Provisioned"))

		By("switching it off")
		change(ctx, "team-a", "work", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
		Eventually(func() bool { return *w.getClaim(ctx, "team-a", "work").Status.PoweredOn }).Should(BeFalse())
		Expect(w.getHost(ctx, infra, "h").Status.Provisioning.State).To(BeEquivalentTo("provisioned"))

		By("deleting it")
		remove(ctx, "team-a", "work")
		Eventually(gone(ctx, "team-a", "work")).Should(BeTrue())
		h := w.getHost(ctx, infra, "h")
		Expect(h.Spec.ConsumerRef).To(BeNil())
		Expect(h.Spec.Image).To(BeNil())
		Expect(h.Spec.UserData).To(BeNil())
		Expect(h.Status.Provisioning.State).To(BeEquivalentTo("available"))
		Expect(copied(ctx, infra, "userdata")()).To(Equal("NotFound"))
		Expect(copied(ctx, infra, "networkdata")()).To(Equal("NotFound"))
		Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: "team-a", Name: "my-user-data"}, &corev1.Secret{})).To(Succeed())
	})

	It("is rebooted once for an annotation, and held off by another one (case 4)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		w.claim(ctx, "team-a", "reboots", "online: true\n"+image+only(infra))
		Eventually(ready(ctx, "team-a", "reboots")).Should(BeTrue())
		for i, key := range []string{"reboot.metal3.io", "host.metal3.io/reboot"} {
			change(ctx, "team-a", "reboots", func(c *metal3v1.HostClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, `{"mode":"hard"}`)
			})
			Eventually(func() int { return metal3.Reboots(infra, "h") }).Should(Equal(i + 1))
			Eventually(func() string {
				return fmt.Sprint(w.getClaim(ctx, "team-a", "reboots").Annotations, w.getHost(ctx, infra, "h").Annotations)
			}).ShouldNot(ContainSubstring("reboot"))
			Consistently(func() int { return metal3.Reboots(infra, "h") }, "300ms").Should(Equal(i + 1))
		}
		change(ctx, "team-a", "reboots", func(c *metal3v1.HostClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "reboot.metal3.io/hold", "")
		})
		powered := func() bool { return *w.getClaim(ctx, "team-a", "reboots").Status.PoweredOn }
		Eventually(powered).Should(BeFalse())
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Annotations["reboot.metal3.io/admin"] = "" })
		change(ctx, "team-a", "reboots", func(c *metal3v1.HostClaim) { delete(c.Annotations, "reboot.metal3.io/hold") })
		Eventually(func() any { return w.getHost(ctx, infra, "h").Annotations }).ShouldNot(HaveKey("reboot.metal3.io/hold"))
		Consistently(func() any { return w.getHost(ctx, infra, "h").Annotations }, "300ms").Should(HaveKey("reboot.metal3.io/admin"))
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { delete(h.Annotations, "reboot.metal3.io/admin") })
		Eventually(powered).Should(BeTrue())
	})

	It("leaves nothing to the next tenant (attack M, case 6)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		secret(ctx, "team-a", "hostile", "leftover")
		w.claim(ctx, "team-a", "hostile", "online: true\nnetworkData: {name: hostile}\nuserData: {name: hostile}\n"+image+only(infra))
		Eventually(ready(ctx, "team-a", "hostile")).Should(BeTrue())
		change(ctx, "team-a", "hostile", func(c *metal3v1.HostClaim) {
			c.Annotations = map[string]string{"reboot.metal3.io/hold": "", "host.metal3.io/reboot-x": ""}
		})
		Eventually(func() any { return w.getHost(ctx, infra, "h").Annotations }).Should(
			And(HaveKey("reboot.metal3.io/hold"), HaveKey("reboot.metal3.io/x")),
		)
		secret(ctx, "team-b", "clean", "of b")
		w.claim(ctx, "team-b", "next", "online: true\nuserData: {name: clean}\n"+image+only(infra))
		remove(ctx, "team-a", "hostile")
		Eventually(ready(ctx, "team-b", "next")).Should(BeTrue())
		Expect(metal3.Provisioned(infra, "h")).To(HaveLen(2))
		Expect(metal3.Provisioned(infra, "h")[1]).To(Equal(standin.Provisioned{
			Image: "https://url_image.qcow2", UserData: []byte("of b"),
		}))
		Expect(fmt.Sprint(w.getHost(ctx, infra, "h").Annotations)).NotTo(ContainSubstring("reboot"))
	})

	It("follows the claim: another image, another state of a Secret, no image any more", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		secret(ctx, "team-a", "rotated", "first")
		w.claim(ctx, "team-a", "follows", "online: true\nuserData: {name: rotated}\n"+image+only(infra))
		Eventually(ready(ctx, "team-a", "follows")).Should(BeTrue())
		secret(ctx, "team-a", "rotated", "second")
		Eventually(copied(ctx, infra, "userdata")).Should(Equal("second"))
		Expect(metal3.Provisioned(infra, "h")).To(HaveLen(1), "a Secret alone provisions nothing")
		change(ctx, "team-a", "follows", func(c *metal3v1.HostClaim) { c.Spec.Image.URL = "https://other" })
		Eventually(func() int { return len(metal3.Provisioned(infra, "h")) }).Should(Equal(2))
		Expect(metal3.Provisioned(infra, "h")[1]).To(Equal(standin.Provisioned{Image: "https://other", UserData: []byte("second")}))
		Eventually(ready(ctx, "team-a", "follows")).Should(BeTrue())
		Expect(w.admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: infra, Name: "h-hc-userdata"}})).To(Succeed())
		Eventually(copied(ctx, infra, "userdata")).Should(Equal("second"), "somebody has deleted the copy")
		change(ctx, "team-a", "follows", func(c *metal3v1.HostClaim) { c.Spec.Image, c.Spec.UserData = nil, nil })
		Eventually(copied(ctx, infra, "userdata")).Should(Equal("NotFound"))
		Eventually(func() any { return w.getHost(ctx, infra, "h").Status.Provisioning.State }).Should(BeEquivalentTo("available"))
		Eventually(ready(ctx, "team-a", "follows")).Should(BeFalse())
	})

	It("is a procedure of the site (case 17)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		w.claim(ctx, "team-a", "custom", "online: true\ncustomDeploy: {method: install_coreos}\n"+only(infra))
		Eventually(ready(ctx, "team-a", "custom")).Should(BeTrue())
		Expect(metal3.Provisioned(infra, "h")).To(Equal([]standin.Provisioned{{Image: "install_coreos"}}))
		Expect(w.getHost(ctx, infra, "h").Spec.Image).To(BeNil())
	})

	It("finds Secrets in its own namespace without copies (case 18)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		secret(ctx, infra, "direct", "direct")
		w.claim(ctx, infra, "same", "online: true\nuserData: {name: direct}\n"+image+only(infra))
		Eventually(ready(ctx, infra, "same")).Should(BeTrue())
		Expect(w.getHost(ctx, infra, "h").Spec.UserData).To(HaveValue(Equal(corev1.SecretReference{Namespace: infra, Name: "direct"})))
		Expect(copied(ctx, infra, "userdata")()).To(Equal("NotFound"))
	})

	It("waits for its Secrets, and takes none of others (attacks J, K, N, U)", func(ctx SpecContext) {
		infra := newHost(ctx, nil)
		secret(ctx, infra, "infra-registry", "of the infrastructure")
		secret(ctx, infra, "h-hc-userdata", "of somebody else")
		w.claim(ctx, "team-a", "thief", "online: true\nuserData: {name: admin, namespace: kube-system}\n"+image+only(infra))
		Eventually(condition(ctx, "team-a", "thief", "Synchronized")).Should(
			Equal("False UserDataSecretSyncFailure: Field userdata: Secret admin is in another namespace. Use a Secret in the namespace of this HostClaim"),
		)
		change(ctx, "team-a", "thief", func(c *metal3v1.HostClaim) {
			c.Spec.UserData = &corev1.SecretReference{Name: "my-user-data"}
		})
		Eventually(condition(ctx, "team-a", "thief", "Synchronized")).Should(
			Equal("False UserDataSecretSyncFailure: Field userdata: the namespace of the host has another Secret with the name of the copy. Ask your administrator to delete it"),
		)
		change(ctx, "team-a", "thief", func(c *metal3v1.HostClaim) {
			c.Spec.UserData = nil
			c.Spec.Image = &metal3v1.Image{URL: "oci://attacker/image", OCIAuthSecretName: "infra-registry"}
		})
		Eventually(condition(ctx, "team-a", "thief", "Synchronized")).Should(
			Equal("False ImageSecretSyncFailure: Field imageauth: Secret infra-registry does not exist. Create it, or correct the field"),
		)
		Expect(w.getHost(ctx, infra, "h").Spec.Image).To(BeNil())
		Expect(copied(ctx, infra, "userdata")()).To(Equal("of somebody else"))
		secret(ctx, "team-a", "infra-registry", "of a")
		Eventually(ready(ctx, "team-a", "thief")).Should(BeTrue(), "the Secret came")
		Expect(w.getHost(ctx, infra, "h").Spec.Image.OCIAuthSecretName).To(HaveValue(Equal("h-hc-imageauth")))
		Expect(copied(ctx, infra, "imageauth")()).To(Equal("of a"))
		By("naming the copy that another claim has in the namespace of both hosts")
		w.host(ctx, infra, "h2", nil)
		w.claim(ctx, "team-b", "neighbour", "online: true\nuserData: {name: h-hc-imageauth}\n"+image+only(infra))
		Eventually(condition(ctx, "team-b", "neighbour", "Synchronized")).Should(
			Equal("False UserDataSecretSyncFailure: Field userdata: Secret h-hc-imageauth does not exist. Create it, or correct the field"),
		)
		Expect(w.consumer(ctx, infra, "h2")()).To(Equal("team-b/neighbour"))
		Expect(w.getHost(ctx, infra, "h2").Spec.UserData).To(BeNil())
		remove(ctx, "team-b", "neighbour")
		remove(ctx, "team-a", "thief")
		Eventually(gone(ctx, "team-a", "thief")).Should(BeTrue())
		Expect(copied(ctx, infra, "userdata")()).To(Equal("of somebody else"))
		Expect(copied(ctx, infra, "imageauth")()).To(Equal("NotFound"))
	})

	It("is told what its host tells, and tells it nothing but reboots (attacks L, O)", func(ctx SpecContext) {
		infra := newHost(ctx, func(h *bmov1.BareMetalHost) {
			h.Labels["info.hostclaims.metal3.io/rack"] = "r1"
			h.Annotations["info.hostclaims.metal3.io/zone"] = "the left one"
			h.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"spec":{"bmc":{"address":"redfish://bmc.example/h"}}}`
			h.Annotations["inspect.metal3.io/hardwaredetails"] = `{"bmc":"bmc.example"}`
		})
		data := &bmov1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: infra, Name: "h"}}
		Expect(client.IgnoreAlreadyExists(w.admin.Create(ctx, data))).To(Succeed(), "the operator may have inspected it already")
		claim := unstructuredClaim("team-a", "told")
		spec := map[string]any{}
		Expect(yaml.Unmarshal([]byte("online: true\n"+image+only(infra)), &spec)).To(Succeed())
		claim.Object["spec"] = spec
		hostile := map[string]string{
			"baremetalhost.metal3.io/paused": "", "baremetalhost.metal3.io/detached": "", "baremetalhost.metal3.io/status": "{}",
			"inspect.metal3.io": "", "info.hostclaims.metal3.io/made-up": "x",
		}
		claim.SetAnnotations(hostile)
		w.create(ctx, claim)
		Eventually(ready(ctx, "team-a", "told")).Should(BeTrue())
		found := w.getClaim(ctx, "team-a", "told")
		Expect(found.Labels).To(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "r1"))
		Expect(found.Annotations).To(HaveKeyWithValue("info.hostclaims.metal3.io/zone", "the left one"))
		Expect(found.Annotations).NotTo(HaveKey("info.hostclaims.metal3.io/made-up"))
		Expect(found.Status.HardwareData).To(HaveValue(Equal(metal3v1.ObjectReference{Namespace: infra, Name: "h"})))
		h := w.getHost(ctx, infra, "h")
		for key := range hostile {
			Expect(h.Annotations).NotTo(HaveKey(key))
		}
		raw, err := json.Marshal(found)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(Or(ContainSubstring("bmc.example"), ContainSubstring(h.Spec.BMC.CredentialsName), ContainSubstring("redfish")))
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { delete(h.Labels, "info.hostclaims.metal3.io/rack") })
		Eventually(func() any { return w.getClaim(ctx, "team-a", "told").Labels }).ShouldNot(HaveKey("info.hostclaims.metal3.io/rack"))
	})

	It("gets labels and annotations of its host that a policy selects, until it says so no more", func(ctx SpecContext) {
		infra := newHost(ctx, func(h *bmov1.BareMetalHost) {
			h.Labels["example.com/rack"], h.Annotations["example.com/room"] = "r1", "the blue one"
			h.Annotations["argocd.argoproj.io/tracking-id"], h.Annotations["example.com/big"] = "x", strings.Repeat("x", 2000)
		})
		policy := &metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: infra, Name: "p"}}
		copies := func(spec string) {
			GinkgoHelper()
			policy.Spec = metal3v1.HostDeployPolicySpec{}
			Expect(yaml.UnmarshalStrict([]byte(spec), &policy.Spec)).To(Succeed())
			Expect(w.admin.Update(ctx, policy)).To(Succeed())
		}
		const all, whatever = "hostClaimNamespaces: {nameMatches: '.*'}\n", "metadataCopy: {labelsMatch: '.*', annotationsMatch: '.*'}\n"
		w.create(ctx, policy)
		copies(all + whatever)
		claim := unstructuredClaim("team-a", "labelled")
		spec := map[string]any{}
		Expect(yaml.Unmarshal([]byte(only(infra)), &spec)).To(Succeed())
		claim.Object["spec"] = spec
		mine := map[string]string{"a.example/mine": "x", "z.example/mine": "x"}
		claim.SetLabels(mine)
		claim.SetAnnotations(mine)
		w.create(ctx, claim)
		// has returns a function for Eventually: the rack and the room of a claim that still has what is its own.
		has := func() string {
			found := w.getClaim(ctx, "team-a", "labelled")
			for key := range mine {
				Expect(found.Labels).To(HaveKey(key))
				Expect(found.Annotations).To(HaveKey(key))
			}
			Expect(found.Annotations).NotTo(Or(HaveKey("argocd.argoproj.io/tracking-id"), HaveKey("example.com/big")))
			return found.Labels["example.com/rack"] + " " + found.Annotations["example.com/room"]
		}
		Eventually(has).Should(Equal("r1 the blue one"))
		Eventually(w.associated(ctx, "team-a", "labelled")).Should(HavePrefix("True"))

		By("leaving alone what somebody else writes there, and writing nothing more")
		change(ctx, "team-a", "labelled", func(c *metal3v1.HostClaim) { c.Labels["example.com/rack"] = "mine" })
		Eventually(func(g Gomega) {
			before := w.getClaim(ctx, "team-a", "labelled").ResourceVersion
			g.Consistently(func() string { return w.getClaim(ctx, "team-a", "labelled").ResourceVersion }).Should(Equal(before))
		}).Should(Succeed())
		Expect(has()).To(Equal("mine the blue one"))

		By("following the host, and the policy")
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Labels["example.com/rack"] = "r2" })
		Eventually(has).Should(Equal("r2 the blue one"))
		copies(all + "metadataCopy: {labelsMatch: 'example.com/.*'}")
		Eventually(has).Should(Equal("r2 "))
		copies("hostClaimNamespaces: {names: [team-b]}\n" + whatever)
		Eventually(has).Should(Equal(" "), "of a policy that does not allow its namespace")
		copies(all + whatever)
		Eventually(has).Should(Equal("r2 the blue one"))

		By("losing its host")
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef.Kind = "Metal3Machine" })
		Eventually(has).Should(Equal(" "))
		Expect(w.getClaim(ctx, "team-a", "labelled").Annotations).NotTo(HaveKey("hostclaims.metal3.io/copied"))
	})

	It("is all that a tenant can see and do, with the role that is shipped", func(ctx SpecContext) {
		raw, err := os.ReadFile(filepath.Join(root, "examples", "hostclaim-tenant-role.yaml"))
		Expect(err).NotTo(HaveOccurred())
		role := &rbacv1.Role{}
		Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
		w.create(ctx, role, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tenant"}}, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "tenant"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "team-a", Name: "tenant"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		})
		infra := newHost(ctx, nil)
		secret(ctx, infra, "h-bmc", "the password of the BMC")
		who, err := w.plane.ServiceAccountConfig(ctx, "team-a", "tenant")
		Expect(err).NotTo(HaveOccurred())
		tenant, err := client.New(who, client.Options{Scheme: w.scheme})
		Expect(err).NotTo(HaveOccurred())

		By("doing what the stories say")
		claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "mine"}}
		Expect(yaml.Unmarshal([]byte("online: true\nuserData: {name: mine}\n"+image+only(infra)), &claim.Spec)).To(Succeed())
		Expect(tenant.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "mine"}, Data: map[string][]byte{"value": []byte("mine")},
		})).To(Succeed())
		Expect(tenant.Create(ctx, claim)).To(Succeed())
		Eventually(func() bool {
			return tenant.Get(ctx, client.ObjectKeyFromObject(claim), claim) == nil && claim.Status.Ready
		}).Should(BeTrue())

		By("trying more than that")
		for _, list := range []client.ObjectList{
			&bmov1.BareMetalHostList{}, &corev1.SecretList{}, &metal3v1.HostClaimList{}, &metal3v1.HostDeployPolicyList{},
		} {
			for _, namespace := range []string{"", infra, "team-b"} {
				Expect(apierrors.IsForbidden(tenant.List(ctx, list, client.InNamespace(namespace)))).To(BeTrue(), "%T in %s", list, namespace)
			}
		}
		for _, name := range []string{"h-bmc", "h-hc-userdata"} {
			err := tenant.Get(ctx, types.NamespacedName{Namespace: infra, Name: name}, &corev1.Secret{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), name)
		}
		forged := claim.DeepCopy()
		forged.Status.Ready = false
		Expect(apierrors.IsForbidden(tenant.Status().Patch(ctx, forged, client.MergeFrom(claim)))).To(BeTrue())
		h := w.getHost(ctx, infra, "h")
		Expect(apierrors.IsForbidden(tenant.Delete(ctx, h))).To(BeTrue())
		own := map[string][]string{"hostclaims.metal3.io": nil, "secrets": nil, "events.events.k8s.io": {"get", "list", "watch"}}
		for _, namespace := range []string{"team-a", "team-b", infra, "kube-system", ""} {
			for _, resource := range []string{
				"hostclaims.metal3.io", "hostclaims.metal3.io/status", "secrets", "events.events.k8s.io", "baremetalhosts.metal3.io",
				"baremetalhosts.metal3.io/status", "hardwaredata.metal3.io", "hostdeploypolicies.metal3.io", "pods", "namespaces",
				"serviceaccounts/token", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
			} {
				for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
					verbs, listed := own[resource]
					want := namespace == "team-a" && listed && (verbs == nil || slices.Contains(verbs, verb))
					Expect(may(ctx, tenant, namespace, resource, verb)).To(Equal(want), "%s %s in %q", verb, resource, namespace)
				}
			}
		}
		Expect(tenant.Delete(ctx, claim)).To(Succeed())
		Eventually(gone(ctx, "team-a", "mine")).Should(BeTrue())
	})

	It("has the links of the infrastructure, if it names none (attack V)", func(ctx SpecContext) {
		infra := newHost(ctx, func(h *bmov1.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "of-infra" })
		w.claim(ctx, "team-a", "linkless", "online: true\n"+image+only(infra))
		Eventually(ready(ctx, "team-a", "linkless")).Should(BeTrue())
		host := w.getHost(ctx, infra, "h")
		Expect(host.Spec.NetworkData).To(BeNil(), "the operator falls back to what its administrator has set")
		Expect(host.Spec.PreprovisioningNetworkDataName).To(Equal("of-infra"))
		raw, err := json.Marshal(w.getClaim(ctx, "team-a", "linkless"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(ContainSubstring("of-infra"))
	})

	It("costs nothing at rest, and nothing that is not allowed was asked for", func(ctx SpecContext) {
		stop()
		before, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		end := w.start(ctx)
		Consistently(func() bool { return true }).Should(BeTrue())
		end()
		after, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		for i, request := range after {
			if request.User.Username != "system:serviceaccount:"+system+":"+account || request.ObjectRef == nil {
				continue
			}
			what := fmt.Sprintf("%s %s", request.Verb, request.RequestURI)
			Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(http.StatusForbidden), what)
			if request.ObjectRef.Resource == "secrets" && request.Verb == "get" {
				Expect(request.ObjectRef.Namespace).NotTo(Equal("kube-system"), what)
			}
			if i >= len(before) {
				Expect(request.Verb).To(BeElementOf("get", "list", "watch"), "at rest: "+what)
			}
		}
		Expect(w.printed.String()).NotTo(Or(ContainSubstring("#cloud-config of a"), ContainSubstring("links of a")))
	})
})

// may asks the API server whether somebody may do something.
func may(ctx context.Context, who client.Client, namespace, resource, verb string) bool {
	GinkgoHelper()
	resource, subresource, _ := strings.Cut(resource, "/")
	name, group, _ := strings.Cut(resource, ".")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: group, Resource: name, Subresource: subresource, Verb: verb,
		},
	}}
	Expect(who.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}
