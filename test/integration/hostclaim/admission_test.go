package hostclaim_test

import (
	"context"
	"os"
	"path/filepath"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
)

// rendered returns what the chart has about admission, with some values.
func rendered(ctx context.Context, values map[string]any) []unstructured.Unstructured {
	GinkgoHelper()
	charts, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(charts.Close)
	objects, err := charts.Template(ctx, helm.Release{
		Name: "archelon", Namespace: system, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + stage.KubeVersion, "--no-hooks"},
	})
	Expect(err).NotTo(HaveOccurred())
	var policies []unstructured.Unstructured
	for _, object := range objects {
		if object.GroupVersionKind().Group == "admissionregistration.k8s.io" && object.GetName() != system+".archelon-admission" {
			policies = append(policies, object)
		}
	}
	return policies
}

var _ = Describe("The admission policies of hosts and claims", Ordered, ContinueOnFailure, func() {
	const infra, team, mine = "infra", "team-a", "team-hosts"
	var w *world
	// as returns a client with the token of a ServiceAccount that has a role in one namespace, and nothing else.
	as := func(ctx context.Context, namespace string, rules ...rbacv1.PolicyRule) client.Client {
		GinkgoHelper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "user-"}}
		w.create(ctx, account)
		w.create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name}, Rules: rules},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account.Name},
			})
		config, err := w.plane.ServiceAccountConfig(ctx, namespace, account.Name)
		Expect(err).NotTo(HaveOccurred())
		user, err := client.New(config, client.Options{Scheme: w.scheme})
		Expect(err).NotTo(HaveOccurred())
		return user
	}
	hosts := rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts"}, Verbs: []string{"get", "create", "update", "patch", "delete"}}
	opens := rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"hostdeploypolicies"}, Verbs: []string{"create"}}
	written := func(namespace, name string, change func(*bmov1.BareMetalHost)) *bmov1.BareMetalHost {
		h := &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
		change(h)
		return h
	}
	claimed := func(namespace string) func(*bmov1.BareMetalHost) {
		return func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: namespace, Name: "c"}
		}
	}
	change := func(ctx context.Context, by client.Client, namespace, name string, change func(*bmov1.BareMetalHost)) error {
		GinkgoHelper()
		before := w.getHost(ctx, namespace, name)
		after := before.DeepCopy()
		change(after)
		return by.Patch(ctx, after, client.MergeFrom(before), client.DryRunAll)
	}
	remove := func(ctx context.Context, by client.Client, namespace, name string) error {
		return by.Delete(ctx, written(namespace, name, func(*bmov1.BareMetalHost) {}), client.DryRunAll)
	}
	refused := func(text string) gomegatypes.GomegaMatcher {
		return And(
			Or(WithTransform(apierrors.IsForbidden, BeTrue()), WithTransform(apierrors.IsInvalid, BeTrue())),
			MatchError(ContainSubstring(text)),
		)
	}
	const (
		given  = "spec.consumerRef: only who may patch hostclaims/status in the namespace of the HostClaim may give it a host, or take one away; delete the HostClaim"
		opened = "[hostclaims.metal3.io/namespaces]: only who may create hostdeploypolicies in this namespace may open its hosts to HostClaims; have an administrator"
		inUse  = "this BareMetalHost is that of HostClaim team-a/c, and what runs on it would be lost. Have the HostClaim deleted first, or set annotation"
	)

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx, "hostclaim-admission")
		for _, name := range []string{infra, team, mine} {
			w.namespace(ctx, name)
		}
		w.host(ctx, infra, "used", claimed(team))
		w.host(ctx, infra, "moved", func(h *bmov1.BareMetalHost) {
			claimed(team)(h)
			h.Annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = ""
		})
		w.host(ctx, infra, "given-up", func(h *bmov1.BareMetalHost) {
			claimed(team)(h)
			h.Annotations["archelon.io/allow-deletion"] = "true"
		})
		w.host(ctx, mine, "own", func(h *bmov1.BareMetalHost) { h.Annotations = nil })
		policies := rendered(ctx, map[string]any{"features": map[string]any{"host-claim": map[string]any{"enabled": true}}})
		Expect(policies).To(HaveLen(12))
		for _, object := range policies {
			w.create(ctx, object.DeepCopy())
		}
		probe := as(ctx, mine, hosts)
		Eventually(func() error { return change(ctx, probe, mine, "own", claimed(team)) }).Should(refused(given))
		Eventually(func() error { return remove(ctx, w.admin, infra, "used") }).Should(refused(inUse))
		Eventually(func() error {
			return w.tryClaim(ctx, team, "probe", "userData: {name: x, namespace: kube-system}")
		}).Should(refused("spec.userData.namespace"))
	})

	It("are there with the feature alone, and with admission policies", func(ctx SpecContext) {
		Expect(rendered(ctx, nil)).To(BeEmpty())
		Expect(rendered(ctx, map[string]any{
			"features": map[string]any{"host-claim": map[string]any{"enabled": true}}, "admissionPolicy": map[string]any{"enabled": false},
		})).To(BeEmpty())
	})

	It("keep the CRD of HostClaims from being replaced by one that drops fields", func(ctx SpecContext) {
		ours := hostClaimCRD(ctx)
		const lost = "HostClaims would lose fields of spec: args, credentials, identityRef, kind, online. Leave it out of what you apply"
		Eventually(func() error { return w.replaceCRD(ctx, foreign(ours), client.DryRunAll) }).Should(refused(lost))
		unselectable := ours.DeepCopy()
		unselectable.Spec.Versions[0].SelectableFields = nil
		Expect(w.replaceCRD(ctx, unselectable, client.DryRunAll)).To(refused("this CRD is not that of Archelon"))
		newer := ours.DeepCopy()
		newer.Spec.Versions[0].AdditionalPrinterColumns = nil
		Expect(w.replaceCRD(ctx, newer)).To(Succeed(), "an upgrade of the chart changes it")
		without := rendered(ctx, map[string]any{
			"features":        map[string]any{"host-claim": map[string]any{"enabled": true}},
			"admissionPolicy": map[string]any{"protectCRDs": false},
		})
		Expect(without).To(HaveLen(10), "an administrator can allow it")
	})

	It("let nobody with hosts of his own draw the Secrets of other people's claims to these", func(ctx SpecContext) {
		owner := as(ctx, mine, hosts)
		for _, namespace := range []string{team, mine, ""} {
			Expect(owner.Create(ctx, written(mine, "trap", claimed(namespace)), client.DryRunAll)).To(refused(given))
			Expect(change(ctx, owner, mine, "own", claimed(namespace))).To(refused(given))
		}
		Expect(change(ctx, owner, mine, "own", func(h *bmov1.BareMetalHost) {
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1beta9", Kind: "HostClaim", Namespace: team, Name: "c", UID: "u"}
		})).To(refused(given))
		Expect(change(ctx, owner, mine, "own", func(h *bmov1.BareMetalHost) { h.Labels["hostclaims.metal3.io/namespaces"] = "ALL" })).To(refused(opened))
		Expect(owner.Create(ctx, written(mine, "trap", func(h *bmov1.BareMetalHost) {
			h.Annotations["hostclaims.metal3.io/namespaces"] = "*"
		}), client.DryRunAll)).To(refused(opened))
	})

	It("let nobody say whose data is on a host but who gives hosts away", func(ctx SpecContext) {
		forge := func(h *bmov1.BareMetalHost) {
			h.Annotations = map[string]string{"hostclaims.metal3.io/last-use": `{"namespace":"team-a"}`}
		}
		for _, user := range []client.Client{as(ctx, mine, hosts, opens), w.admin} {
			Expect(change(ctx, user, mine, "own", forge)).To(Succeed())
		}
		owner := as(ctx, mine, hosts)
		Expect(change(ctx, owner, mine, "own", forge)).To(refused("only who may create hostdeploypolicies in this namespace may say whose data"))
		Expect(owner.Create(ctx, written(mine, "trap", forge), client.DryRunAll)).To(refused("may say whose data"))
	})

	It("leave to the owner of hosts what else there is to do with them", func(ctx SpecContext) {
		owner := as(ctx, mine, hosts)
		Expect(owner.Create(ctx, written(mine, "new", func(*bmov1.BareMetalHost) {}), client.DryRunAll)).To(Succeed())
		Expect(change(ctx, owner, mine, "own", func(h *bmov1.BareMetalHost) {
			h.Spec.Online = false
			h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: mine, Name: "m"}
		})).To(Succeed(), "a Metal3Machine is no HostClaim")
		Expect(remove(ctx, owner, mine, "own")).To(Succeed())
		manager := as(ctx, infra, hosts, opens)
		Expect(change(ctx, manager, infra, "used", func(h *bmov1.BareMetalHost) { h.Annotations["hostclaims.metal3.io/namespaces"] = "team-a" })).To(Succeed())
		Expect(change(ctx, as(ctx, infra, hosts), infra, "used", func(h *bmov1.BareMetalHost) { delete(h.Annotations, "hostclaims.metal3.io/namespaces") })).
			To(Succeed(), "a host can be closed by whoever may change it")
		Expect(change(ctx, as(ctx, infra, hosts), infra, "used", func(h *bmov1.BareMetalHost) { h.Labels["rack"] = "r1" })).To(Succeed())
	})

	It("let nobody take a host from its claim but who gives it, and delete it by mistake", func(ctx SpecContext) {
		manager := as(ctx, infra, hosts, opens)
		none := func(h *bmov1.BareMetalHost) { h.Spec.ConsumerRef = nil }
		Expect(change(ctx, manager, infra, "used", none)).To(refused(given))
		Expect(change(ctx, manager, infra, "used", claimed(mine))).To(refused(given))
		for _, key := range []string{"hostclaims.metal3.io/adopt", "hostclaims.metal3.io/release"} {
			decide := func(h *bmov1.BareMetalHost) { h.Annotations[key] = "uid" }
			Expect(change(ctx, manager, infra, "used", decide)).To(refused(given))
			Expect(change(ctx, w.admin, infra, "used", decide)).To(Succeed())
			Expect(change(ctx, as(ctx, mine, hosts), mine, "own", func(h *bmov1.BareMetalHost) {
				h.Annotations = map[string]string{key: "uid"}
			})).To(Succeed(), "no claim has it")
		}
		Expect(change(ctx, w.admin, infra, "used", none)).To(Succeed())
		Expect(remove(ctx, manager, infra, "used")).To(refused(inUse))
		Expect(remove(ctx, manager, infra, "given-up")).To(Succeed())
		Expect(remove(ctx, manager, infra, "moved")).To(Succeed())
	})

	It("keep the operator here from what clusterctl deletes after it has moved it", func(ctx SpecContext) {
		begin := func(name string) error {
			h := w.getHost(ctx, infra, name)
			h.Status.Provisioning.State = bmov1.StateDeprovisioning
			return w.admin.Status().Update(ctx, h, client.DryRunAll)
		}
		Eventually(func() error { return begin("moved") }).Should(refused("clusterctl has moved this BareMetalHost to another cluster"))
		Expect(begin("used")).To(Succeed())
	})

	It("hold a tenant to the Secrets of its own namespace (attack J)", func(ctx SpecContext) {
		raw, err := os.ReadFile(filepath.Join(root, "examples", "hostclaim-tenant-role.yaml"))
		Expect(err).NotTo(HaveOccurred())
		role := &rbacv1.Role{}
		Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
		tenant := as(ctx, team, role.Rules...)
		try := func(spec string) error {
			claim := unstructuredClaim(team, "t")
			object := map[string]any{}
			Expect(yaml.Unmarshal([]byte(spec), &object)).To(Succeed())
			claim.Object["spec"] = object
			return tenant.Create(ctx, claim, client.DryRunAll)
		}
		Expect(try("{userData: {name: a, namespace: team-a}, metaData: {name: b}}")).To(Succeed())
		Expect(try("{userData: {name: a, namespace: kube-system}, networkData: {name: b, namespace: infra}}")).
			To(refused("spec.userData.namespace: it must be that of the HostClaim; leave it out, and create the Secret in this namespace; spec.networkData.namespace"))
	})

	It("let no tenant take the finalizer off a claim, which would leave its host uncleaned and in no quota", func(ctx SpecContext) {
		claims := rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"hostclaims"}, Verbs: []string{"*"}}
		status := rbacv1.PolicyRule{APIGroups: []string{"metal3.io"}, Resources: []string{"hostclaims/status"}, Verbs: []string{"patch"}}
		const held = "only who may patch hostclaims/status in this namespace may take off finalizers of hostclaims.metal3.io; Archelon takes them off"
		claim := unstructuredClaim(team, "held")
		claim.SetFinalizers([]string{"hostclaims.metal3.io/baremetal", "example.com/own"})
		claim.Object["spec"] = map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{"only": "none"}}}
		w.create(ctx, claim)
		with := func(finalizers ...string) func(client.Client) error {
			return func(by client.Client) error {
				after := claim.DeepCopy()
				after.SetFinalizers(finalizers)
				return by.Patch(ctx, after, client.MergeFrom(claim), client.DryRunAll)
			}
		}
		tenant, manager := as(ctx, team, claims), as(ctx, team, claims, status)
		Eventually(func() error { return with("example.com/own")(tenant) }).Should(refused(held))
		Expect(with()(tenant)).To(refused(held))
		Expect(with("hostclaims.metal3.io/baremetal")(tenant)).To(Succeed(), "its own finalizers are its own")
		for _, user := range []client.Client{manager, w.admin} {
			Expect(with("example.com/own")(user)).To(Succeed())
		}
	})

	It("are in nobody's way who gives hosts to claims, and takes them back", func(ctx SpecContext) {
		w.host(ctx, infra, "free", func(h *bmov1.BareMetalHost) { h.Labels["only"] = "free" })
		w.operate()
		defer w.start(ctx)()
		w.claim(ctx, team, "bound", "hostSelector: {matchLabels: {only: free}}")
		Eventually(w.consumer(ctx, infra, "free")).Should(Equal("team-a/bound"))
		Expect(w.admin.Delete(ctx, unstructuredClaim(team, "bound"))).To(Succeed())
		Eventually(w.consumer(ctx, infra, "free")).Should(BeEmpty())
	})

	It("hold up no namespace that is deleted with its hosts", func(ctx SpecContext) {
		w.namespace(ctx, "ending")
		w.host(ctx, "ending", "used", claimed(team))
		Expect(remove(ctx, w.admin, "ending", "used")).To(refused(inUse))
		Expect(w.admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}})).To(Succeed())
		Eventually(func() error { return remove(ctx, w.admin, "ending", "used") }).Should(Succeed())
	})
})
