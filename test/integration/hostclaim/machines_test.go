package hostclaim_test

import (
	"context"
	"net/http"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/standin/capm3"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

var _ = Describe("Metal3Machines with claims", Ordered, ContinueOnFailure, func() {
	const infra, team, kind = "infra", machineNamespace, "hostclaims.metal3.io/kind: baremetal"
	var w *world
	var metal3 *standin.Standin
	var provider capm3.Provider
	its := &faults{}
	var stop func()
	selecting := func(name string) string { return "hostSelector: {matchLabels: {only: " + name + "}}\n" + image }
	host := func(ctx context.Context, name string) {
		GinkgoHelper()
		w.host(ctx, infra, name, func(h *bmov1.BareMetalHost) {
			h.Labels["only"], h.Labels["info.hostclaims.metal3.io/rack"] = name, "r1"
			h.Labels["example.com/site"] = "s1"
		})
	}
	step := func(ctx context.Context, name string) func() string {
		return func() string { return provider.Step(ctx, team, name) }
	}
	remove := func(ctx context.Context, name string) {
		GinkgoHelper()
		Expect(w.admin.Delete(ctx, capm3.NewMachine(team, name))).To(Succeed())
	}
	// left returns a function for Eventually: the claim and the host in the namespace of the Machines that have its name.
	left := func(ctx context.Context, name string) func() string {
		return func() string {
			found := ""
			for what, object := range map[string]client.Object{"claim ": &metal3v1.HostClaim{}, "host ": &bmov1.BareMetalHost{}} {
				err := w.admin.Get(ctx, types.NamespacedName{Namespace: team, Name: name}, object)
				if err == nil {
					found += what
				} else if !apierrors.IsNotFound(err) {
					found += err.Error()
				}
			}
			return found
		}
	}
	told := func(ctx context.Context, name string) func() string {
		return func() string {
			list := &eventsv1.EventList{}
			Expect(w.admin.List(ctx, list, client.InNamespace(team))).To(Succeed())
			notes := ""
			for _, event := range list.Items {
				if event.Regarding.Kind == "Metal3Machine" && event.Regarding.Name == name {
					notes += event.Note + "\n"
				}
			}
			return notes
		}
	}

	BeforeAll(func(ctx SpecContext) {
		w = newMachineWorld(ctx, "hostclaim-machines")
		w.namespace(ctx, infra)
		w.namespace(ctx, team)
		metal3 = w.operate()
		w.start(ctx)
		w.create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "data"}, Data: map[string][]byte{"value": []byte("#cloud-config")},
		}, &metal3v1.HostDeployPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: infra, Name: "sites"},
			Spec: metal3v1.HostDeployPolicySpec{
				HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"},
				MetadataCopy:        &metal3v1.MetadataCopy{LabelsMatch: "example.com/site"},
			},
		})
		provider = capm3.Provider{
			Client: w.admin, Image: &bmov1.Image{URL: "https://url_image.qcow2", Checksum: "https://url_image.qcow2.md5", DiskFormat: new("qcow2")},
			Data: &corev1.SecretReference{Name: "data", Namespace: team},
		}
	})

	// A process that a spec starts ends with it.
	BeforeEach(func(ctx SpecContext) {
		stop = w.startMachines(ctx, its)
		DeferCleanup(func() { stop() })
	})

	It("run on hosts of another namespace, and give them back", func(ctx SpecContext) {
		host(ctx, "whole")
		w.host(ctx, team, "near", func(h *bmov1.BareMetalHost) { h.Labels["only"], h.Annotations = "whole", nil })
		w.machine(ctx, "m", kind, "hostSelector: {matchLabels: {only: whole, hostclaims.metal3.io/machine: 'true'}}\n"+image)
		Eventually(step(ctx, "m")).Should(Equal("associated with m"), "not with a free host beside it")
		Expect(w.consumer(ctx, infra, "whole")()).To(Equal("team-a/m"), "the host belongs to the claim")
		Eventually(step(ctx, "m")).Should(Equal("provisioned"))
		proxy := w.getHost(ctx, team, "m")
		runs := metal3.Provisioned(infra, "whole")
		Expect(runs).To(HaveLen(1))
		var told map[string]string
		Expect(yaml.Unmarshal(runs[0].MetaData, &told)).To(Succeed())
		Expect(told).To(HaveKeyWithValue("uuid", string(proxy.UID)), "the provider finds the node by that")
		Expect(told).To(And(HaveKeyWithValue("metal3-namespace", team), HaveKeyWithValue("metal3-name", "m")))
		runs[0].MetaData = nil
		Expect(runs).To(Equal([]standin.Provisioned{{Image: "https://url_image.qcow2", UserData: []byte("#cloud-config")}}))
		Expect(proxy.Labels).To(And(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "r1"), HaveKeyWithValue("example.com/site", "s1")))
		Expect(proxy.Spec.BMC).To(BeZero())
		Expect(proxy.Spec.BootMACAddress).To(Equal("52:54:00:01:00:05"))
		Expect(proxy.Status.HardwareDetails.NIC).To(ConsistOf(bmov1.NIC{Name: "ens3", MAC: "52:54:00:01:00:05", IP: "192.168.133.33"}))
		Expect(proxy.Status.HardwareDetails.Hostname).To(Equal("whole.example"))
		Eventually(func() bool { return w.getHost(ctx, team, "m").Status.PoweredOn }).Should(BeTrue())
		Expect(w.getClaim(ctx, team, "m").Spec.ConsumerRef.Kind).To(Equal("Metal3Machine"))

		By("writing nothing when nothing changes")
		versions := func() []string {
			return []string{w.getClaim(ctx, team, "m").ResourceVersion, w.getHost(ctx, team, "m").ResourceVersion, w.getHost(ctx, infra, "whole").ResourceVersion}
		}
		Eventually(func(g Gomega) {
			before := versions()
			g.Consistently(versions).Should(Equal(before))
		}).Should(Succeed())

		By("fencing it")
		w.changeHost(ctx, team, "m", func(h *bmov1.BareMetalHost) {
			h.Annotations["reboot.metal3.io/metal3-remediation-1"] = `{"mode":"hard"}`
		})
		Eventually(func() bool { return w.getHost(ctx, team, "m").Status.PoweredOn }).Should(BeFalse())
		w.changeHost(ctx, team, "m", func(h *bmov1.BareMetalHost) { delete(h.Annotations, "reboot.metal3.io/metal3-remediation-1") })
		Eventually(func() bool { return w.getHost(ctx, team, "m").Status.PoweredOn }).Should(BeTrue())

		By("deleting it")
		remove(ctx, "m")
		Eventually(step(ctx, "m")).Should(Equal("NotFound"))
		Eventually(left(ctx, "m")).Should(BeEmpty())
		Expect(w.consumer(ctx, infra, "whole")()).To(BeEmpty())
		Expect(w.getHost(ctx, infra, "whole").Spec.Image).To(BeNil())
	})

	It("wait as for any host, and go at any time", func(ctx SpecContext) {
		w.machine(ctx, "waits", kind, selecting("nothing"))
		Eventually(w.associated(ctx, team, "waits")).Should(HavePrefix("False NoBareMetalHost"))
		Expect(step(ctx, "waits")()).To(Equal("no available host found"))
		remove(ctx, "waits")
		Eventually(left(ctx, "waits")).Should(BeEmpty())

		host(ctx, "early")
		w.machine(ctx, "early", kind, selecting("early"))
		Eventually(left(ctx, "early")).Should(ContainSubstring("host"))
		remove(ctx, "early")
		Eventually(left(ctx, "early")).Should(BeEmpty())
		Eventually(w.consumer(ctx, infra, "early")).Should(BeEmpty())
	})

	It("ask for the kinds of the document, here and in other clusters", func(ctx SpecContext) {
		w.machine(ctx, "hybrid", `{hostclaims.metal3.io/kind: kubevirt, hostclaims.metal3.io/args: '{"flavor":"m1","zone":"z"}'}`, image)
		Eventually(left(ctx, "hybrid")).Should(Equal("claim "))
		claim := w.getClaim(ctx, team, "hybrid")
		Expect(claim.Spec.Kind).To(Equal("kubevirt"))
		Expect(claim.Spec.Args).To(Equal(map[string]metal3v1.Argument{"flavor": "m1", "zone": "z"}))
		w.machine(ctx, "far", "{hostclaims.metal3.io/kind: baremetalhost, hostclaims.metal3.io/credentials: bmh-cluster-credentials}", selecting("far"))
		Eventually(left(ctx, "far")).Should(Equal("claim "))
		claim = w.getClaim(ctx, team, "far")
		Expect(claim.Spec.Kind).To(Equal("remote"))
		Expect(claim.Spec.Credentials).To(Equal("bmh-cluster-credentials"))
		Expect(claim.Spec.Args).To(Equal(map[string]metal3v1.Argument{"real-kind": "baremetalhost"}))
		w.machine(ctx, "plain", "{}", selecting("whole"))
		Consistently(left(ctx, "plain")).Should(BeEmpty(), "without a kind it is the provider's alone")
	})

	It("say what is wrong with their annotations, and touch nothing of others", func(ctx SpecContext) {
		w.machine(ctx, "no-json", "{hostclaims.metal3.io/kind: baremetal, hostclaims.metal3.io/args: s3cret}", image)
		Eventually(told(ctx, "no-json")).Should(ContainSubstring("Set it to a JSON object with strings"))
		w.machine(ctx, "no-kind", "{hostclaims.metal3.io/kind: '../../x'}", image)
		Eventually(told(ctx, "no-kind")).Should(ContainSubstring("spec.kind"))
		Expect(left(ctx, "no-json")() + left(ctx, "no-kind")()).To(BeEmpty())
		Expect(told(ctx, "no-json")()).NotTo(ContainSubstring("s3cret"))

		w.claim(ctx, team, "theirs", "hostSelector: {matchLabels: {only: nothing}}")
		w.machine(ctx, "theirs", kind, selecting("whole"))
		Eventually(told(ctx, "theirs")).Should(ContainSubstring("does not belong to this Metal3Machine"))
		Expect(w.getClaim(ctx, team, "theirs").Spec.HostSelector.MatchLabels).To(Equal(map[string]string{"only": "nothing"}))

		host(ctx, "taken")
		w.host(ctx, team, "taken", func(h *bmov1.BareMetalHost) {
			h.Labels["hostclaims.metal3.io/machine"], h.Annotations[bmov1.PausedAnnotation] = "true", "hostclaims.metal3.io"
		})
		before := w.getHost(ctx, team, "taken").ResourceVersion
		w.machine(ctx, "taken", kind, selecting("taken"))
		Eventually(told(ctx, "taken")).Should(ContainSubstring("does not belong to this Metal3Machine"))
		remove(ctx, "taken")
		Eventually(func() string { return strings.TrimSuffix(left(ctx, "taken")(), "host ") }).Should(BeEmpty())
		Expect(w.getHost(ctx, team, "taken").ResourceVersion).To(Equal(before), "a host with a BMC is a real one, whatever its label")
	})

	It("get their hosts and lose them whatever writes fail, and whenever the process ends", func(ctx SpecContext) {
		host(ctx, "faulty")
		fate := &mortal{machine: "faulty"}
		its.failing(fate.fault)
		DeferCleanup(func() { its.failing(nil) })
		// reborn has a new process take over from one that is dead, while something becomes what it is to be.
		reborn := func(is func() string) func() string {
			return func() string {
				if fate.isDead() {
					stop()
					fate.revive()
					stop = w.startMachines(ctx, its)
				}
				return is()
			}
		}
		w.machine(ctx, "faulty", kind, selecting("faulty"))
		Eventually(reborn(step(ctx, "faulty")), "2m").Should(Equal("associated with faulty"))
		Eventually(reborn(step(ctx, "faulty")), "2m").Should(Equal("provisioned"))
		Expect(metal3.Provisioned(infra, "faulty")).To(HaveLen(1))
		Expect(w.consumer(ctx, infra, "faulty")()).To(Equal("team-a/faulty"))
		stop()
		remove(ctx, "faulty")
		Expect(step(ctx, "faulty")()).To(HavePrefix("deprovisioning"), "the provider goes on while nobody is there")
		fate.revive()
		stop = w.startMachines(ctx, its)
		Eventually(reborn(step(ctx, "faulty")), "2m").Should(Equal("NotFound"))
		Eventually(reborn(left(ctx, "faulty")), "2m").Should(BeEmpty())
		Eventually(w.consumer(ctx, infra, "faulty")).Should(BeEmpty())
		// Kubernetes may be the first to delete the claim. What is deleted is gone before a process hears of it.
		Eventually(fate.diedAt).Should(ContainElements(
			HavePrefix("create *v1alpha1.HostClaim"), HavePrefix("create *v1alpha1.BareMetalHost"),
			HavePrefix("patch *v1alpha1.HostClaim"), HavePrefix("patch status of *v1alpha1.BareMetalHost"),
			HavePrefix("delete *v1alpha1.BareMetalHost"),
		))
		GinkgoWriter.Println("died at:", strings.Join(fate.diedAt(), ", "))
	})

	It("mark their host as unhealthy before it is given to anybody else", func(ctx SpecContext) {
		const mark = "capm3.metal3.io/unhealthy"
		host(ctx, "sick")
		w.machine(ctx, "sick", kind, selecting("sick"))
		Eventually(step(ctx, "sick")).Should(Equal("provisioned"))
		w.machine(ctx, "next", kind, selecting("sick"))
		Eventually(w.associated(ctx, team, "next")).Should(HavePrefix("False NoBareMetalHost"))
		stop()
		w.changeHost(ctx, team, "sick", func(h *bmov1.BareMetalHost) { h.Annotations[mark] = "words of a tenant" })
		remove(ctx, "sick")
		Expect(step(ctx, "sick")()).To(HavePrefix("deprovisioning"))
		stop = w.startMachines(ctx, its)
		Eventually(step(ctx, "sick")).Should(Equal("NotFound"))
		Eventually(left(ctx, "sick")).Should(BeEmpty())
		Eventually(w.consumer(ctx, infra, "sick")).ShouldNot(Equal("team-a/sick"))
		Expect(w.getHost(ctx, infra, "sick").Annotations).To(HaveKeyWithValue(mark, "HostClaim team-a/sick"))
		Consistently(w.consumer(ctx, infra, "sick")).Should(BeEmpty())

		By("repairing it")
		w.changeHost(ctx, infra, "sick", func(h *bmov1.BareMetalHost) { delete(h.Annotations, mark) })
		Eventually(w.consumer(ctx, infra, "sick")).Should(Equal("team-a/next"))
		remove(ctx, "next")
		Eventually(step(ctx, "next")).Should(Equal("NotFound"))
	})

	It("leave their host to the next one, and to none once their Cluster is deleted", func(ctx SpecContext) {
		host(ctx, "kept")
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "k"}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "i", Kind: "I", Name: "i"}
		w.create(ctx, cluster)
		provider.Reuses = func(string) bool { return true }
		DeferCleanup(func() { provider.Reuses = nil })
		of := map[string]string{clusterv1.ClusterNameLabel: "k", clusterv1.MachineDeploymentNameLabel: "d"}
		w.labelledMachine(ctx, "first", of, kind, selecting("kept"))
		Eventually(step(ctx, "first")).Should(Equal("provisioned"))
		claim := w.getClaim(ctx, team, "first").UID

		By("keeping it without a Machine")
		remove(ctx, "first")
		Eventually(step(ctx, "first")).Should(Equal("NotFound"))
		owners := func() []string {
			var kinds []string
			for _, object := range []client.Object{w.getClaim(ctx, team, "first"), w.getHost(ctx, team, "first")} {
				for _, ref := range object.GetOwnerReferences() {
					kinds = append(kinds, ref.Kind)
				}
			}
			return kinds
		}
		Eventually(owners).Should(Equal([]string{"Cluster", "Cluster"}), "Kubernetes removes the owner that is gone")
		Consistently(w.consumer(ctx, infra, "kept")).Should(Equal("team-a/first"))

		By("giving it to none that asks for another host")
		w.labelledMachine(ctx, "odd", of, kind, selecting("nothing"))
		Eventually(told(ctx, "odd")).Should(ContainSubstring("HostClaim first keeps a host for the next Machine, but was created with another hostSelector"))
		remove(ctx, "odd")
		Eventually(left(ctx, "odd")).Should(BeEmpty())

		By("giving it to the next one")
		w.labelledMachine(ctx, "second", of, kind, selecting("kept"))
		Eventually(step(ctx, "second")).Should(Equal("associated with first"))
		Eventually(step(ctx, "second")).Should(Equal("provisioned"))
		Expect(w.getClaim(ctx, team, "first").UID).To(Equal(claim))
		Expect(left(ctx, "second")()).To(BeEmpty())
		Expect(owners()).To(Equal([]string{"Cluster", "Metal3Machine", "Cluster", "Metal3Machine"}))

		By("deleting the Cluster")
		remove(ctx, "second")
		Eventually(step(ctx, "second")).Should(Equal("NotFound"))
		Consistently(w.consumer(ctx, infra, "kept")).Should(Equal("team-a/first"))
		Expect(w.admin.Delete(ctx, cluster)).To(Succeed())
		Eventually(left(ctx, "first")).Should(BeEmpty())
		Eventually(w.consumer(ctx, infra, "kept")).Should(BeEmpty())
	})

	It("can be deleted when this controller is gone", func(ctx SpecContext) {
		host(ctx, "alone")
		w.machine(ctx, "alone", kind, selecting("alone"))
		Eventually(step(ctx, "alone")).Should(Equal("provisioned"))
		stop()
		remove(ctx, "alone")
		Expect(step(ctx, "alone")()).To(HavePrefix("deprovisioning"))
		Expect(w.admin.Delete(ctx, &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "alone"}})).To(Succeed())
		Eventually(step(ctx, "alone")).Should(Equal("NotFound"))
		Eventually(left(ctx, "alone")).Should(BeEmpty(), "Kubernetes deletes the claim with its Machine")
		Eventually(w.consumer(ctx, infra, "alone")).Should(BeEmpty())
	})

	It("have done nothing that they may not", func() {
		stop()
		requests, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		for _, request := range requests {
			if request.User.Username == "system:serviceaccount:"+system+":"+account {
				Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(http.StatusForbidden), "%s %s", request.Verb, request.RequestURI)
			}
		}
	})
})
