package hostclaim_test

import (
	"context"
	"fmt"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/standin/capm3"
)

// backup has copies of objects.
type backup []*unstructured.Unstructured

// backUp copies the objects of a kind in a namespace.
func (w *world) backUp(ctx context.Context, kind schema.GroupVersionKind, namespace string) backup {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	Expect(w.admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	Expect(list.Items).NotTo(BeEmpty())
	var copies backup
	for i := range list.Items {
		copies = append(copies, &list.Items[i])
	}
	return copies
}

// destroy deletes what was copied, with all that holds it. No controller may run.
func (w *world) destroy(ctx context.Context, b backup) {
	GinkgoHelper()
	for _, each := range b {
		Expect(client.IgnoreNotFound(w.admin.Delete(ctx, each.DeepCopy()))).To(Succeed(), "Kubernetes may be the first")
		Expect(client.IgnoreNotFound(w.admin.Patch(ctx, each.DeepCopy(), client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		)))).To(Succeed())
	}
}

// restore creates what was copied as Velero does: without what the API server sets, without owners, and with a status
// if that is asked for.
func (w *world) restore(ctx context.Context, b backup, status bool) {
	GinkgoHelper()
	for _, each := range b {
		object := each.DeepCopy()
		for _, field := range []string{
			"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "selfLink",
		} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		is, has := object.Object["status"]
		Expect(w.admin.Create(ctx, object)).To(Succeed())
		if status && has {
			Eventually(func() error {
				Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(each), object)).To(Succeed())
				object.Object["status"] = is
				return w.admin.Status().Update(ctx, object)
			}).Should(Succeed())
		}
	}
}

func kindOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: kind}
}

