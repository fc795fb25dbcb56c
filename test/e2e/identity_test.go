package e2e

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// Scenario 25: clusters on OCI name the identity that they work with.
var _ = Describe("OCI identities", Ordered, func() {
	const vault, infra = "vault", "infra"
	var (
		f        *fixture
		identity *identityv1.OCIClusterIdentity
		key      []byte
		// fingerprint is that of the key.
		fingerprint string
	)
	// allow has the clusters of some namespaces use the identity.
	allow := func(ctx context.Context, namespaces ...string) {
		GinkgoHelper()
		f.Patch(ctx, importing.Current(ctx, f.Client, identity), func(client.Object) {
			identity.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{NamespaceList: append([]string{}, namespaces...)}
		})
	}
	message := func(ctx context.Context, cluster *clusterv1.Cluster) func() string {
		return func() string {
			if c := conditions.Get(importing.Current(ctx, f.Client, cluster), importing.Condition); c != nil {
				return c.Message
			}
			return ""
		}
	}

	BeforeAll(func(ctx context.Context) {
		f = newFixture(ctx, stage.Options{Name: "identity", Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr }})
		crds, err := env.CAPOCICRDs()
		Expect(err).NotTo(HaveOccurred())
		for _, crd := range crds {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
			Expect(err).NotTo(HaveOccurred())
			object := &unstructured.Unstructured{Object: content}
			object.SetAPIVersion("apiextensions.k8s.io/v1")
			object.SetKind("CustomResourceDefinition")
			Expect(f.Client.Create(ctx, object)).To(Succeed())
		}
		for _, name := range []string{vault, infra} {
			Expect(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}
		settings, on := map[string]any{"secretNamespaces": []any{vault}, "trustedNamespaces": []any{infra}}, "oci-cluster-identity=true"
		if !importing.Isolated() { // It is for the instance that works in the namespace of these identities.
			settings["credentials"], on = map[string]any{"namespace": vault, "allowedNamespaces": []any{infra}}, on+",oci-credential-translation=true"
		}
		f.Values = map[string]any{"identity": settings, "admissionPolicy": map[string]any{"enabled": true}}
		// Resyncs are too far apart to bring anything on.
		f.startManager(ctx, importing.Loud, "--feature-gates="+on, "--sync-period=1h")

		pair, err := rsa.GenerateKey(rand.Reader, 2048)
		Expect(err).NotTo(HaveOccurred())
		key = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(pair)})
		der, err := x509.MarshalPKIXPublicKey(&pair.PublicKey)
		Expect(err).NotTo(HaveOccurred())
		fingerprint = strings.TrimSuffix(regexp.MustCompile("..").ReplaceAllString(fmt.Sprintf("%x", md5.Sum(der)), "$0:"), ":")
		Expect(f.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "key"}, Data: map[string][]byte{
			"tenancy": []byte("ocid1.tenancy.oc1..aaaatenancy"), "user": []byte("ocid1.user.oc1..aaaauser"),
			"fingerprint": []byte(strings.Repeat("ab:", 15) + "ab"), "key": key,
		}})).To(Succeed())
		identity = &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: infra, Name: "team"}, Spec: identityv1.OCIClusterIdentitySpec{
			Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: vault, Name: "key"},
			AllowedNamespaces: &identityv1.AllowedNamespaces{NamespaceList: []string{}},
		}}
		Eventually(func() error { return f.Client.Create(ctx, identity.DeepCopy()) }).Should(Succeed(), "its CRD is established")
	})

	It("imports no cluster whose identity is not for it, imports it by itself once it is, and keeps it whatever comes", func(ctx context.Context) {
		namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		cluster := f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
			c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: identityv1.GroupName, Kind: "OCICluster", Name: "net"}
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/IdentityNotEvaluated"))
		Expect(f.Client.Create(ctx, &infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net"}, Spec: infrav1.ClusterSpec{
			IdentityRef: &corev1.ObjectReference{APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity", Namespace: infra, Name: "team"},
		}})).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/NamespaceNotAllowed"))
		Expect(message(ctx, cluster)()).To(ContainSubstring("OCIClusterIdentity infra/team: Namespace " + namespace + " is not in spec.allowedNamespaces.list"))
		Consistently(func() int { return len(f.V1Records(ctx, cluster)) }).WithTimeout(importing.Quiet).Should(BeZero())
		Expect(importing.Current(ctx, f.Client, cluster).Annotations).NotTo(HaveKey(importing.RecordKey))

		By("allowing it")
		allow(ctx, namespace)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(message(ctx, cluster)()).To(BeEmpty())

		By("taking the permission away")
		allow(ctx)
		Eventually(message(ctx, cluster)).Should(ContainSubstring("its OCI identity is now refused (NamespaceNotAllowed)"))
		Consistently(f.Reason(ctx, cluster)).WithTimeout(importing.Quiet).Should(Equal("True/Imported"))
		Expect(f.V1Records(ctx, cluster)).To(HaveLen(1))

		By("deleting it all the same")
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	})

	It("imports clusters of other providers, and those without an identity", func(ctx context.Context) {
		namespace := f.Namespace(ctx, map[string]string{importing.ImportLabel: "true"})
		Expect(f.Client.Create(ctx, &infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "net"}})).To(Succeed())
		cluster := f.Cluster(ctx, namespace, "prod", func(c *clusterv1.Cluster) {
			c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: identityv1.GroupName, Kind: "OCICluster", Name: "net"}
		})
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.Client.Delete(ctx, cluster)).To(Succeed())
		Eventually(f.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
		f.ExpectNothingLeft(ctx, cluster)
	})

	It("creates identities for cloud credentials, and takes them away", func(ctx context.Context) {
		if importing.Isolated() {
			Skip("another instance works in the namespace of these identities")
		}
		credential := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "cattle-global-data", Name: "cc-e2e", Annotations: map[string]string{"provisioning.cattle.io/driver": "oracle"},
			},
			Data: map[string][]byte{
				"ocicredentialConfig-tenancyId": []byte("ocid1.tenancy.oc1..aaaatenancy"), "ocicredentialConfig-userId": []byte("ocid1.user.oc1..aaaauser"),
				"ocicredentialConfig-fingerprint": []byte(fingerprint), "ocicredentialConfig-privateKeyContents": key,
			},
		}
		Expect(f.Client.Create(ctx, credential)).To(Succeed())
		created := &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: credential.Name}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: credential.Name}}
		Eventually(func() string {
			if f.Client.Get(ctx, client.ObjectKeyFromObject(created), created) != nil {
				return ""
			}
			text := ""
			for _, condition := range created.Status.Conditions {
				text += condition.Type + "=" + condition.Reason + " "
			}
			return text
		}).Should(And(ContainSubstring("Ready=Ready"), ContainSubstring("Translated=RegionMissing")))
		Expect(created.Spec.AllowedNamespaces.NamespaceList).To(Equal([]string{infra}))
		Expect(f.Client.Delete(ctx, credential)).To(Succeed())
		for _, object := range []client.Object{created, secret} {
			Eventually(func() error { return f.Client.Get(ctx, client.ObjectKeyFromObject(object), object) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
	})

	It("has shown whether the identity works, printed and stored nothing of the key, and asked for nothing that it may not", func(ctx context.Context) {
		if !importing.Isolated() { // The identity is where another instance works, which shows it.
			Eventually(func() string {
				if ready := importing.Current(ctx, f.Client, identity).Condition(identityv1.ReadyCondition); ready != nil {
					return ready.Reason + ": " + ready.Message
				}
				return ""
			}).Should(And(HavePrefix("CredentialInvalid"), ContainSubstring("fingerprint belongs to another key")))
		}
		texts := []string{f.Manager.Logs()}
		for _, list := range []client.ObjectList{&corev1.EventList{}, &clusterv1.ClusterList{}, &identityv1.OCIClusterIdentityList{}, &infrav1.OCIClusterList{}} {
			Expect(f.Client.List(ctx, list)).To(Succeed())
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
			Expect(err).NotTo(HaveOccurred())
			text, err := (&unstructured.Unstructured{Object: raw}).MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			texts = append(texts, string(text))
		}
		Expect(texts[0]).To(ContainSubstring("oci-cluster-identity"), "the log was collected")
		for _, text := range texts {
			for line := range strings.Lines(string(key)) {
				line = strings.TrimSpace(line)
				Expect(text).NotTo(Or(ContainSubstring(line), ContainSubstring(base64.StdEncoding.EncodeToString([]byte(line)))))
			}
			Expect(text).NotTo(ContainSubstring("aaaatenancy"))
		}
		for _, request := range f.Requests() {
			if request.ResponseStatus != nil {
				Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(403), "%s %s", request.Verb, request.RequestURI)
			}
		}
	})
})
