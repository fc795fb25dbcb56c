package metal3_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// The examples of the proposal, as they stand there.
const (
	exampleClaim = `
apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata:
  name: my-host
spec:
  online: false
  kind: baremetal

  hostSelector:
    matchLabels:
      infra-kind: medium
`
	exampleWorkload = `
apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata:
  name: my-host
spec:
  online: true
  image:
    checksum: https://url_image.qcow2.md5
    url: https://url_image.qcow2
    format: qcow2
  userData:
    name: my-user-data
  networkData:
    name: my-network-data
  kind: baremetal
  hostSelector:
    matchLabels:
      infra-kind: medium
`
)

// The example of a remote cluster, with its ellipses filled in. Secrets have stringData, where the proposal has
// stringdata, and a claim of kind remote stands for the Metal3Machine.
const (
	exampleCredentials = `
apiVersion: v1
kind: Secret
metadata:
  name: bmh-cluster-credentials
stringData:
  kubeconfig: |
    apiVersion: v1
    clusters:
    - cluster:
        server: %s
        certificate-authority-data: %s
      name: bmh-cluster
    contexts:
    - context:
        cluster: bmh-cluster
        user: user1
      name: user1@bmh-cluster
      namespace: user1-ns
    current-context: user1@bmh-cluster
    kind: Config
    preferences: {}
    users:
    - name: user1
      user: {token: %s}
---
apiVersion: v1
kind: Secret
metadata:
  name: my-user-data
stringData:
  format: cloud-config
  value: ....
`
	exampleRemote = `
apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata:
  name: far-host
spec:
  kind: remote
  args: {real-kind: baremetalhost}
  credentials: bmh-cluster-credentials
  userData:
    name: my-user-data
  hostSelector: {matchLabels: {infra-kind: far}}
  image:
    checksum: https://image_url.qcow2.md5
    format: qcow2
    url: https://image_url.qcow2.md5
  online: true
`
)

const (
	tenantRole = "hostclaim-tenant-role.yaml"
	bound      = "True BareMetalHostAssociated"
)