var _ = Describe("Claims and hosts that are restored with other UIDs", Ordered, ContinueOnFailure, func() {
	const adopt, release, problem = "hostclaims.metal3.io/adopt", "hostclaims.metal3.io/release", "hostclaims.metal3.io/problem"
	var w *world
	annotate := func(ctx context.Context, namespace, key, value string) {
		GinkgoHelper()
		w.changeHost(ctx, namespace, "h", func(h *bmov1.BareMetalHost) { h.Annotations[key] = value })
	}
	told := func(ctx context.Context, namespace string) func() string {
		return func() string { return w.getHost(ctx, namespace, "h").Annotations[problem] }
	}
	noted := func(ctx context.Context, namespace, kind string) func() []string {
		return func() []string {
			list := &eventsv1.EventList{}
			Expect(w.admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			var reasons []string
			for _, event := range list.Items {
				if event.Regarding.Kind == kind && event.Type == corev1.EventTypeWarning {
					reasons = append(reasons, event.Reason)
				}
			}
			return reasons
		}
	}
	// running creates a host that runs what a claim asks for, and a free one beside it, and returns the UID of the claim.
	running := func(ctx context.Context, infra, team string) types.UID {
		GinkgoHelper()
		w.namespace(ctx, infra)
		w.namespace(ctx, team)
		w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "data"}, StringData: map[string]string{"value": "x"}})
		w.host(ctx, infra, "h", nil)
		w.claim(ctx, team, "c", "online: true\nuserData: {name: data}\n"+image+only(infra))
		Eventually(func() any { return w.getHost(ctx, infra, "h").Spec.Image }).ShouldNot(BeNil())
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning.State, h.Status.Provisioning.Image = bmov1.StateProvisioned, *h.Spec.Image
		})
		Eventually(func() bool { return w.getClaim(ctx, team, "c").Status.Ready }).Should(BeTrue())
		w.host(ctx, infra, "spare", nil)
		return w.getClaim(ctx, team, "c").UID
	}

	BeforeAll(func(ctx SpecContext) { w = newWorld(ctx, "hostclaim-restore") })

	for _, status := range []bool{true, false} {
		It(fmt.Sprintf("keep what runs, with status: %v", status), func(ctx SpecContext) {
			infra, team := fmt.Sprint("infra-", status), fmt.Sprint("team-", status)
			stop := w.start(ctx)
			was := running(ctx, infra, team)
			before := w.getHost(ctx, infra, "h")
			stop()
			hosts, claims := w.backUp(ctx, kindOf("BareMetalHost"), infra), w.backUp(ctx, kindOf("HostClaim"), team)
			w.destroy(ctx, append(hosts, claims...))

			By("restoring the hosts first")
			stop = w.start(ctx)
			defer func() { stop() }()
			w.restore(ctx, hosts, status)
			Eventually(told(ctx, infra)).Should(ContainSubstring("belongs to an earlier HostClaim " + team + "/c with UID " + string(was)))
			Eventually(noted(ctx, infra, "BareMetalHost")).Should(ContainElement("AdoptionRequired"))
			Expect(w.getHost(ctx, infra, "h").Spec).To(Equal(before.Spec))

			By("restoring the claims")
			w.restore(ctx, claims, status)
			is := w.getClaim(ctx, team, "c").UID
			Expect(is).NotTo(Equal(was))
			Eventually(w.associated(ctx, team, "c")).Should(And(
				HavePrefix("False AdoptionRequired: BareMetalHost "+infra+"/h belongs to an earlier HostClaim"),
				ContainSubstring(adopt+"="+string(was)), ContainSubstring(release+"="+string(was)),
			))
			Eventually(noted(ctx, team, "HostClaim")).Should(ContainElement("AdoptionRequired"))

			By("having the tenant try to adopt it, and an administrator with a wrong UID")
			claim := w.getClaim(ctx, team, "c")
			forged := claim.DeepCopy()
			forged.Annotations = map[string]string{adopt: string(was)}
			Expect(w.admin.Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
			annotate(ctx, infra, adopt, string(is))
			Eventually(w.associated(ctx, team, "c")).Should(ContainSubstring("is not that UID"))
			annotate(ctx, infra, release, string(is))
			Consistently(func() any { return w.getHost(ctx, infra, "h").Spec }).Should(Equal(before.Spec))
			Expect(w.consumer(ctx, infra, "spare")()).To(BeEmpty(), "it is not to get a second host")

			By("adopting it after another start")
			stop()
			stop = w.start(ctx)
			annotate(ctx, infra, adopt, string(was))
			Eventually(w.associated(ctx, team, "c")).Should(Equal(bound))
			host := w.getHost(ctx, infra, "h")
			Expect(host.Spec.ConsumerRef.UID).To(Equal(is))
			for _, key := range []string{adopt, release, problem} {
				Expect(host.Annotations).NotTo(HaveKey(key))
			}
			host.Spec.ConsumerRef.UID = was
			Expect(host.Spec).To(Equal(before.Spec))
			Eventually(func() string {
				copied := &corev1.Secret{}
				Expect(w.admin.Get(ctx, types.NamespacedName{Namespace: infra, Name: "h-hc-userdata"}, copied)).To(Succeed())
				return copied.Labels["hostclaims.metal3.io/claim-uid"]
			}).Should(BeEquivalentTo(is))
			if status {
				Eventually(func() bool { return w.getClaim(ctx, team, "c").Status.Ready }).Should(BeTrue())
			}
			Expect(w.consumer(ctx, infra, "spare")()).To(BeEmpty())
		})
	}

	It("can be deleted, and leave the host to the administrator, who has it cleaned", func(ctx SpecContext) {
		const infra, team = "infra-gone", "team-gone"
		stop := w.start(ctx)
		was := running(ctx, infra, team)
		stop()
		claims := w.backUp(ctx, kindOf("HostClaim"), team)
		w.destroy(ctx, claims)
		w.restore(ctx, claims, true)
		stop = w.start(ctx)
		defer stop()
		Eventually(w.associated(ctx, team, "c")).Should(HavePrefix("False AdoptionRequired"))
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "c"))).To(Succeed())
		Eventually(w.associated(ctx, team, "c")).Should(ContainSubstring("not found"))
		Consistently(func() any { return w.getHost(ctx, infra, "h").Spec.Image }).ShouldNot(BeNil())

		annotate(ctx, infra, release, string(was))
		Eventually(func() any { return w.getHost(ctx, infra, "h").Spec.Image }).Should(BeNil())
		Consistently(w.consumer(ctx, infra, "h")).Should(Equal(team+"/c"), "it is not clean yet")
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning = bmov1.ProvisionStatus{State: bmov1.StateAvailable}
		})
		Eventually(w.consumer(ctx, infra, "h")).Should(BeEmpty())
		for _, key := range []string{adopt, release, problem, "hostclaims.metal3.io/saved"} {
			Expect(w.getHost(ctx, infra, "h").Annotations).NotTo(HaveKey(key))
		}
	})

	It("are cleaned as ever if the deletion of the claim had begun", func(ctx SpecContext) {
		const infra, team = "infra-late", "team-late"
		stop := w.start(ctx)
		running(ctx, infra, team)
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "c"))).To(Succeed())
		Eventually(func() any { return w.getHost(ctx, infra, "h").Spec.Image }).Should(BeNil())
		stop()
		hosts, claims := w.backUp(ctx, kindOf("BareMetalHost"), infra), w.backUp(ctx, kindOf("HostClaim"), team)
		w.destroy(ctx, append(hosts, claims...))
		w.restore(ctx, hosts, true)
		stop = w.start(ctx)
		defer stop()
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning = bmov1.ProvisionStatus{State: bmov1.StateAvailable}
		})
		Eventually(w.consumer(ctx, infra, "h")).Should(BeEmpty())
	})
})

