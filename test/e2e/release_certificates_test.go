package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/node"
)

// Scenario: cert-manager makes the certificates of the webhook. The manager has its Secret as files, which are replaced below it.
var _ = Describe("A release with certificates from cert-manager", Ordered, func() {
	var (
		c     = &certManager{releases: &releases{}}
		first *x509.Certificate
	)
	JustAfterEach(func(ctx context.Context) { c.describePods(ctx) })
	BeforeAll(func(ctx context.Context) {
		c.start(ctx)
		install(c.Stage, builder.CertManagerCRDs())
		c.release = c.releases.release(ctx, "archelon", map[string]any{"replicas": 1, "webhook": map[string]any{
			"enabled": true, "failurePolicy": "Fail", "certificates": map[string]any{"mode": "cert-manager"},
		}})
		c.release.Wait = false // The Pod waits for the Secret.
		c.install(ctx, c.release)
		first = c.issue(ctx)
	})

	It("judges with the certificate that is mounted", func(ctx context.Context) {
		Eventually(c.pod).WithContext(ctx).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", corev1.PodReady), HaveField("Status", corev1.ConditionTrue),
		))))
		c.inject(ctx)
		Eventually(c.judges).WithContext(ctx).Should(Succeed())
		Expect(c.served(ctx)).To(Equal(first))
	})

	It("takes the next certificate, of another CA, without a restart", func(ctx context.Context) {
		before, err := c.pod(ctx)
		Expect(err).NotTo(HaveOccurred())
		second := c.issue(ctx)
		Expect(second).NotTo(Equal(first))
		c.inject(ctx)
		Eventually(c.served).WithContext(ctx).Should(Equal(second))
		Eventually(c.judges).WithContext(ctx).Should(Succeed())
		after, err := c.pod(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Status.ContainerStatuses).To(HaveExactElements(HaveField("RestartCount", BeZero())))
		c.expectLawful(c.release)
	})
})

// certManager is a release whose certificates come from there, and does what its controllers do.
type certManager struct {
	*releases
	release helm.Release
}

// certificate returns what the chart asks for.
func (c *certManager) certificate(ctx context.Context) *unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateList"})
	Expect(c.Client.List(ctx, list, client.InNamespace(c.release.Namespace))).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

func (c *certManager) secret(ctx context.Context) *corev1.Secret {
	GinkgoHelper()
	name, _, err := unstructured.NestedString(c.certificate(ctx).Object, "spec", "secretName")
	Expect(err).NotTo(HaveOccurred())
	return &corev1.Secret{ObjectMeta: objectMeta(c.release.Namespace, name)}
}

func (c *certManager) names(ctx context.Context) []string {
	GinkgoHelper()
	names, _, err := unstructured.NestedStringSlice(c.certificate(ctx).Object, "spec", "dnsNames")
	Expect(err).NotTo(HaveOccurred())
	Expect(names).NotTo(BeEmpty())
	return names
}

// issue writes the Secret of the Certificate, with a new CA, and returns the certificate. It is for this machine as well: see inject.
func (c *certManager) issue(ctx context.Context) *x509.Certificate {
	GinkgoHelper()
	names := c.names(ctx)
	chain, key, err := certutil.GenerateSelfSignedCertKey(names[0], nil, append(names[1:], "localhost"))
	Expect(err).NotTo(HaveOccurred())
	leaf, authority := pem.Decode(chain)
	Expect(leaf).NotTo(BeNil())
	secret := c.secret(ctx)
	_, err = controllerutil.CreateOrUpdate(ctx, c.Client, secret, func() error {
		secret.Type = corev1.SecretTypeTLS
		secret.Data = map[string][]byte{"ca.crt": authority, corev1.TLSCertKey: pem.EncodeToMemory(leaf), corev1.TLSPrivateKeyKey: key}
		return nil
	})
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(leaf.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate
}

// inject has the API server trust the CA in the Secret, as the annotation of the webhook configuration asks for. It has it call the Pod at its address,
// too: Services lead nowhere here.
func (c *certManager) inject(ctx context.Context) {
	GinkgoHelper()
	certificate := c.certificate(ctx)
	authority := current(ctx, c.fixture, c.secret(ctx)).Data["ca.crt"]
	address, err := c.address(ctx)
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		configurations := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		if err := c.Client.List(ctx, configurations, client.MatchingLabels{"app.kubernetes.io/instance": c.release.Name}); err != nil {
			return err
		}
		Expect(configurations.Items).To(HaveLen(1))
		configuration := &configurations.Items[0]
		Expect(configuration.Annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", client.ObjectKeyFromObject(certificate).String()))
		for i := range configuration.Webhooks {
			to := &configuration.Webhooks[i].ClientConfig
			to.CABundle = authority
			if to.Service != nil {
				Expect(c.names(ctx)).To(ContainElement(fmt.Sprintf("%s.%s.svc", to.Service.Name, to.Service.Namespace)))
				to.URL, to.Service = new("https://"+net.JoinHostPort("localhost", port)+*to.Service.Path), nil
			}
		}
		return c.Client.Update(ctx, configuration)
	})).To(Succeed())
}

func (c *certManager) pod(ctx context.Context) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := c.Client.List(ctx, pods, client.InNamespace(c.release.Namespace)); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("there are %d Pods", len(pods.Items))
	}
	return &pods.Items[0], nil
}

// address is where the webhook listens.
func (c *certManager) address(ctx context.Context) (string, error) {
	machine, ok := c.node.(*node.Node)
	if !ok {
		return "", errors.New("only on a node of this machine is the address of a Pod known")
	}
	pod, err := c.pod(ctx)
	if err != nil {
		return "", err
	}
	return machine.Address(client.ObjectKeyFromObject(pod), "webhook")
}

// served returns the certificate that the webhook shows, if somebody who trusts the CA in the Secret accepts it for the Service.
func (c *certManager) served(ctx context.Context) (*x509.Certificate, error) {
	address, err := c.address(ctx)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(current(ctx, c.fixture, c.secret(ctx)).Data["ca.crt"])
	connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: c.names(ctx)[0]}}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	encrypted, ok := connection.(*tls.Conn)
	if !ok {
		return nil, errors.New("the connection is not encrypted")
	}
	return encrypted.ConnectionState().PeerCertificates[0], nil
}

// judges reports why the webhook does not refuse a wrong label and let a right one pass. A call that fails is neither.
func (c *certManager) judges(ctx context.Context) error {
	labelled := func(value string) error {
		cluster := builder.Cluster(watch1, "judged")
		cluster.Labels = map[string]string{importLabel: value}
		return c.Client.Create(ctx, cluster, client.DryRunAll)
	}
	err := labelled("maybe")
	if err == nil {
		return errors.New("a wrong label was let pass")
	}
	if !strings.Contains(err.Error(), `set it to "true"`) {
		return err
	}
	return labelled("true")
}
