package metal3_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/metal3"
)

// moving is the namespace of the clusters that are moved. Hosts and claims are in one, as the proposal has it.
const moving = "metal"

const movedClaim = `
apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata:
  name: %s
  labels: {cluster.x-k8s.io/cluster-name: management}
spec:
  online: true
  kind: baremetal
  image: {url: https://images.example/%[1]s.qcow2, checksum: https://images.example/os.qcow2.md5, format: qcow2}
  userData: {name: user-data}
  hostSelector: {matchLabels: {infra-kind: node}}
`

var _ = Describe("Moving claims to another management cluster", Ordered, func() {
	var here, there *site
	var a *tenant

	BeforeAll(func(ctx SpecContext) {
		here, there = newSite(ctx, "move-here"), newSite(ctx, "move-there")
		for _, s := range []*site{here, there} {
			s.movable(ctx)
			s.operate(ctx)
			s.manage(ctx)
		}
		a = here.tenant(ctx, moving, tenantRole)
		for _, name := range []string{"h1", "h2", "h3"} {
			here.host(ctx, moving, name, "node", moving)
		}
		for _, name := range []string{"h1", "h2", "h3"} {
			Eventually(here.state(ctx, moving, name)).Should(Equal("available"))
		}
		cluster := builder.Cluster(moving, "management")
		Expect(here.Client.Create(ctx, cluster)).To(Succeed())
		builder.ControlPlaneUp(cluster)
		builder.SetCondition(cluster, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue, "Initialized")
		Expect(here.Client.Status().Update(ctx, cluster)).To(Succeed())
		Expect(here.Client.Create(ctx, &metal3v1.HostDeployPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: moving, Name: "policy"},
			Spec: metal3v1.HostDeployPolicySpec{
				HostClaimNamespaces: &metal3v1.HostClaimNamespaces{Names: []string{moving}},
			},
		})).To(Succeed())
		Expect(a.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: moving, Name: "user-data", Labels: map[string]string{"clusterctl.cluster.x-k8s.io/move": ""},
			},
			StringData: map[string]string{"value": "the cluster's"},
		})).To(Succeed())
		for _, name := range []string{"c1", "c2"} {
			a.apply(ctx, fmt.Sprintf(movedClaim, name))
			Eventually(a.ready(ctx, name)).Should(BeTrue())
		}
	}, NodeTimeout(12*time.Minute))

	It("gives each its host again, and nobody's disk is touched, also when the move breaks off and is repeated", func(ctx SpecContext) {
		hosts := map[string]string{}
		for _, name := range []string{"c1", "c2"} {
			hosts[name] = a.claim(ctx, name).Status.BareMetalHost.Name
		}
		seenHere, seenThere := here.watch(ctx), there.watch(ctx)
		last := hosts["c2"]

		By("breaking off a move")
		there.refuse(ctx, last)
		Expect(move(ctx, here, there)).NotTo(Succeed())
		Eventually(there.state(ctx, moving, hosts["c1"])).Should(Equal(" of " + moving + "/c1"))
		first := there.getHost(ctx, moving, hosts["c1"])
		Expect(first.Annotations).To(HaveKeyWithValue(bmov1.PausedAnnotation, "metal3.io/hostclaim"))
		Expect(there.state(ctx, moving, last)()).To(Equal("NotFound"))
		Consistently(func() any {
			return there.getHost(ctx, moving, hosts["c1"]).ResourceVersion
		}, "3s").Should(Equal(first.ResourceVersion), "who owns it has not been decided")

		By("going on where it was")
		// clusterctl moves nothing that is paused, and leaves it paused when it fails.
		here.pause(ctx, "management", false)
		for name, host := range hosts {
			Eventually(func() map[string]string { return here.getHost(ctx, moving, host).Annotations }).ShouldNot(HaveKey(bmov1.PausedAnnotation))
			Eventually(a.ready(ctx, name)).Should(BeTrue())
		}

		By("repeating the move")
		there.admit(ctx)
		Expect(move(ctx, here, there)).To(Succeed())
		b := &tenant{Client: there.Client, site: there, namespace: moving}
		for name, host := range hosts {
			Eventually(b.ready(ctx, name)).Should(BeTrue())
			Eventually(b.condition(ctx, name, "Associated")).Should(Equal(bound))
			claim, is := b.claim(ctx, name), there.getHost(ctx, moving, host)
			Expect(claim.Status.BareMetalHost).To(HaveValue(Equal(metal3v1.ObjectReference{Namespace: moving, Name: host})))
			Expect(is.Spec.ConsumerRef.UID).To(Equal(claim.UID))
			Expect(there.state(ctx, moving, host)()).To(Equal("provisioned https://images.example/" + name + ".qcow2 of " + moving + "/" + name))
			Expect(is.Annotations).NotTo(Or(HaveKey(bmov1.PausedAnnotation), HaveKey(bmov1.StatusAnnotation)))
			Eventually(func() map[string]string { return b.claim(ctx, name).Annotations }).ShouldNot(HaveKey(metal3v1.ParkedAnnotation))
			Expect(seenHere(host)).To(HaveEach("provisioned " + name))
			Expect(seenThere(host)).To(HaveEach(BeElementOf(" "+name, "provisioned "+name)))
		}
		Expect(there.secrets(ctx, moving)).To(HaveKeyWithValue("user-data", "the cluster's"))
		Expect(there.Client.Get(ctx, types.NamespacedName{Namespace: moving, Name: "policy"}, &metal3v1.HostDeployPolicy{})).To(Succeed())
		for _, list := range []client.ObjectList{&metal3v1.HostClaimList{}, &bmov1.BareMetalHostList{}, &metal3v1.HostDeployPolicyList{}} {
			Expect(here.Client.List(ctx, list, client.InNamespace(moving))).To(Succeed())
			Expect(listed(list)).To(BeEmpty())
		}

		By("giving a host back there")
		b.remove(ctx, "c1")
		Eventually(there.state(ctx, moving, hosts["c1"])).Should(Equal("available"))
		Expect(there.getHost(ctx, moving, hosts["c1"]).Annotations).NotTo(HaveKey("clusterctl.cluster.x-k8s.io/block-move"))
	}, SpecTimeout(15*time.Minute))
})

