package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/importing"
)

// asked returns how often the manager has reached the workload cluster with the client certificate of the given
// serial number, or with any.
func (p *provisioned) asked(serial string) int {
	count := 0
	for _, r := range p.gateway.Requests() {
		if strings.HasPrefix(r.UserAgent, "archelon") && (serial == "" || r.Certificate == serial) && r.Code < http.StatusMultipleChoices {
			count++
		}
	}
	return count
}

func (p *provisioned) kubeconfig() *corev1.Secret {
	return builder.KubeconfigSecret(p.key.Namespace, p.key.Name, nil)
}

// serial returns the serial number of the client certificate in the kubeconfig that Cluster API
// keeps, "" if there is none.
func (w *capiWorld) serial(ctx context.Context, p *provisioned) string {
	GinkgoHelper()
	secret := p.kubeconfig()
	err := w.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		return ""
	}
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	Expect(err).NotTo(HaveOccurred())
	block, _ := pem.Decode(config.CertData)
	Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate.SerialNumber.String()
}

// shorten puts a client certificate into the kubeconfig that ends within a day, and returns its serial number.
func (w *capiWorld) shorten(ctx context.Context, p *provisioned) string {
	GinkgoHelper()
	short, err := p.gateway.Config(ctx)
	Expect(err).NotTo(HaveOccurred())
	secret := p.kubeconfig()
	Expect(w.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	config, err := clientcmd.Load(secret.Data["value"])
	Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = short.CertData, short.KeyData
	}
	before := secret.DeepCopy()
	secret.Data["value"], err = clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	Expect(w.Client.Patch(ctx, secret, client.MergeFrom(before))).To(Succeed())
	block, _ := pem.Decode(short.CertData)
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return certificate.SerialNumber.String()
}

// outage takes the API server of a workload cluster away for as long as the function runs.
func (w *capiWorld) outage(ctx context.Context, p *provisioned, meanwhile func()) {
	GinkgoHelper()
	Expect(w.controllers.StopAPIServer(ctx, p.key)).To(Succeed())
	DeferCleanup(func(ctx context.Context) error {
		return client.IgnoreNotFound(w.controllers.StartAPIServer(ctx, p.key))
	})
	meanwhile()
	Expect(w.controllers.StartAPIServer(ctx, p.key)).To(Succeed())
}

// expectDeleted deletes a Cluster and waits until nothing is left of it: not in Rancher, and not of Cluster API's.
func (w *capiWorld) expectDeleted(ctx context.Context, p *provisioned) {
	GinkgoHelper()
	began := time.Now()
	w.kubectl(ctx, p.key.Namespace, nil, "delete", "cluster/"+p.key.Name, "--wait=false")
	Eventually(w.K(ctx).Get(p.cluster)).WithTimeout(capiPatience).Should(Satisfy(apierrors.IsNotFound))
	AddReportEntry("deleted "+p.key.Name, time.Since(began).Round(time.Second).String())
	w.Rancher.RemoveWorkload(p.key.String())
	Eventually(w.NothingOfRancher(ctx)).WithTimeout(capiPatience).Should(BeEmpty())
	Eventually(func(g Gomega) {
		secrets, machines := &corev1.SecretList{}, &clusterv1.MachineList{}
		g.Expect(w.Client.List(ctx, secrets, client.InNamespace(p.key.Namespace))).To(Succeed())
		g.Expect(w.Client.List(ctx, machines, client.InNamespace(p.key.Namespace))).To(Succeed())
		g.Expect(secrets.Items).To(BeEmpty())
		g.Expect(machines.Items).To(BeEmpty())
	}).WithTimeout(capiPatience).Should(Succeed())
}

// expectConformant asserts what the gateway adds to the API server of a workload cluster. That Cluster API is content
// with the rest, it shows itself.
func expectConformant(ctx context.Context, p *provisioned) {
	GinkgoHelper()
	c := p.inside(ctx)
	owner := client.FieldOwner("test")

	By("applying")
	apply := func(key, value string) {
		GinkgoHelper()
		Expect(c.Apply(ctx, corev1apply.Namespace("gateway").WithLabels(map[string]string{key: value}), owner)).To(Succeed())
	}
	apply("a", "1")
	apply("b", "2")
	namespace := importing.NamespaceOf("gateway")
	Expect(c.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
	Expect(namespace.Labels).To(And(HaveKeyWithValue("a", "1"), HaveKeyWithValue("b", "2")))

	By("generating names, knowing owners that are in no namespace, and deleting by label")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "gateway-", Labels: map[string]string{"gateway": "1"}}}
	Expect(c.Create(ctx, role)).To(Succeed())
	Expect(role.Name).To(MatchRegexp(`^gateway-.{5}$`))
	owned := metav1.OwnerReference{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole", Name: role.Name, UID: "1"}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "gateway-", OwnerReferences: []metav1.OwnerReference{owned}}}
	Expect(c.Create(ctx, account)).To(Succeed())
	Expect(c.Delete(ctx, account)).To(Succeed())
	Expect(c.DeleteAllOf(ctx, &rbacv1.ClusterRole{}, client.MatchingLabels{"gateway": "1"})).To(Succeed())
	Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(role), role))).To(BeTrue())

	By("keeping Jobs")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "gateway-"}}
	Expect(c.Create(ctx, job)).To(Succeed())
	Expect(c.Get(ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
	Expect(c.Delete(ctx, job)).To(Succeed())

	By("deleting what is in a namespace")
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gateway", Name: "inside"}}
	Expect(c.Create(ctx, deployment)).To(Succeed())
	Expect(c.Delete(ctx, namespace)).To(Succeed())
	Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))).To(BeTrue())

	By("asking who it is")
	config, err := p.gateway.Config(ctx)
	Expect(err).NotTo(HaveOccurred())
	nobody, err := client.New(rest.AnonymousClientConfig(config), client.Options{Mapper: c.RESTMapper(), Scheme: c.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(apierrors.IsUnauthorized(nobody.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}))).To(BeTrue())
}