var _ = Describe("Metal3Machines that are restored with other UIDs", Ordered, func() {
	const infra, team = "infra", machineNamespace
	It("keep their hosts, and go on with them once an administrator says so", func(ctx SpecContext) {
		w := newMachineWorld(ctx, "machines-restore")
		w.namespace(ctx, infra)
		w.namespace(ctx, team)
		metal3 := w.operate()
		w.create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "data"}, StringData: map[string]string{"value": "x"}})
		provider := capm3.Provider{
			Client: w.admin, Image: &bmov1.Image{URL: "https://image", Checksum: "https://image.md5"},
			Data: &corev1.SecretReference{Name: "data", Namespace: team},
		}
		step := func() string { return provider.Step(ctx, team, "m") }
		w.host(ctx, infra, "h", nil)
		w.host(ctx, infra, "spare", func(h *bmov1.BareMetalHost) { h.Labels["infra-kind"] = "large" })
		ends := []func(){w.start(ctx), w.startMachines(ctx, &faults{})}
		w.machine(ctx, "m", "hostclaims.metal3.io/kind: baremetal", "hostSelector: {matchLabels: {infra-kind: medium}}\n"+image)
		Eventually(step).Should(Equal("provisioned"))
		was := w.getHost(ctx, infra, "h").Spec.ConsumerRef.UID
		for _, end := range ends {
			end()
		}
		machine := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "Metal3Machine"}
		proxies, claims := w.backUp(ctx, kindOf("BareMetalHost"), team), w.backUp(ctx, kindOf("HostClaim"), team)
		machines := w.backUp(ctx, machine, team)
		w.destroy(ctx, append(append(machines, claims...), proxies...))
		w.changeHost(ctx, infra, "spare", func(h *bmov1.BareMetalHost) { h.Labels["infra-kind"] = "medium" })

		By("restoring them in the order of their names")
		w.start(ctx)
		w.startMachines(ctx, &faults{})
		w.restore(ctx, proxies, true)
		w.restore(ctx, claims, true)
		Eventually(w.associated(ctx, team, "m")).Should(HavePrefix("False AdoptionRequired"))
		w.restore(ctx, machines, true)
		Eventually(func() []string {
			list := &eventsv1.EventList{}
			Expect(w.admin.List(ctx, list, client.InNamespace(team))).To(Succeed())
			var notes []string
			for _, event := range list.Items {
				notes = append(notes, event.Regarding.Kind+": "+event.Note)
			}
			return notes
		}).Should(ContainElement(HavePrefix("Metal3Machine: The HostClaim of this name has no owner")))
		Consistently(func() string {
			return w.consumer(ctx, infra, "h")() + "," + w.consumer(ctx, infra, "spare")() + "," + string(w.getHost(ctx, team, "m").Status.Provisioning.State)
		}).Should(Equal(team + "/m,,provisioned"))

		By("adopting the host, and then the claim")
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Annotations["hostclaims.metal3.io/adopt"] = string(was) })
		Eventually(w.associated(ctx, team, "m")).Should(Equal(bound))
		restored := capm3.NewMachine(team, "m")
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(restored), restored)).To(Succeed())
		claim := w.getClaim(ctx, team, "m")
		owned := claim.DeepCopy()
		owned.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: machine.GroupVersion().String(), Kind: machine.Kind, Name: "m", UID: restored.GetUID(),
		}}
		Expect(w.admin.Patch(ctx, owned, client.MergeFrom(claim))).To(Succeed())
		Eventually(step).Should(Equal("provisioned"))
		Expect(metal3.Provisioned(infra, "h")).To(HaveLen(1), "it was never provisioned again")
		Expect(w.consumer(ctx, infra, "spare")()).To(BeEmpty())

		Expect(w.admin.Delete(ctx, capm3.NewMachine(team, "m"))).To(Succeed())
		Eventually(step).Should(Equal("NotFound"))
		Eventually(w.consumer(ctx, infra, "h")).Should(BeEmpty())
	})
})

