package hostclaim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

func unstructuredClaim(namespace, name string) *unstructured.Unstructured {
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	claim.SetAPIVersion("metal3.io/v1alpha1")
	claim.SetKind("HostClaim")
	claim.SetNamespace(namespace)
	claim.SetName(name)
	return claim
}

// only is a spec for the hosts of one namespace.
func only(namespace string) string {
	return "hostSelector: {inNamespace: " + namespace + ", matchLabels: {infra-kind: medium}}\n"
}

const bound = "True BareMetalHostAssociated"

var _ = Describe("Claims of kind baremetal", Ordered, ContinueOnFailure, func() {
	var w *world
	var stop func()
	namespaces := 0

	// newPool returns a new namespace for hosts.
	newPool := func(ctx context.Context) string {
		namespaces++
		name := fmt.Sprintf("infra-%d", namespaces)
		w.namespace(ctx, name)
		return name
	}
	policy := func(ctx context.Context, namespace, name, spec string) {
		GinkgoHelper()
		object := &metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		Expect(yaml.UnmarshalStrict([]byte(spec), &object.Spec)).To(Succeed())
		w.create(ctx, object)
	}
	remove := func(ctx context.Context, namespace, name string) {
		GinkgoHelper()
		Expect(w.admin.Delete(ctx, unstructuredClaim(namespace, name))).To(Succeed())
	}
	gone := func(ctx context.Context, namespace, name string) func() bool {
		return func() bool {
			err := w.admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &metal3v1.HostClaim{})
			return apierrors.IsNotFound(err)
		}
	}
	warnings := func(ctx context.Context, namespace, name string) []string {
		GinkgoHelper()
		events := &eventsv1.EventList{}
		Expect(w.admin.List(ctx, events, client.InNamespace(namespace))).To(Succeed())
		var reasons []string
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Type == corev1.EventTypeWarning {
				reasons = append(reasons, event.Reason)
			}
		}
		return reasons
	}
	// eventsAbout returns "NAME: NOTE" of the Events about BareMetalHosts with a reason.
	eventsAbout := func(ctx context.Context, namespace, reason string) []string {
		GinkgoHelper()
		events := &eventsv1.EventList{}
		Expect(w.admin.List(ctx, events, client.InNamespace(namespace))).To(Succeed())
		var notes []string
		for _, event := range events.Items {
			if event.Regarding.Kind == "BareMetalHost" && event.Reason == reason {
				notes = append(notes, event.Regarding.Name+": "+event.Note)
			}
		}
		return notes
	}
	refusals := func(ctx context.Context, namespace string) func() []string {
		return func() []string { return eventsAbout(ctx, namespace, "HostClaimRefused") }
	}
	// refuse has the API server refuse images for host h of a namespace.
	refuse := func(ctx context.Context, namespace, message string) {
		GinkgoHelper()
		matches := admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"metal3.io"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"baremetalhosts"},
					},
				},
			}},
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		policy.Spec.MatchConstraints = &matches
		policy.Spec.Validations = []admissionregistrationv1.Validation{{
			Expression: "!has(object.spec.image) || has(oldObject.spec.image)", Message: message,
		}}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		binding.Spec.PolicyName = namespace
		binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
		w.create(ctx, policy, binding)
		image := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":{"url":"http://x/image","checksum":"y"}}}`))
		Eventually(func() error {
			return w.admin.Patch(ctx, w.getHost(ctx, namespace, "h"), image, client.DryRunAll)
		}).Should(MatchError(ContainSubstring(message)))
	}
	consumerOf := func(namespace, name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: namespace, Name: name}
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "hostclaim")
		for _, name := range []string{"team-a", "team-a2", "team-b"} {
			w.namespace(ctx, name)
		}
		stop = w.start(ctx)
	})

	It("bind a free host, and say all that is known of it (case 1)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h1", nil)
		w.claim(ctx, "team-a", "my-host", "online: false\nkind: baremetal\n"+only(infra))
		Eventually(w.associated(ctx, "team-a", "my-host")).Should(Equal(bound))
		host, claim := w.getHost(ctx, infra, "h1"), w.getClaim(ctx, "team-a", "my-host")
		Expect(host.Spec.ConsumerRef).To(HaveValue(Equal(corev1.ObjectReference{
			APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: "team-a", Name: "my-host", UID: claim.UID,
		})))
		Expect(host.Spec.Image).To(BeNil())
		Expect(claim.Labels).To(HaveKeyWithValue("hostclaims.metal3.io/host", infra+".h1"))
		Expect(claim.Labels).To(HaveKeyWithValue("hostclaims.metal3.io/kind", "baremetal"))
		status, err := yaml.Marshal(claim.Status)
		Expect(err).NotTo(HaveOccurred())
		for _, line := range []string{
			"address: 192.168.133.33", "type: InternalIP", "address: h1.example", "type: Hostname", "type: InternalDNS",
			"bootMACAddress: \"52:54:00:01:00:05\"", "MAC: \"52:54:00:01:00:05\"", "ip: 192.168.133.33", "name: ens3", "ready: false",
		} {
			Expect(string(status)).To(ContainSubstring(line))
		}
	})

	It("take no host that may not be taken (case 16), and wait without a write until one is free (case 7)", func(ctx SpecContext) {
		infra := newPool(ctx)
		for name, change := range map[string]func(*bmov1.BareMetalHost){
			"paused":     func(h *bmov1.BareMetalHost) { h.Annotations["baremetalhost.metal3.io/paused"] = "" },
			"detached":   func(h *bmov1.BareMetalHost) { h.Annotations["baremetalhost.metal3.io/detached"] = "" },
			"unhealthy":  func(h *bmov1.BareMetalHost) { h.Annotations["capm3.metal3.io/unhealthy"] = "" },
			"erring":     func(h *bmov1.BareMetalHost) { h.Status.ErrorMessage = "boom" },
			"inspecting": func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = bmov1.StateInspecting },
			"external":   func(h *bmov1.BareMetalHost) { h.Spec.ExternallyProvisioned = true },
			"imaged":     func(h *bmov1.BareMetalHost) { h.Spec.Image = &bmov1.Image{URL: "http://x", Checksum: "y"} },
			"consumed": func(h *bmov1.BareMetalHost) {
				h.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Namespace: infra, Name: "m"}
			},
			"reserved": func(h *bmov1.BareMetalHost) { h.Labels["infrastructure.cluster.x-k8s.io/node-reuse"] = "kcp" },
			"other":    func(h *bmov1.BareMetalHost) { h.Labels["infra-kind"] = "large" },
		} {
			w.host(ctx, infra, name, change)
		}
		w.claim(ctx, "team-a", "waits", only(infra))
		Eventually(w.associated(ctx, "team-a", "waits")).Should(
			Equal("False NoBareMetalHost: No host that matches spec.hostSelector is free and allows this namespace. Change spec.hostSelector, or ask your administrator"),
		)
		before := w.getClaim(ctx, "team-a", "waits").ResourceVersion
		Consistently(func() string { return w.getClaim(ctx, "team-a", "waits").ResourceVersion }).Should(Equal(before))
		w.changeHost(ctx, infra, "other", func(h *bmov1.BareMetalHost) { h.Labels["infra-kind"] = "medium" })
		Eventually(w.associated(ctx, "team-a", "waits")).Should(Equal(bound))
		Expect(w.consumer(ctx, infra, "other")()).To(Equal("team-a/waits"))
	})

	DescribeTable("ask who may have a host",
		func(ctx SpecContext, label, annotation, policies, namespace, want string) {
			infra := newPool(ctx)
			for i, spec := range strings.Split(policies, "---") {
				if spec != "" {
					policy(ctx, infra, fmt.Sprint("p", i), spec)
				}
			}
			w.host(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
				h.Annotations = nil
				if label != "" {
					h.Labels["hostclaims.metal3.io/namespaces"] = label
				}
				if annotation != "" {
					h.Annotations = map[string]string{"hostclaims.metal3.io/namespaces": annotation}
				}
			})
			w.claim(ctx, namespace, infra, only(infra))
			Eventually(w.associated(ctx, namespace, infra)).Should(And(HavePrefix(want)))
			if want != bound {
				Consistently(w.consumer(ctx, infra, "h"), "300ms").Should(BeEmpty())
			}
		},
		Entry("case 8: another namespace", "team-a", "", "", "team-b", "False NoBareMetalHost"),
		Entry("case 9: ALL", "ALL", "", "", "team-b", bound),
		Entry("case 9: *", "", "*", "", "team-b", bound),
		Entry("one of several", "team-a_team-b", "", "", "team-b", bound),
		Entry("one of several in the annotation", "", "team-a, team-b", "", "team-b", bound),
		Entry("both, and one refuses", "ALL", "team-a", "", "team-b", "False NoBareMetalHost"),
		Entry("case 10: a policy alone", "", "", "{hostClaimNamespaces: {names: [team-a]}}", "team-a", bound),
		Entry("case 12: the label allows, the policies do not", "team-a", "", "{hostClaimNamespaces: {names: [team-b]}}", "team-a",
			"False NoBareMetalHost"),
		Entry("one of several policies", "", "", "{}---{hostClaimNamespaces: {names: [team-a]}}", "team-a", bound),
		Entry("attack G: neither", "", "", "", "team-a", "False NoBareMetalHost"),
		Entry("attack H: a part of the name", "team-a", "", "", "team-a2", "False NoBareMetalHost"),
		Entry("attack H: a part that an expression matches", "", "", "{hostClaimNamespaces: {nameMatches: eam-a}}", "team-a2", "False NoBareMetalHost"),
		Entry("an expression for the whole name", "", "", "{hostClaimNamespaces: {nameMatches: 'team-.*'}}", "team-a2", bound),
		Entry("attack I: an expression that cannot be read, and one that can", "", "",
			"{hostClaimNamespaces: {nameMatches: '('}}---{hostClaimNamespaces: {names: [team-a]}}", "team-a", bound),
		Entry("an empty list of names", "", "", "{hostClaimNamespaces: {names: []}}", "team-a", "False NoBareMetalHost"),
		Entry("a list whose last name was commented out", "", "", "{hostClaimNamespaces: {names: null}}", "team-a", "False NoBareMetalHost"),
		Entry("no field at all", "", "", "{hostClaimNamespaces: {}}", "team-a", "False NoBareMetalHost"),
		Entry("all namespaces", "", "", "{hostClaimNamespaces: {nameMatches: '.*'}}", "team-a", bound),
	)

	It("are refused by a policy that cannot be read, which says so (attack I)", func(ctx SpecContext) {
		infra := newPool(ctx)
		policy(ctx, infra, "odd", "{hostClaimNamespaces: {nameMatches: '('}}")
		Eventually(func() string {
			events := &eventsv1.EventList{}
			Expect(w.admin.List(ctx, events, client.InNamespace(infra))).To(Succeed())
			var texts []string
			for _, event := range events.Items {
				texts = append(texts, event.Regarding.Kind+" "+event.Regarding.Name+" "+event.Reason)
			}
			return strings.Join(texts, ", ")
		}).Should(Equal("HostDeployPolicy odd PolicyInvalid"))
	})

	It("bind when the Namespace gets the label that a policy wants (case 11), or a policy comes", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.namespace(ctx, "team-late")
		w.host(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Annotations = nil })
		w.claim(ctx, "team-late", "c", only(infra))
		Eventually(w.associated(ctx, "team-late", "c")).Should(HavePrefix("False NoBareMetalHost"))
		policy(ctx, infra, "prod", "{hostClaimNamespaces: {hasLabels: [{name: env, value: prod}]}}")
		Eventually(refusals(ctx, infra)).Should(ContainElement(ContainSubstring("no HostDeployPolicy of this namespace allows namespace team-late")))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-late"}}
		Expect(w.admin.Patch(ctx, namespace, client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"labels":{"env":"prod"}}}`),
		))).To(Succeed())
		Eventually(w.associated(ctx, "team-late", "c")).Should(Equal(bound))
	})

	It("tell a tenant nothing of hosts that are not open to it, and their administrator all of it", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Labels["rack"], h.Annotations = "secret", nil })
		asks := func(name, rack string) func() string {
			GinkgoHelper()
			w.claim(ctx, "team-b", name, "hostSelector: {inNamespace: "+infra+", matchLabels: {rack: "+rack+"}}")
			return w.associated(ctx, "team-b", name)
		}
		right, wrong := asks("right", "secret"), asks("wrong", "guessed")
		Eventually(wrong).Should(HavePrefix("False"))
		Eventually(right).Should(Equal(wrong()))
		Eventually(refusals(ctx, infra)).Should(ConsistOf(
			"h: HostClaim team-b/right matches this free host and does not get it: it has no label or annotation " +
				"hostclaims.metal3.io/namespaces, and its namespace has no HostDeployPolicy. Create one to allow namespaces",
		))
		Expect(warnings(ctx, "team-b", "right")).To(BeEmpty())

		By("asking more often, which fills no namespace with Events")
		for i := range 5 {
			Eventually(asks(fmt.Sprint("again-", i), "secret")).Should(Equal(wrong()))
		}
		Expect(refusals(ctx, infra)()).To(HaveLen(1))
	})

	It("tell a tenant nothing of what the infrastructure answers", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", nil)
		refuse(ctx, infra, "the BMC is at redfish://10.0.0.7")
		w.claim(ctx, "team-a", "refused", "online: true\nimage: {url: http://x/image, checksum: sum}\n"+only(infra))
		Eventually(func() string {
			return hostclaim.ConditionOf(w.getClaim(ctx, "team-a", "refused"), "Synchronized").Message
		}).Should(HaveSuffix("failed, and is tried again. An Event of the BareMetalHost tells its administrator why"))
		raw, err := json.Marshal(w.getClaim(ctx, "team-a", "refused"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(ContainSubstring("10.0.0.7"))
		Eventually(func() []string { return eventsAbout(ctx, infra, "BareMetalHostNotSynchronized") }).
			Should(ContainElement(ContainSubstring("10.0.0.7")))
		Expect(warnings(ctx, "team-a", "refused")).NotTo(ContainElement(ContainSubstring("10.0.0.7")))
	})

	It("take a host of the namespace that they name alone (case 13)", func(ctx SpecContext) {
		near, far := newPool(ctx), newPool(ctx)
		w.host(ctx, near, "h", nil)
		w.claim(ctx, "team-a", "choosy", only(far))
		Eventually(w.associated(ctx, "team-a", "choosy")).Should(HavePrefix("False NoBareMetalHost"))
		w.host(ctx, far, "h", nil)
		Eventually(w.consumer(ctx, far, "h")).Should(Equal("team-a/choosy"))
		Expect(w.consumer(ctx, near, "h")()).To(BeEmpty())
	})

	It("are of the kind that their spec says, whatever a label says (attack S)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", nil)
		forged := unstructuredClaim("team-a", "forged")
		forged.SetLabels(map[string]string{"hostclaims.metal3.io/kind": "baremetal"})
		forged.Object["spec"] = map[string]any{
			"kind": "foo", "hostSelector": map[string]any{"inNamespace": infra, "matchLabels": map[string]any{"infra-kind": "medium"}},
		}
		w.create(ctx, forged)
		disguised := unstructuredClaim("team-a", "disguised")
		disguised.SetLabels(map[string]string{"hostclaims.metal3.io/kind": "foo"})
		disguised.Object["spec"] = map[string]any{
			"kind": "baremetal", "hostSelector": map[string]any{"inNamespace": infra, "matchLabels": map[string]any{"infra-kind": "medium"}},
		}
		w.create(ctx, disguised)
		Eventually(w.consumer(ctx, infra, "h")).Should(Equal("team-a/disguised"))
		Eventually(func() any { return w.getClaim(ctx, "team-a", "disguised").Labels }).Should(HaveKeyWithValue("hostclaims.metal3.io/kind", "baremetal"))
		Expect(w.getClaim(ctx, "team-a", "forged").Finalizers).To(BeEmpty())
	})

	It("prefer a failure domain (case 14)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "far", nil)
		w.host(ctx, infra, "near", func(h *bmov1.BareMetalHost) {
			h.Labels["infrastructure.cluster.x-k8s.io/failure-domain"] = "z1"
		})
		w.claim(ctx, "team-a", "near", "failureDomain: z1\n"+only(infra))
		Eventually(w.consumer(ctx, infra, "near")).Should(Equal("team-a/near"))
		w.claim(ctx, "team-a", "far", "failureDomain: z1\n"+only(infra))
		Eventually(w.associated(ctx, "team-a", "far")).Should(
			Equal(bound + ": No host of failure domain z1 is free, so this host is of another one"),
		)
	})

	It("select by expressions in any case, and stop at one that cannot be read (case 15)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "a", func(h *bmov1.BareMetalHost) { h.Labels = map[string]string{"rack": "a", "gpu": ""} })
		w.host(ctx, infra, "b", func(h *bmov1.BareMetalHost) { h.Labels = map[string]string{"rack": "b"} })
		in := "hostSelector: {inNamespace: " + infra + ", matchExpressions: ["
		w.claim(ctx, "team-a", "odd", in+"{key: rack, operator: Resembles, values: [a]}]}")
		Eventually(w.associated(ctx, "team-a", "odd")).Should(HavePrefix(`False SelectorInvalid: spec.hostSelector.matchExpressions: "Resembles"`))
		w.claim(ctx, "team-a", "gpu", in+"{key: gpu, operator: exists}, {key: rack, operator: IN, values: [a, b]}]}")
		Eventually(w.consumer(ctx, infra, "a")).Should(Equal("team-a/gpu"))
		w.claim(ctx, "team-a", "plain", in+"{key: gpu, operator: DoesNotExist}, {key: rack, operator: notin, values: [a]}]}")
		Eventually(w.consumer(ctx, infra, "b")).Should(Equal("team-a/plain"))
	})

	It("take both names of the kind and of the power, and refuse what contradicts itself (cases 19, 20)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", nil)
		w.claim(ctx, "team-a", "alias", "kind: baremetalhost\n"+only(infra))
		Eventually(w.associated(ctx, "team-a", "alias")).Should(Equal(bound))
		w.claim(ctx, "team-a", "upstream", "poweredOn: false\n"+only(infra))
		Eventually(func() string { return w.getClaim(ctx, "team-a", "upstream").Labels["hostclaims.metal3.io/kind"] }).Should(Equal("baremetal"))
		for spec, why := range map[string]string{
			"online: true\npoweredOn: false":                    "must not contradict",
			"image: {url: http://x}\ncustomDeploy: {method: m}": "exclude each other",
			"hostSelector: {namespace: infra1}":                 "the field is called inNamespace",
			"kind: ../x":                                        "should match",
			"image: {url: http://x, format: exe}":               "Unsupported value",
			"args: {a: " + strings.Repeat("x", 5000) + "}":      "Too long",
		} {
			Expect(w.tryClaim(ctx, "team-a", "refused", spec)).To(MatchError(ContainSubstring(why)), spec)
		}
		changed := w.getClaim(ctx, "team-a", "upstream")
		changed.Spec.Kind = "remote"
		Expect(w.admin.Update(ctx, changed)).To(MatchError(ContainSubstring("the kind of a host cannot be changed")))
		w.claim(ctx, "team-a", "foo", "kind: foo\n"+only(infra))
		Eventually(func() string {
			is := meta.FindStatusCondition(w.getClaim(ctx, "team-a", "foo").Status.Conditions, "Ready")
			if is == nil {
				return "none"
			}
			return is.Reason + ": " + is.Message
		}).Should(Equal(`KindNotHandled: No controller has processed this HostClaim of kind "foo". Archelon processes baremetal, baremetalhost. Use one of these kinds, or start the controller of that kind`))
		Expect(w.getClaim(ctx, "team-a", "foo").Finalizers).To(BeEmpty())
	})

	It("give a host back as it was, and to the next at once (case 6)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", nil)
		w.claim(ctx, "team-a", "first", only(infra))
		Eventually(w.associated(ctx, "team-a", "first")).Should(Equal(bound))
		w.claim(ctx, "team-b", "second", only(infra))
		Eventually(w.associated(ctx, "team-b", "second")).Should(HavePrefix("False NoBareMetalHost"))
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = bmov1.StateDeprovisioning })
		remove(ctx, "team-a", "first")
		Eventually(w.associated(ctx, "team-a", "first")).Should(HavePrefix("True HostClaimDeleting"))
		Consistently(w.consumer(ctx, infra, "h")).Should(Equal("team-a/first"), "it is not clean yet")
		Expect(w.getHost(ctx, infra, "h").Spec.Online).To(BeFalse())
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Status.Provisioning.State = bmov1.StateAvailable })
		Eventually(gone(ctx, "team-a", "first")).Should(BeTrue())
		Eventually(w.consumer(ctx, infra, "h")).Should(Equal("team-b/second"))
		remove(ctx, "team-b", "second")
		Eventually(gone(ctx, "team-b", "second")).Should(BeTrue())
		host := w.getHost(ctx, infra, "h")
		Expect(host.Spec.Online).To(BeTrue(), "as its administrator had it")
		Expect(host.Annotations).NotTo(HaveKey("hostclaims.metal3.io/saved"))
	})

	It("get no host with what another namespace left on its disks, unless a policy says so", func(ctx SpecContext) {
		infra := newPool(ctx)
		const last = "hostclaims.metal3.io/last-use"
		ends := func(namespace, name string) {
			GinkgoHelper()
			remove(ctx, namespace, name)
			Eventually(gone(ctx, namespace, name)).Should(BeTrue())
		}
		w.host(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Spec.AutomatedCleaningMode = bmov1.CleaningModeDisabled })
		w.claim(ctx, "team-b", "first", only(infra))
		Eventually(w.associated(ctx, "team-b", "first")).Should(Equal(bound), "it was never provisioned")
		ends("team-b", "first")
		Expect(w.getHost(ctx, infra, "h").Annotations).NotTo(HaveKey(last), "nothing was left on it")

		w.claim(ctx, "team-a", "writes", only(infra))
		Eventually(w.associated(ctx, "team-a", "writes")).Should(Equal(bound))
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) { h.Status.OperationHistory.Provision.Start = metav1.Now() })
		ends("team-a", "writes")
		Expect(w.getHost(ctx, infra, "h").Annotations[last]).To(HavePrefix(`{"namespace":"team-a","provisioned":"2`))

		w.claim(ctx, "team-b", "reads", only(infra))
		Eventually(w.associated(ctx, "team-b", "reads")).Should(HavePrefix(
			"False NotCleaned: Hosts that match spec.hostSelector are free, but their disks may have data of another namespace",
		))
		Eventually(warnings).WithArguments(ctx, "team-b", "reads").Should(ContainElement("NotCleaned"))
		w.claim(ctx, "team-a", "again", only(infra))
		Eventually(w.associated(ctx, "team-a", "again")).Should(Equal(bound), "it is its own data")
		ends("team-a", "again")
		Consistently(w.consumer(ctx, infra, "h")).Should(BeEmpty())

		By("another one using it that is no claim")
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.OperationHistory.Provision.Start = metav1.NewTime(metav1.Now().Add(time.Hour))
		})
		w.claim(ctx, "team-a", "once-more", only(infra))
		Eventually(w.associated(ctx, "team-a", "once-more")).Should(HavePrefix("False NotCleaned"))
		ends("team-a", "once-more")

		policy(ctx, infra, "p", "hostClaimNamespaces: {names: [team-b]}\nallowUncleanedHosts: true")
		Eventually(w.associated(ctx, "team-b", "reads")).Should(Equal(bound))
	})

	It("erase names of hosts that are not theirs, and touch no host for them (attacks A, B, C, D, E)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "taken", nil)
		w.claim(ctx, "team-a", "owner", only(infra))
		Eventually(w.associated(ctx, "team-a", "owner")).Should(Equal(bound))
		w.host(ctx, infra, "free", func(h *bmov1.BareMetalHost) { h.Labels["infra-kind"] = "large" })
		w.host(ctx, infra, "machine", func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: infra, Name: "thief"}
		})
		w.host(ctx, infra, "namesake", func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = consumerOf("team-a", "thief-namesake")
		})
		for _, name := range []string{"taken", "free", "machine", "namesake"} {
			thief := "thief-" + name
			before := w.getHost(ctx, infra, name).ResourceVersion
			w.claim(ctx, "team-b", thief, only(infra))
			Eventually(w.associated(ctx, "team-b", thief)).Should(HavePrefix("False NoBareMetalHost"))
			claim := w.getClaim(ctx, "team-b", thief)
			forged := claim.DeepCopy()
			forged.Labels["hostclaims.metal3.io/host"] = infra + "." + name
			Expect(w.admin.Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
			Eventually(func() string { return w.getClaim(ctx, "team-b", thief).Labels["hostclaims.metal3.io/host"] }).Should(BeEmpty())
			claim = w.getClaim(ctx, "team-b", thief)
			forged = claim.DeepCopy()
			forged.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: infra, Name: name}
			forged.Status.Ready, forged.Status.Addresses = true, []metal3v1.HostAddress{{Type: "InternalIP", Address: "10.0.0.1"}}
			Expect(w.admin.Status().Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
			Eventually(func() any { return w.getClaim(ctx, "team-b", thief).Status.BareMetalHost }).Should(BeNil())
			Expect(w.getClaim(ctx, "team-b", thief).Status.Addresses).To(BeEmpty())
			Expect(w.getClaim(ctx, "team-b", thief).Status.Ready).To(BeFalse())
			Eventually(warnings).WithArguments(ctx, "team-b", thief).Should(ContainElement("AssociationErased"))
			claim = w.getClaim(ctx, "team-b", thief)
			forged = claim.DeepCopy()
			forged.Status.PendingHost = &metal3v1.ObjectReference{Namespace: infra, Name: name}
			Expect(w.admin.Status().Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
			Eventually(func() any { return w.getClaim(ctx, "team-b", thief).Status.PendingHost }).Should(BeNil())
			claim = w.getClaim(ctx, "team-b", thief)
			forged = claim.DeepCopy()
			forged.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: infra, Name: name}
			Expect(w.admin.Status().Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
			remove(ctx, "team-b", thief)
			Eventually(gone(ctx, "team-b", thief)).Should(BeTrue())
			Expect(w.getHost(ctx, infra, name).ResourceVersion).To(Equal(before), name)
		}
		By("saying that all is done (attack D)")
		w.claim(ctx, "team-b", "boaster", only(infra))
		Eventually(w.associated(ctx, "team-b", "boaster")).Should(HavePrefix("False NoBareMetalHost"))
		claim := w.getClaim(ctx, "team-b", "boaster")
		forged := claim.DeepCopy()
		forged.Status.Ready = true
		for i := range forged.Status.Conditions {
			forged.Status.Conditions[i].Status, forged.Status.Conditions[i].Reason = metav1.ConditionTrue, "Forged"
		}
		Expect(w.admin.Status().Patch(ctx, forged, client.MergeFrom(claim))).To(Succeed())
		Eventually(func() []string {
			found := w.getClaim(ctx, "team-b", "boaster")
			said := []string{fmt.Sprint(found.Status.Ready)}
			for _, condition := range found.Status.Conditions {
				said = append(said, string(condition.Status))
			}
			return said
		}).Should(HaveEach(BeElementOf("False", "false")))
	})

	It("lose a host that is taken from them, and get another one unless it was in use (attack T)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h1", nil)
		w.claim(ctx, "team-a", "unlucky", only(infra))
		Eventually(w.associated(ctx, "team-a", "unlucky")).Should(Equal(bound))
		w.host(ctx, infra, "h2", nil)
		steal := func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef = consumerOf("team-b", "elsewhere") }
		w.changeHost(ctx, infra, "h1", steal)
		Eventually(w.consumer(ctx, infra, "h2")).Should(Equal("team-a/unlucky"))
		w.changeHost(ctx, infra, "h2", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning.State, h.Status.Provisioning.Image.URL = bmov1.StateProvisioned, "http://x"
		})
		Eventually(func() string {
			for _, c := range w.getClaim(ctx, "team-a", "unlucky").Status.Conditions {
				if c.Type == "Provisioned" {
					return c.Reason
				}
			}
			return ""
		}).Should(Equal("Provisioning"))
		w.host(ctx, infra, "h3", nil)
		w.changeHost(ctx, infra, "h2", steal)
		Eventually(w.associated(ctx, "team-a", "unlucky")).Should(HavePrefix("False HostLost: Lost BareMetalHost " + infra + "/h2: it was deleted"))
		Consistently(w.consumer(ctx, infra, "h3")).Should(BeEmpty())
		remove(ctx, "team-a", "unlucky")
		Eventually(gone(ctx, "team-a", "unlucky")).Should(BeTrue())
	})

	It("give nothing to a namesake before it is clean (attack F)", func(ctx SpecContext) {
		infra := newPool(ctx)
		w.host(ctx, infra, "h", nil)
		w.claim(ctx, "team-a", "again", only(infra))
		Eventually(w.associated(ctx, "team-a", "again")).Should(Equal(bound))
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning.State, h.Status.Provisioning.Image.URL = bmov1.StateProvisioned, "http://x"
		})
		remove(ctx, "team-a", "again")
		Eventually(w.associated(ctx, "team-a", "again")).Should(HavePrefix("True HostClaimDeleting"))
		By("forcing the first claim away")
		Expect(w.admin.Patch(ctx, unstructuredClaim("team-a", "again"), client.RawPatch(
			types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		))).To(Succeed())
		Eventually(gone(ctx, "team-a", "again")).Should(BeTrue())
		w.claim(ctx, "team-a", "again", only(infra))
		Eventually(w.associated(ctx, "team-a", "again")).Should(HavePrefix("False NoBareMetalHost"))
		Expect(w.getClaim(ctx, "team-a", "again").Status.BootMACAddress).To(BeEmpty())
		w.changeHost(ctx, infra, "h", func(h *bmov1.BareMetalHost) {
			h.Status.Provisioning.State, h.Status.Provisioning.Image.URL = bmov1.StateAvailable, ""
		})
		Eventually(w.associated(ctx, "team-a", "again")).Should(Equal(bound))
		Expect(w.getHost(ctx, infra, "h").Spec.ConsumerRef.UID).To(Equal(w.getClaim(ctx, "team-a", "again").UID))
	})

	It("get a host and lose it whatever write is the last of a process", func(ctx SpecContext) {
		infra := newPool(ctx)
		for i := range 3 {
			w.host(ctx, infra, fmt.Sprint("h", i), nil)
		}
		stop()
		// The workers of a process write here what was the last that each process did.
		var mu sync.Mutex
		var last []string
		diedAt := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(last)
		}
		for deadly := 1; ; deadly++ {
			name := fmt.Sprint("crash-", deadly)
			writes, dead, died := 0, false, make(chan struct{})
			w.failing(func(write string) error {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasSuffix(write, name) || strings.Contains(write, " "+infra+"/") {
					writes++
				}
				if writes == deadly && !dead {
					dead = true
					last = append(last, write)
					close(died)
				}
				if dead {
					return errDead
				}
				return nil
			})
			end := w.start(ctx)
			w.claim(ctx, "team-a", name, only(infra))
			check := func() {
				GinkgoHelper()
				hosts := &bmov1.BareMetalHostList{}
				Expect(w.admin.List(ctx, hosts, client.InNamespace(infra))).To(Succeed())
				mine := 0
				for i := range hosts.Items {
					if hosts.Items[i].Spec.ConsumerRef != nil {
						mine++
					}
				}
				Expect(mine).To(BeNumerically("<=", 1), "of a claim that had died at %v", diedAt())
			}
			revive := func() {
				select {
				case <-died:
					end()
					check()
					w.failing(nil)
					end, died = w.start(ctx), nil
				default:
				}
			}
			Eventually(func() string { revive(); return w.associated(ctx, "team-a", name)() }).Should(Equal(bound))
			check()
			remove(ctx, "team-a", name)
			Eventually(func() bool { revive(); return gone(ctx, "team-a", name)() }).Should(BeTrue())
			check()
			end()
			w.failing(nil)
			Expect(w.getHost(ctx, infra, "h0").Spec.ConsumerRef).To(BeNil())
			mu.Lock()
			all := !dead
			mu.Unlock()
			if all {
				break // There were fewer writes.
			}
		}
		GinkgoWriter.Println("died at:", strings.Join(diedAt(), ", "))
		Expect(len(diedAt())).To(BeNumerically(">=", 14))
		stop = w.start(ctx)
	})

	It("have done nothing that they may not, and no more than patches", func() {
		stop()
		requests, err := w.plane.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		for _, request := range requests {
			if request.User.Username != "system:serviceaccount:"+system+":"+account || request.ObjectRef == nil {
				continue
			}
			Expect(request.ResponseStatus.Code).NotTo(
				BeEquivalentTo(http.StatusForbidden), "%s %s", request.Verb, request.RequestURI,
			)
			if request.ObjectRef.Resource == "hostclaims" && (request.Verb == "list" || request.Verb == "watch") {
				Expect(request.RequestURI).To(MatchRegexp(`spec\.kind(%3D|%21%3D)baremetal`), "claims of all kinds are not asked for (case 21)")
			}
			switch request.Verb {
			case "get", "list", "watch":
			case "create":
				Expect(request.ObjectRef.Resource).To(Equal("events"))
			default:
				Expect(request.Verb).To(Equal("patch"))
			}
		}
	})
})
