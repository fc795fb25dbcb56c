package metal3_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/capi"
	"github.com/archelon-io/archelon/test/env"
)

// A cluster of Metal3Machines, as Metal3's templates have it, but for the annotation that says the kind. The worker has
// no data template, so its machine comes without metaData.
const exampleCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Cluster, name: prod}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Cluster
metadata: {name: prod}
spec:
  controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}
  cloudProviderEnabled: false
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3DataTemplate
metadata: {name: control-plane}
spec:
  clusterName: prod
  metaData:
    objectNames:
    - {key: name, object: machine}
    - {key: local-hostname, object: machine}
    - {key: local_hostname, object: machine}
`

// exampleMachine is one of its machines: name, labels, the kubeadm configuration, the data template.
const exampleMachine = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: prod%[2]s}}
spec:
  clusterName: prod
  version: v1.35.0
  bootstrap:
    configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: %[1]s}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3Machine, name: %[1]s}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: prod}}
spec:
  %[3]s:
    nodeRegistration:
      name: "{{ ds.meta_data.name }}"
      kubeletExtraArgs:
      - {name: node-labels, value: "metal3.io/uuid={{ ds.meta_data.uuid }}"}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3Machine
metadata:
  name: %[1]s
  labels: {cluster.x-k8s.io/cluster-name: prod}
  annotations: {hostclaims.metal3.io/kind: baremetal}
spec:
  %[4]s
  hostSelector: {matchLabels: {infra-kind: node}}
  image: {url: https://images.example/node.qcow2, checksum: https://images.example/node.qcow2.md5, format: qcow2}
`

// exampleTemplate is a template of machines, in a version of the provider's API. Its metadata say the kind.
const exampleTemplate = `
apiVersion: infrastructure.cluster.x-k8s.io/%s
kind: Metal3MachineTemplate
metadata: {name: workers}
spec:
  template:
    metadata: {annotations: {hostclaims.metal3.io/kind: kubevirt}}
    spec:
      hostSelector: {matchLabels: {infra-kind: node}}
      image: {url: https://images.example/node.qcow2, checksum: https://images.example/node.qcow2.md5}
`