var _ = Describe("A claim of kind remote that has another UID than before", Ordered, func() {
	It("goes on with its target, or says how", func(ctx SpecContext) {
		here, there := newWorldOf(ctx, "restore-here", "hostclaim-remote"), newWorld(ctx, "restore-there")
		there.namespace(ctx, "infra")
		metal3 := there.operate()
		there.start(ctx)
		for _, name := range []string{"h", "spare"} {
			there.host(ctx, "infra", name, nil)
		}
		t := newTenant(ctx, here, there, "again")
		stop := here.startRemote(ctx)
		const spec = "online: true\nhostSelector: {matchLabels: {infra-kind: medium}}\n" + image
		t.claim(ctx, "c", spec)
		Eventually(func() bool { return here.getClaim(ctx, t.namespace, "c").Status.Ready }).Should(BeTrue())
		was, target := here.getClaim(ctx, t.namespace, "c").UID, t.target(ctx, "c").UID
		stop()

		By("restoring it")
		claims := here.backUp(ctx, kindOf("HostClaim"), t.namespace)
		here.destroy(ctx, claims)
		here.restore(ctx, claims, false)
		stop = here.startRemote(ctx)
		defer func() { stop() }()
		Eventually(func() bool { return here.getClaim(ctx, t.namespace, "c").Status.Ready }).Should(BeTrue())
		Expect(t.target(ctx, "c").UID).To(Equal(target))

		By("creating it again")
		stop()
		here.destroy(ctx, claims)
		t.claim(ctx, "c", spec)
		stop = here.startRemote(ctx)
		Eventually(t.synced(ctx, "c")).Should(And(
			HavePrefix("False RemoteConflict: A HostClaim in the remote cluster belongs to an earlier HostClaim of this name"),
			ContainSubstring("hostclaims.metal3.io/origin-uid of this HostClaim to "+string(was)),
		))
		Consistently(func() int { return len(t.targets(ctx, "c")) }).Should(Equal(1), "it is not to get a second host")
		t.change(ctx, "c", func(c *metal3v1.HostClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "hostclaims.metal3.io/origin-uid", string(was))
		})
		Eventually(func() bool { return here.getClaim(ctx, t.namespace, "c").Status.Ready }).Should(BeTrue())
		Expect(t.target(ctx, "c").UID).To(Equal(target))
		Expect(append(metal3.Provisioned("infra", "h"), metal3.Provisioned("infra", "spare")...)).To(HaveLen(1))
	})
})