func listed(list client.ObjectList) []string {
	var names []string
	switch is := list.(type) {
	case *metal3v1.HostClaimList:
		for _, each := range is.Items {
			names = append(names, each.Name)
		}
	case *bmov1.BareMetalHostList:
		for _, each := range is.Items {
			names = append(names, each.Name)
		}
	case *metal3v1.HostDeployPolicyList:
		for _, each := range is.Items {
			names = append(names, each.Name)
		}
	}
	return names
}

// movable gives CRDs the labels by which clusterctl finds what it moves: those of Metal3's operator as the docs say,
// and those of Cluster API's providers as `clusterctl init` does.
func (s *site) movable(ctx context.Context) {
	GinkgoHelper()
	names := map[string]string{"hardwaredata.metal3.io": "move", "baremetalhosts.metal3.io": "move-hierarchy"}
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	Expect(s.Client.List(ctx, crds)).To(Succeed())
	for _, crd := range crds.Items {
		if strings.HasSuffix(crd.Name, ".cluster.x-k8s.io") || strings.HasSuffix(crd.Name, ".ipam.metal3.io") {
			names[crd.Name] = ""
		}
	}
	for name, label := range names {
		patch := `{"metadata":{"labels":{"clusterctl.cluster.x-k8s.io":""`
		if label != "" {
			patch += `,"clusterctl.cluster.x-k8s.io/` + label + `":""`
		}
		crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		Expect(s.Client.Patch(ctx, crd, client.RawPatch(types.MergePatchType, []byte(patch+"}}}")))).To(Succeed())
	}
}

// move runs clusterctl.
func move(ctx context.Context, from, to *site) error {
	GinkgoHelper()
	program, err := metal3.Program(ctx, "clusterctl")
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	for name, s := range map[string]*site{"from": from, "to": to} {
		kubeconfig, err := s.Management.LocalKubeconfig()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, name), kubeconfig, 0o600)).To(Succeed())
	}
	cmd := exec.CommandContext(
		ctx, program, "move", "--namespace="+moving, "--kubeconfig="+filepath.Join(dir, "from"),
		"--to-kubeconfig="+filepath.Join(dir, "to"), "-v=2",
	)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	cmd.Stdout, cmd.Stderr = GinkgoWriter, GinkgoWriter
	return cmd.Run()
}

func (s *site) pause(ctx context.Context, name string, paused bool) {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: moving, Name: name}}
	patch := fmt.Sprintf(`{"spec":{"paused":%t}}`, paused)
	Expect(s.Client.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// refuse has the API server refuse a host.
func (s *site) refuse(ctx context.Context, name string) {
	GinkgoHelper()
	fail := admissionregistrationv1.Fail
	Expect(s.Client.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{"metal3.io"}, APIVersions: []string{"*"}, Resources: []string{"baremetalhosts"},
						},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.metadata.name != %q", name)}},
		},
	})).To(Succeed())
	Expect(s.Client.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuse", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	Eventually(func() error { return s.try(ctx, name) }).Should(Satisfy(apierrors.IsInvalid))
}

// admit undoes it.
func (s *site) admit(ctx context.Context) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Name: "refuse"}
	Expect(s.Client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta})).To(Succeed())
	Expect(s.Client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta})).To(Succeed())
	Eventually(func() error { return s.try(ctx, "refused") }).Should(Succeed())
}

// try asks whether a host would be accepted.
func (s *site) try(ctx context.Context, name string) error {
	host := &bmov1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       bmov1.BareMetalHostSpec{BMC: bmov1.BMCDetails{Address: "x", CredentialsName: "x"}},
	}
	return s.Client.Create(ctx, host, client.DryRunAll)
}

// watch notes in which states hosts are, and whose they are. The returned function says what was seen of one.
func (s *site) watch(ctx context.Context) func(name string) []string {
	GinkgoHelper()
	return s.watchHosts(ctx, moving, func(host *bmov1.BareMetalHost) string {
		what := string(host.Status.Provisioning.State) + " "
		if ref := host.Spec.ConsumerRef; ref != nil {
			what += ref.Name
		}
		return what
	})
}

// watchHosts returns a function that says what was seen of each version of a host of a namespace.
func (s *site) watchHosts(ctx context.Context, namespace string, say func(*bmov1.BareMetalHost) string) func(name string) []string {
	GinkgoHelper()
	with, err := client.NewWithWatch(s.Management.Config, client.Options{Scheme: s.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	hosts, err := with.Watch(context.WithoutCancel(ctx), &bmov1.BareMetalHostList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(hosts.Stop)
	var mu sync.Mutex
	seen := map[string][]string{}
	go func() {
		for event := range hosts.ResultChan() {
			if host, ok := event.Object.(*bmov1.BareMetalHost); ok {
				mu.Lock()
				seen[host.Name] = append(seen[host.Name], say(host))
				mu.Unlock()
			}
		}
	}()
	return func(name string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen[name])
	}
}
