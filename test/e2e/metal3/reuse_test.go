package metal3_test

import (
	"context"
	"fmt"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// reusedMachines are a deployment of machines whose template has nodeReuse. They need no control plane, because they
// come with their data for the first boot.
const reusedMachines = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3MachineTemplate
metadata: {name: workers}
spec:
  nodeReuse: true
  template:
    metadata:
      annotations: {hostclaims.metal3.io/kind: baremetal}
    spec:
      automatedCleaningMode: disabled
      hostSelector: {matchLabels: {infra-kind: node, hostclaims.metal3.io/machine: "true"}}
      image: {url: https://images.example/node.qcow2, checksum: https://images.example/node.qcow2.md5, diskFormat: qcow2}
---
apiVersion: v1
kind: Secret
metadata: {name: workers-data}
stringData: {value: "#cloud-config", format: cloud-config}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers}
spec:
  clusterName: prod
  replicas: 1
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}}
  template:
    spec:
      clusterName: prod
      bootstrap: {dataSecretName: workers-data}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: workers}
`

// Scenario: a deployment of machines is rolled out, and its next machine goes on with the disks of the last one.
var _ = Describe("A deployment whose template has nodeReuse", func() {
	It("gets its host again, with its disk, until its Cluster is deleted", func(ctx SpecContext) {
		s := newProvidedSite(ctx, "metal3-reuse")
		s.namespaces(ctx, "infra", "team-r")
		Expect(s.Client.Create(ctx, &metal3v1.HostDeployPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "kept"},
			Spec: metal3v1.HostDeployPolicySpec{
				AllowKeptDisks: true, HostClaimNamespaces: &metal3v1.HostClaimNamespaces{Names: []string{"team-r"}},
			},
		})).To(Succeed())
		s.host(ctx, "infra", "one", "node", "team-r")
		seen := s.watchHosts(ctx, "infra", func(host *bmov1.BareMetalHost) string {
			is := fmt.Sprint(host.Status.Provisioning.State, " ", host.Spec.AutomatedCleaningMode)
			if host.Spec.ConsumerRef == nil {
				is += " of nobody"
			}
			return is
		})
		admin := &tenant{Client: s.Client, site: s, namespace: "team-r"}
		admin.apply(ctx, exampleCluster)
		admin.apply(ctx, reusedMachines)
		Eventually(s.uses(ctx, "provisioned")).Should(HaveLen(1))
		first := s.uses(ctx, "provisioned")()[0]
		Expect(s.getHost(ctx, "infra", "one").Spec.AutomatedCleaningMode).To(Equal(bmov1.CleaningModeDisabled))

		By("rolling the deployment out")
		from := len(seen("one"))
		admin.deployment(ctx, func(spec map[string]any) {
			spec["rollout"].(map[string]any)["after"] = time.Now().UTC().Format(time.RFC3339) //nolint:forcetypeassert // as above
		})
		Eventually(s.uses(ctx, "provisioned")).Should(SatisfyAll(HaveLen(1), Not(ContainElement(first))))
		next := s.uses(ctx, "provisioned")()[0]
		Expect(next.host).To(Equal(first.host), "the BareMetalHost that stands for the real one")
		Expect(next.claim).To(Equal(first.claim))
		meanwhile := seen("one")[from:]
		Expect(meanwhile).To(ContainElement("deprovisioning disabled"))
		Expect(meanwhile).To(ContainElement("available disabled"))
		Expect(meanwhile).NotTo(ContainElement(ContainSubstring("nobody")))
		Expect(meanwhile).NotTo(ContainElement(ContainSubstring("metadata")))

		By("keeping it while the deployment has no machine")
		admin.deployment(ctx, func(spec map[string]any) { spec["replicas"] = int64(0) })
		Eventually(s.uses(ctx, "available")).Should(HaveExactElements(use{host: first.host, claim: first.claim}))
		Consistently(s.uses(ctx, "available")).Should(HaveLen(1))

		By("deleting the Cluster")
		Expect(s.Client.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-r", Name: "prod"}})).To(Succeed())
		Eventually(s.state(ctx, "infra", "one")).Should(Equal("available"))
		given := s.getHost(ctx, "infra", "one")
		Expect(given.Spec.AutomatedCleaningMode).To(Equal(bmov1.CleaningModeMetadata))
		Expect(given.Annotations[metal3v1.LastUseAnnotation]).To(SatisfyAll(ContainSubstring(`"team-r"`), ContainSubstring(`"uncleaned":true`)))
	}, SpecTimeout(10*time.Minute))
})

// use is which Machine has which host.
type use struct{ machine, host, claim string }

// uses returns a function for Eventually: the machines of the tenant that have the real host in a state, and what they
// have it by. The machine is empty while none has it.
func (s *site) uses(ctx context.Context, state string) func() []use {
	return func() []use {
		host := &bmov1.BareMetalHost{}
		if s.Client.Get(ctx, client.ObjectKey{Namespace: "infra", Name: "one"}, host) != nil || host.Spec.ConsumerRef == nil ||
			string(host.Status.Provisioning.State) != state {
			return nil
		}
		proxies := &bmov1.BareMetalHostList{}
		if s.Client.List(ctx, proxies, client.InNamespace("team-r")) != nil {
			return nil
		}
		var uses []use
		for _, proxy := range proxies.Items {
			is := use{host: string(proxy.UID), claim: string(host.Spec.ConsumerRef.UID)}
			if ref := proxy.Spec.ConsumerRef; ref != nil {
				is.machine = ref.Name
			} else if proxy.Labels[metal3v1.NodeReuseLabel] != "md-workers" {
				continue
			}
			uses = append(uses, is)
		}
		return uses
	}
}

// deployment changes the deployment.
func (t *tenant) deployment(ctx context.Context, change func(spec map[string]any)) {
	GinkgoHelper()
	before := &unstructured.Unstructured{}
	before.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	before.SetKind("MachineDeployment")
	Expect(t.Get(ctx, client.ObjectKey{Namespace: t.namespace, Name: "workers"}, before)).To(Succeed())
	after := before.DeepCopy()
	spec, found, err := unstructured.NestedMap(after.Object, "spec")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	change(spec)
	after.Object["spec"] = spec
	Expect(t.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}
