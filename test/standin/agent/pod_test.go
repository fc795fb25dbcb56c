package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

func object(kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: kind})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// manifest downloads what an importer applies.
func manifest(ctx context.Context, r *remote.Remote, cluster string) []*unstructured.Unstructured {
	GinkgoHelper()
	var url string
	Eventually(func(g Gomega) {
		crt := object("ClusterRegistrationToken", cluster, "default-token")
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(crt), crt)).To(Succeed())
		url, _, _ = unstructured.NestedString(crt.Object, "status", "manifestUrl")
		g.Expect(url).NotTo(BeEmpty())
		secret := &corev1.Secret{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: cluster, Name: "crt-token-default-token"}, secret)).To(Succeed())
		url = strings.ReplaceAll(url, "{token}", string(secret.Data["token"]))
	}).Should(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(r.CACert())).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(response.Body, 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			Expect(errors.Is(err, io.EOF)).To(BeTrue(), err.Error())
			return objects
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

func apply(ctx context.Context, objects []*unstructured.Unstructured) {
	GinkgoHelper()
	for _, u := range objects {
		if u.GetKind() == "ClusterRoleBinding" {
			u.SetNamespace("") // the stray one
		}
		Expect(admin.Create(ctx, u)).To(Succeed(), u.GetKind())
	}
}

// connected returns the status of a condition of a v3 Cluster.
func connected(ctx context.Context, cluster string) (string, error) {
	u := object("Cluster", "", cluster)
	if err := admin.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return "", err
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if entry, _ := c.(map[string]any); entry["type"] == "Connected" {
			status, _ := entry["status"].(string)
			return status, nil
		}
	}
	return "", nil
}

// credentials returns which Secrets the agent's Pods mount.
func credentials(ctx context.Context) ([]string, error) {
	list := &corev1.PodList{}
	err := admin.List(ctx, list, client.InNamespace("cattle-system"))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Spec.Volumes[0].Secret.SecretName)
	}
	return names, err
}

func absent(ctx context.Context, obj client.Object) (bool, error) {
	err := admin.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// leftovers returns what the clean-up has not removed yet.
func leftovers(ctx context.Context) ([]string, error) {
	var left []string
	jobs, roles, bindings, accounts := &batchv1.JobList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &corev1.ServiceAccountList{}
	pods := &corev1.PodList{}
	for _, list := range []client.ObjectList{jobs, roles, bindings, accounts, pods} {
		if err := admin.List(ctx, list); err != nil {
			return nil, err
		}
	}
	note := func(meta metav1.ObjectMeta) {
		if strings.HasPrefix(meta.Name, "cattle-") {
			left = append(left, meta.Name)
		}
	}
	for i := range jobs.Items {
		note(jobs.Items[i].ObjectMeta)
	}
	for i := range roles.Items {
		note(roles.Items[i].ObjectMeta)
	}
	for i := range bindings.Items {
		note(bindings.Items[i].ObjectMeta)
	}
	for i := range accounts.Items {
		note(accounts.Items[i].ObjectMeta)
	}
	for i := range pods.Items {
		note(pods.Items[i].ObjectMeta)
	}
	return left, nil
}

var _ = Describe("Stand-in and agent as Pods", Ordered, func() {
	const name = "c-pods1"
	var standin *corev1.Pod
	var control *remote.Remote
	isConnected := func() bool { _, ok := control.Connected(name); return ok }

	BeforeAll(func(ctx SpecContext) {
		standin, control = startStandin(ctx)
		Expect(control.Ready(ctx)).To(Succeed())
		Expect(control.AddWorkload("self", plane.Config, rancher.RealAgent)).To(Succeed())
	}, NodeTimeout(10*time.Minute))

	It("connect once the imported manifest has become a Pod", func(ctx SpecContext) {
		cluster := object("Cluster", "", name)
		cluster.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"})
		cluster.Object["spec"] = map[string]any{
			"displayName": "demo",
			// test/node moves a mountPath where it is mentioned.
			"agentEnvVars": []any{map[string]any{"name": "STANDIN_CREDENTIALS", "value": "/cattle-credentials"}},
		}
		Expect(admin.Create(ctx, cluster)).To(Succeed())
		apply(ctx, manifest(ctx, control, name))
		Eventually(connected).WithContext(ctx).WithArguments(name).Should(Equal("True"))
	}, NodeTimeout(10*time.Minute))

	It("are rolled when Rancher applies the agent again, which nobody has to notice", func(ctx SpecContext) {
		Eventually(func() int { return control.Reapplies(name) }).Should(Equal(1))
		list := &corev1.SecretList{}
		Expect(admin.List(ctx, list, client.InNamespace("cattle-system"))).To(Succeed())
		var own string
		for i := range list.Items {
			if string(list.Items[i].Data["namespace"]) == name {
				own = list.Items[i].Name
			}
		}
		Expect(own).NotTo(BeEmpty())
		Eventually(func(g Gomega, ctx context.Context) {
			Expect(connected(ctx, name)).To(Equal("True"))
			g.Expect(credentials(ctx)).To(HaveExactElements(own))
		}).WithContext(ctx).Should(Succeed())
		Eventually(isConnected).Should(BeTrue())
		Consistently(connected).WithContext(ctx).WithArguments(name).Should(Equal("True"))
	}, NodeTimeout(10*time.Minute))

	It("find each other again after a crash of the stand-in", func(ctx SpecContext) {
		ca := control.CACert()
		Expect(machine.Kill(client.ObjectKeyFromObject(standin))).To(Succeed())
		Eventually(func() (int32, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(standin), standin)
			return standin.Status.ContainerStatuses[0].RestartCount, err
		}).Should(BeEquivalentTo(1))
		Eventually(control.Ready).WithContext(ctx).Should(Succeed())
		Expect(control.CACert()).To(Equal(ca))
		Eventually(isConnected).Should(BeTrue())
		Eventually(connected).WithContext(ctx).WithArguments(name).Should(Equal("True"))
	}, NodeTimeout(10*time.Minute))

	It("clean the cluster up in a Job, which leaves nothing", func(ctx SpecContext) {
		cluster := object("Cluster", "", name)
		Expect(admin.Delete(ctx, cluster)).To(Succeed())
		Eventually(absent).WithContext(ctx).WithArguments(cluster).Should(BeTrue())
		system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-system"}}
		Eventually(absent).WithContext(ctx).WithArguments(system).Should(BeTrue())
		Eventually(leftovers).WithContext(ctx).Should(BeEmpty())
	}, NodeTimeout(10*time.Minute))
})