var _ = Describe("The stories of the proposal, with Metal3", Ordered, ContinueOnFailure, func() {
	var s *site
	var a, b *tenant

	BeforeAll(func(ctx SpecContext) {
		s = newSite(ctx, "metal3")
		s.namespaces(ctx, "infra")
		s.operate(ctx)
		s.manage(ctx)
		s.host(ctx, "infra", "medium", "medium", "team-a")
		s.host(ctx, "infra", "large", "large", "team-a,team-b")
		s.host(ctx, "infra", "hybrid", "hybrid", "*")
		s.host(ctx, "infra", "far", "far", "user1-ns")
		a, b = s.tenant(ctx, "team-a", tenantRole), s.tenant(ctx, "team-b", tenantRole)
		for _, name := range []string{"medium", "large", "hybrid", "far"} {
			Eventually(s.state(ctx, "infra", name)).Should(Equal("available"))
		}
	}, NodeTimeout(10*time.Minute))

	It("deploys a simple workload", func(ctx SpecContext) {
		By("claiming a host")
		a.apply(ctx, exampleClaim)
		Eventually(a.condition(ctx, "my-host", "AssociateBMH")).Should(Equal(bound))
		Eventually(a.condition(ctx, "my-host", "Ready")).Should(HavePrefix("True "), "no image is asked for")
		claim := a.claim(ctx, "my-host")
		status, err := yaml.Marshal(claim.Status)
		Expect(err).NotTo(HaveOccurred())
		for _, line := range []string{
			"address: 192.168.133.33", "address: fe80::6be8:1f93:7f65:59cf%ens3", "type: InternalIP", "address: medium.example",
			"type: Hostname", "type: InternalDNS", `bootMACAddress: "52:54:00:01:00:05"`, `MAC: "52:54:00:01:00:05"`,
			"ip: 192.168.133.33", "name: ens3", "ready: false",
		} {
			Expect(string(status)).To(ContainSubstring(line))
		}
		Expect(claim.Annotations).To(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "rack 7"))
		Expect(s.state(ctx, "infra", "medium")()).To(Equal("available of team-a/my-host"))

		By("having it run an image")
		a.secret(ctx, "my-user-data", "#cloud-config of a")
		a.secret(ctx, "my-meta-data", "meta of a")
		a.secret(ctx, "my-network-data", "links of a")
		a.apply(ctx, exampleWorkload)
		Eventually(a.ready(ctx, "my-host")).Should(BeTrue())
		Expect(s.state(ctx, "infra", "medium")()).To(Equal("provisioned https://url_image.qcow2 of team-a/my-host"))
		Expect(s.secrets(ctx, "infra")).To(Equal(map[string]string{
			"medium-hc-userdata": "#cloud-config of a", "medium-hc-networkdata": "links of a",
		}))
		host := s.getHost(ctx, "infra", "medium")
		Expect(host.Spec.UserData).To(HaveValue(Equal(corev1.SecretReference{Namespace: "infra", Name: "medium-hc-userdata"})))
		Expect(host.Spec.NetworkData).To(HaveValue(Equal(corev1.SecretReference{Namespace: "infra", Name: "medium-hc-networkdata"})))
		Expect(a.condition(ctx, "my-host", "Provisioned")()).To(HavePrefix("True "))

		By("stopping it")
		a.change(ctx, "my-host", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
		powered := func() bool { return ptr.Deref(a.claim(ctx, "my-host").Status.PoweredOn, true) }
		Eventually(powered).Should(BeFalse())
		Expect(s.getHost(ctx, "infra", "medium").Status.PoweredOn).To(BeFalse())
		Expect(s.state(ctx, "infra", "medium")()).To(HavePrefix("provisioned"))

		By("giving it back")
		a.remove(ctx, "my-host")
		Eventually(s.state(ctx, "infra", "medium")).Should(Equal("available"))
		Eventually(a.condition(ctx, "my-host", "Ready")).Should(Equal("NotFound"))
		host = s.getHost(ctx, "infra", "medium")
		Expect(host.Spec.Image).To(BeNil())
		Expect(host.Spec.UserData).To(BeNil())
		Expect(host.Spec.NetworkData).To(BeNil())
		Expect(s.secrets(ctx, "infra")).To(BeEmpty())
	}, SpecTimeout(8*time.Minute))

	It("has two tenants use one host after the other, and tells neither of the other", func(ctx SpecContext) {
		spec := `
apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata: {name: node}
spec:
  online: true
  kind: baremetal
  image: {url: https://images.example/os.qcow2, checksum: https://images.example/os.qcow2.md5, format: qcow2}
  userData: {name: user-data}
  hostSelector: {matchLabels: {infra-kind: large}}
`
		a.secret(ctx, "user-data", "the secret of a")
		b.secret(ctx, "user-data", "the secret of b")
		a.apply(ctx, spec)
		Eventually(a.ready(ctx, "node")).Should(BeTrue())

		By("refusing what is not free, or not for b")
		b.apply(ctx, spec)
		Eventually(b.condition(ctx, "node", "Associated")).Should(Equal("False NoBareMetalHost"))
		b.apply(ctx, exampleClaim) // The host is for team-a alone.
		Eventually(b.condition(ctx, "my-host", "Associated")).Should(Equal("False NoBareMetalHost"))
		b.remove(ctx, "my-host")

		By("keeping the secrets of everybody from b")
		forbidden := func(err error) { GinkgoHelper(); Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err) }
		for _, name := range []types.NamespacedName{
			{Namespace: "team-a", Name: "user-data"}, {Namespace: "infra", Name: "large-hc-userdata"}, {Namespace: "infra", Name: "large-bmc"},
		} {
			forbidden(b.Get(ctx, name, &corev1.Secret{}))
		}
		forbidden(b.List(ctx, &bmov1.BareMetalHostList{}, client.InNamespace("infra")))
		forbidden(b.List(ctx, &metal3v1.HostClaimList{}, client.InNamespace("team-a")))

		By("recycling the host")
		a.remove(ctx, "node")
		Eventually(b.ready(ctx, "node")).Should(BeTrue())
		Expect(s.state(ctx, "infra", "large")()).To(Equal("provisioned https://images.example/os.qcow2 of team-b/node"))
		Expect(s.secrets(ctx, "infra")).To(Equal(map[string]string{"large-hc-userdata": "the secret of b"}))
		Expect(a.condition(ctx, "node", "Ready")()).To(Equal("NotFound"))
		raw, err := json.Marshal(b.claim(ctx, "node"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(Or(
			ContainSubstring("team-a"), ContainSubstring("192.168.222.1"), ContainSubstring("redfish"), ContainSubstring("large-bmc"),
		))
		b.remove(ctx, "node")
		Eventually(s.state(ctx, "infra", "large")).Should(Equal("available"))
	}, SpecTimeout(8*time.Minute))

	It("has claims of two kinds side by side, each with a controller of its own", func(ctx SpecContext) {
		seen := a.machines(ctx, "CT_i")
		for name, spec := range map[string]string{
			"metal": "{kind: baremetal, online: true, hostSelector: {matchLabels: {infra-kind: hybrid}}, image: {url: https://i, checksum: https://i.md5}}",
			"cloud": "{kind: CT_i, online: true, args: {arg_i1: v1, arg_ik: vk}, image: {url: https://i, checksum: https://i.md5}}",
		} {
			a.apply(ctx, "apiVersion: metal3.io/v1alpha1\nkind: HostClaim\nmetadata: {name: "+name+"}\nspec: "+spec)
		}
		Eventually(a.ready(ctx, "metal")).Should(BeTrue())
		Eventually(a.ready(ctx, "cloud")).Should(BeTrue())
		Expect(s.state(ctx, "infra", "hybrid")()).To(Equal("provisioned https://i of team-a/metal"))
		cloud := a.claim(ctx, "cloud")
		Expect(cloud.Finalizers).To(Equal([]string{"example.com/ct-i"}))
		Expect(cloud.Status.BareMetalHost).To(BeNil())
		a.remove(ctx, "cloud")
		a.remove(ctx, "metal")
		Eventually(a.condition(ctx, "cloud", "Ready")).Should(Equal("NotFound"))
		Eventually(s.state(ctx, "infra", "hybrid")).Should(Equal("available"))
		Expect(seen()).To(HaveEach("cloud"))
	}, SpecTimeout(8*time.Minute))

	It("uses a host of another cluster", func(ctx SpecContext) {
		user := s.tenant(ctx, "user1-ns", "hostclaim-remote-role.yaml")
		here := newSite(ctx, "metal3-here")
		here.manage(ctx)
		c := here.tenant(ctx, "team-c", tenantRole)
		c.apply(ctx, fmt.Sprintf(exampleCredentials, s.Management.Server(),
			base64.StdEncoding.EncodeToString(user.config(ctx).CAData), user.config(ctx).BearerToken))
		c.apply(ctx, exampleRemote)
		Eventually(c.ready(ctx, "far-host")).Should(BeTrue())
		Expect(c.condition(ctx, "far-host", "RemoteSynced")()).To(HavePrefix("True "))
		claim := c.claim(ctx, "far-host")
		Expect(claim.Status.NICs).NotTo(BeEmpty())
		Expect(claim.Annotations).To(HaveKeyWithValue("info.hostclaims.metal3.io/rack", "rack 7"))

		By("having a claim and a Secret there, as the proposal has them")
		targets := &metal3v1.HostClaimList{}
		Expect(user.List(ctx, targets, client.InNamespace("user1-ns"))).To(Succeed())
		Expect(targets.Items).To(HaveLen(1))
		target := targets.Items[0]
		Expect(target.Spec.Kind).To(Equal("baremetalhost"))
		Expect(target.Spec.Online).To(HaveValue(BeTrue()))
		Expect(target.Spec.HostSelector.MatchLabels).To(Equal(map[string]string{"infra-kind": "far"}))
		Expect(target.Spec.Image.URL).To(Equal("https://image_url.qcow2.md5"))
		data := &corev1.Secret{}
		Expect(user.Get(ctx, types.NamespacedName{Namespace: "user1-ns", Name: target.Spec.UserData.Name}, data)).To(Succeed())
		Expect(data.Data).To(Equal(map[string][]byte{"format": []byte("cloud-config"), "value": []byte("....")}))
		Expect(s.state(ctx, "infra", "far")()).To(Equal("provisioned https://image_url.qcow2.md5 of user1-ns/" + target.Name))

		By("giving it back")
		c.remove(ctx, "far-host")
		Eventually(c.condition(ctx, "far-host", "Ready")).Should(Equal("NotFound"))
		Expect(s.state(ctx, "infra", "far")()).To(Equal("available"))
		Expect(user.List(ctx, targets, client.InNamespace("user1-ns"))).To(Succeed())
		Expect(targets.Items).To(BeEmpty())
		Expect(s.secrets(ctx, "user1-ns")).To(BeEmpty())
	}, SpecTimeout(8*time.Minute))
})

// machines runs a controller for claims of another kind, which has machines at once and takes them away. It returns the
// names of the claims that the API server has told it of.
func (t *tenant) machines(ctx context.Context, kind string) func() []string {
	GinkgoHelper()
	list := &metal3v1.HostClaimList{}
	with, err := client.NewWithWatch(t.site.Management.Config, client.Options{Scheme: t.site.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	claims, err := with.Watch(ctx, list, client.MatchingFields{"spec.kind": kind})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(claims.Stop)
	told := make(chan string, 1000)
	go func() {
		defer GinkgoRecover()
		for event := range claims.ResultChan() {
			claim, ok := event.Object.(*metal3v1.HostClaim)
			if !ok || event.Type == "DELETED" {
				continue
			}
			told <- claim.Name
			t.machine(context.WithoutCancel(ctx), claim)
		}
	}()
	return func() []string {
		var names []string
		for len(told) > 0 {
			names = append(names, <-told)
		}
		return names
	}
}

// machine brings a claim of another kind a step further. What goes wrong is seen in the status that does not come.
func (t *tenant) machine(ctx context.Context, claim *metal3v1.HostClaim) {
	before := claim.DeepCopy()
	switch {
	case claim.DeletionTimestamp != nil:
		claim.Finalizers = nil
		_ = t.site.Client.Patch(ctx, claim, client.MergeFrom(before))
	case len(claim.Finalizers) == 0:
		claim.Finalizers = []string{"example.com/ct-i"}
		_ = t.site.Client.Patch(ctx, claim, client.MergeFrom(before))
	case !claim.Status.Ready:
		claim.Status.Ready = true
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: "True", Reason: "Running", LastTransitionTime: metav1.Now(),
		})
		_ = t.site.Client.Status().Patch(ctx, claim, client.MergeFrom(before))
	}
}