// exampleDeployment has machines of that template. The annotations of its own template say the args.
const exampleDeployment = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers}
spec:
  clusterName: prod
  replicas: 1
  template:
    metadata: {annotations: {hostclaims.metal3.io/args: '{"flavor":"m1"}'}}
    spec:
      clusterName: prod
      version: v1.35.0
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: Metal3MachineTemplate, name: workers}
`

// Scenario: machines get their hosts through claims from another namespace, and Metal3's released provider looks for
// their nodes by what it knows.
var _ = Describe("A cluster of Metal3Machines on claimed hosts", func() {
	It("has nodes", func(ctx SpecContext) {
		s := newProvidedSite(ctx, "metal3-nodes")
		s.namespaces(ctx, "infra", "team-m")
		nodes := s.workload(ctx, "team-m")
		for _, name := range []string{"one", "two"} {
			s.host(ctx, "infra", name, "node", "team-m")
		}
		admin := &tenant{Client: s.Client, site: s, namespace: "team-m"}
		admin.apply(ctx, exampleCluster)

		By("having a control plane")
		admin.apply(ctx, controlPlane())
		s.boot(ctx, nodes, "infra", "team-m", "prod-0")
		Eventually(s.node(ctx, "team-m", "prod-0")).Should(Equal("prod-0"))

		By("having a worker, whose machine has no metaData of its own")
		admin.apply(ctx, fmt.Sprintf(exampleMachine, "prod-1", "", "joinConfiguration", "automatedCleaningMode: metadata"))
		s.boot(ctx, nodes, "infra", "team-m", "prod-1")
		Eventually(s.node(ctx, "team-m", "prod-1")).Should(Equal("prod-1"))

		By("giving the host back")
		Expect(s.Client.Delete(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "team-m", Name: "prod-1"}})).To(Succeed())
		Eventually(func() []string { return s.hostsOf(ctx, "team-m") }).Should(Equal([]string{"prod-0"}))

		By("taking kind and args from templates, where the API of the provider has them")
		Expect(s.unknown(ctx, "v1beta1")).To(And(ContainSubstring(`"spec.template.metadata"`), ContainSubstring(`"spec.template.spec.kind"`)))
		Expect(s.unknown(ctx, "v1beta2")).To(And(Not(ContainSubstring("spec.template.metadata")), ContainSubstring(`"spec.template.spec.kind"`)))
		admin.apply(ctx, fmt.Sprintf(exampleTemplate, "v1beta2"))
		admin.apply(ctx, exampleDeployment)
		Eventually(func() []metal3v1.HostClaimSpec {
			claims := &metal3v1.HostClaimList{}
			Expect(s.Client.List(ctx, claims, client.InNamespace("team-m"))).To(Succeed())
			var specs []metal3v1.HostClaimSpec
			for _, each := range claims.Items {
				if each.Name != "prod-0" {
					specs = append(specs, each.Spec)
				}
			}
			return specs
		}).Should(ConsistOf(And(
			HaveField("Kind", "kubevirt"), HaveField("Args", Equal(map[string]metal3v1.Argument{"flavor": "m1"})),
		)))
	}, SpecTimeout(12*time.Minute))

	It("moves to another management cluster with its claims and hosts, also when the move breaks off and is repeated", func(ctx SpecContext) {
		here, there := newProvidedSite(ctx, "nodes-here"), newProvidedSite(ctx, "nodes-there")
		for _, s := range []*site{here, there} {
			s.movable(ctx)
		}
		here.namespaces(ctx, moving)
		nodes := here.workload(ctx, moving)
		for _, name := range []string{"h1", "h2"} {
			here.host(ctx, moving, name, "node", moving)
		}
		admin := &tenant{Client: here.Client, site: here, namespace: moving}
		admin.apply(ctx, exampleCluster)
		admin.apply(ctx, controlPlane())
		here.boot(ctx, nodes, moving, moving, "prod-0")
		Eventually(here.node(ctx, moving, "prod-0")).Should(Equal("prod-0"))
		host := admin.claim(ctx, "prod-0").Status.BareMetalHost.Name
		seenHere, seenThere := here.watch(ctx), there.watch(ctx)

		By("breaking off a move, and going on here")
		there.refuse(ctx, host)
		Expect(move(ctx, here, there)).NotTo(Succeed())
		here.pause(ctx, "prod", false)
		Eventually(func() map[string]string { return here.getHost(ctx, moving, host).Annotations }).ShouldNot(HaveKey(bmov1.PausedAnnotation))
		Eventually(admin.ready(ctx, "prod-0")).Should(BeTrue())
		Eventually(here.state(ctx, moving, "prod-0")).Should(HavePrefix("provisioned"), "the host that stands for the real one")

		By("repeating the move")
		there.admit(ctx)
		Expect(move(ctx, here, there)).To(Succeed())
		b := &tenant{Client: there.Client, site: there, namespace: moving}
		Eventually(b.ready(ctx, "prod-0")).Should(BeTrue())
		Expect(b.claim(ctx, "prod-0").Status.BareMetalHost.Name).To(Equal(host))
		Eventually(there.node(ctx, moving, "prod-0")).Should(Equal("prod-0"))
		Eventually(there.state(ctx, moving, "prod-0")).Should(HavePrefix("provisioned"), "the host that stands for the real one")
		Expect(here.state(ctx, moving, host)()).To(Equal("NotFound"))
		Expect(seenHere(host)).To(HaveEach("provisioned prod-0"))
		Expect(seenThere(host)).To(HaveEach(BeElementOf(" prod-0", "provisioned prod-0")))

		By("deleting the machine there")
		Expect(there.Client.Delete(ctx, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: moving, Name: "prod-0"}})).To(Succeed())
		Eventually(there.state(ctx, moving, host)).Should(Equal("available"))
	}, SpecTimeout(15*time.Minute))
})

// controlPlane is a machine of the control plane.
func controlPlane() string {
	return fmt.Sprintf(exampleMachine, "prod-0", `, cluster.x-k8s.io/control-plane: ""`, "initConfiguration", "dataTemplate: {name: control-plane}")
}

// newProvidedSite returns a management cluster with Cluster API and Metal3, and Archelon.
func newProvidedSite(ctx context.Context, name string) *site {
	GinkgoHelper()
	s := newSite(ctx, name)
	controllers, err := capi.Start(ctx, capi.Options{Cluster: s.Management, Metal3: true, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controllers.Stop()).To(Succeed()) })
	s.operate(ctx)
	s.manage(ctx, "host-claim-machines")
	return s
}

// unknown returns what an API server, asked to validate fields, says of a template that also has kind and args as
// fields.
func (s *site) unknown(ctx context.Context, version string) string {
	GinkgoHelper()
	template := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(fmt.Sprintf(exampleTemplate, version)), &template.Object)).To(Succeed())
	template.SetNamespace("team-m")
	fields := map[string]any{"kind": "kubevirt", "args": map[string]any{"flavor": "m1"}}
	for name, value := range fields {
		Expect(unstructured.SetNestedField(template.Object, value, "spec", "template", "spec", name)).To(Succeed())
	}
	err := s.Client.Create(ctx, template, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	Expect(err).To(HaveOccurred())
	return err.Error()
}

// workload starts the API server of the cluster in the examples.
func (s *site) workload(ctx context.Context, namespace string) client.Client {
	GinkgoHelper()
	plane, err := s.Workload(ctx, env.Options{Name: "prod"})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	nodes, err := client.New(plane.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	Expect(s.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}},
		Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": kubeconfig},
	})).To(Succeed())
	return nodes
}

// hostsOf returns the claims of a namespace that have hosts, in the order of these.
func (s *site) hostsOf(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	hosts := &bmov1.BareMetalHostList{}
	Expect(s.Client.List(ctx, hosts, client.InNamespace("infra"))).To(Succeed())
	var names []string
	for _, each := range hosts.Items {
		if ref := each.Spec.ConsumerRef; ref != nil && ref.Namespace == namespace {
			names = append(names, ref.Name)
		}
	}
	return names
}

// boot plays the server of a machine once it is provisioned: cloud-init fills the user data in from the config drive,
// in which the baremetal-operator (v0.13.2) tells of the host where the Secret with metaData does not, and kubeadm has
// the kubelet register the node.
func (s *site) boot(ctx context.Context, nodes client.Client, hostsIn, namespace, machine string) {
	GinkgoHelper()
	var host *bmov1.BareMetalHost
	Eventually(func() string {
		hosts := &bmov1.BareMetalHostList{}
		Expect(s.Client.List(ctx, hosts, client.InNamespace(hostsIn))).To(Succeed())
		for i, each := range hosts.Items {
			if ref := each.Spec.ConsumerRef; ref != nil && ref.Kind == metal3v1.HostClaimKind && ref.Namespace == namespace && ref.Name == machine {
				host = &hosts.Items[i]
				return string(host.Status.Provisioning.State)
			}
		}
		return "unclaimed"
	}).WithContext(ctx).Should(Equal("provisioned"))

	metaData := map[string]any{
		"uuid": string(host.UID), "metal3-namespace": host.Namespace, "metal3-name": host.Name, "name": host.Name,
		"local-hostname": host.Name, "local_hostname": host.Name,
	}
	if host.Spec.MetaData != nil {
		var told map[string]any
		Expect(yaml.Unmarshal(s.data(ctx, host.Spec.MetaData, "metaData"), &told)).To(Succeed())
		maps.Copy(metaData, told)
	}
	filled := regexp.MustCompile(`\{\{ *ds\.meta_data\.([a-z_-]+) *\}\}`).ReplaceAllStringFunc(
		string(s.data(ctx, host.Spec.UserData, "userData")), func(found string) string {
			key := strings.TrimSpace(strings.TrimPrefix(strings.Trim(found, "{ }"), "ds.meta_data."))
			return fmt.Sprint(metaData[key])
		})
	_, registration, _ := strings.Cut(filled, "nodeRegistration:")
	name := regexp.MustCompile(`(?m)^\s*name: '?([a-z0-9-]+)'?$`).FindStringSubmatch(registration)
	uuid := regexp.MustCompile(`metal3\.io/uuid=([a-zA-Z0-9-]+)`).FindStringSubmatch(registration)
	Expect(name).NotTo(BeNil(), registration)
	Expect(uuid).NotTo(BeNil(), registration)
	Expect(nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name[1], Labels: map[string]string{"metal3.io/uuid": uuid[1], "kubernetes.io/hostname": name[1]},
	}})).To(Succeed())
}

// data returns what a host finds in a Secret.
func (s *site) data(ctx context.Context, ref *corev1.SecretReference, key string) []byte {
	GinkgoHelper()
	Expect(ref).NotTo(BeNil(), key)
	secret := &corev1.Secret{}
	Expect(s.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret)).To(Succeed())
	if raw, ok := secret.Data[key]; ok {
		return raw
	}
	return secret.Data["value"]
}

// node returns a function for Eventually: the node of a Machine, or what the Machine waits for.
func (s *site) node(ctx context.Context, namespace, name string) func() string {
	return func() string {
		machine := &clusterv1.Machine{}
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, machine); err != nil {
			return err.Error()
		}
		if machine.Status.NodeRef.Name == "" {
			return machine.Status.Phase + " without a node"
		}
		return machine.Status.NodeRef.Name
	}
}
