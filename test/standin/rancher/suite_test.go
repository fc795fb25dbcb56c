package rancher_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/archelon-io/archelon/test/env"
	_ "github.com/archelon-io/archelon/test/report"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

var (
	clusterGVK = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Cluster"}
	tokenGVK   = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRegistrationToken"}
	settingGVK = schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "Setting"}
	provGVK    = schema.GroupVersionKind{Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster"}
	capiGVK    = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}
)

// One management and one workload control plane serve all specs. Only the latter has a
// namespace controller, so that the stand-in's own is tested too.
var (
	managementPlane, workloadPlane *env.ControlPlane
	management, workload           client.Client
)

func TestStandin(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Rancher stand-in")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	definitions, err := rancher.CRDs(true)
	Expect(err).NotTo(HaveOccurred())
	definitions = append(definitions, capiCRD())

	var starting sync.WaitGroup
	for _, plane := range []struct {
		opts env.Options
		into **env.ControlPlane
	}{
		{env.Options{Name: "management", CRDs: definitions}, &managementPlane},
		{env.Options{Name: "workload", ControllerManager: true}, &workloadPlane},
	} {
		starting.Go(func() {
			defer GinkgoRecover()
			started, err := env.Start(ctx, plane.opts)
			Expect(err).NotTo(HaveOccurred())
			*plane.into = started
		})
	}
	starting.Wait()
	management, workload = newClient(managementPlane), newClient(workloadPlane)
}, NodeTimeout(10*time.Minute))

var _ = AfterSuite(func() {
	for _, plane := range []*env.ControlPlane{managementPlane, workloadPlane} {
		if plane != nil {
			Expect(plane.Stop()).To(Succeed())
		}
	}
})

func newClient(plane *env.ControlPlane) client.Client {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	config := plane.Config
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// capiCRD is the least CRD that stands for CAPI's Cluster.
func capiCRD() *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: capiGVK.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusters", Singular: "cluster", Kind: "Cluster", ListKind: "ClusterList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: capiGVK.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &keep,
				}},
			}},
		},
	}
}

// start runs a stand-in with the given options until the end of the current node's container
// or spec.
func start(ctx context.Context, change func(*rancher.Options)) *rancher.Standin {
	GinkgoHelper()
	opts := rancher.DefaultOptions(managementPlane.Config)
	opts.Timings.NamespaceController = 100 * time.Millisecond
	if os.Getenv("STANDIN_LOG") != "" {
		opts.Logger = GinkgoLogr
	}
	if change != nil {
		change(&opts)
	}
	s, err := rancher.New(opts)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.Stop)
	Expect(s.Start(ctx)).To(Succeed())
	return s
}

// object builds an unstructured object.
func object(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// newCluster creates a v3 Cluster as an importer does and removes it after the spec.
func newCluster(ctx context.Context, name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	GinkgoHelper()
	u := object(clusterGVK, "", name)
	if name == "" {
		u.SetGenerateName("c-")
	}
	u.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"})
	u.Object["spec"] = map[string]any{"displayName": "demo"}
	for _, change := range changes {
		change(u)
	}
	Expect(management.Create(ctx, u)).To(Succeed())
	DeferCleanup(remove, u)
	return u
}

// newProvisioning creates a v1 Cluster in namespace default as an importer does and removes it
// after the spec.
func newProvisioning(ctx context.Context, name string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	GinkgoHelper()
	u := object(provGVK, "default", name)
	u.SetAnnotations(map[string]string{"field.cattle.io/no-creator-rbac": "true"})
	u.Object["spec"] = map[string]any{}
	for _, change := range changes {
		change(u)
	}
	Expect(management.Create(ctx, u)).To(Succeed())
	DeferCleanup(remove, u)
	return u
}

// remove deletes an object of the management cluster and waits for its end, and for that of the
// namespace of a v3 Cluster.
func remove(ctx context.Context, u *unstructured.Unstructured) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(management.Delete(ctx, u))).To(Succeed())
	Eventually(absent).WithContext(ctx).WithArguments(management, u).Should(BeTrue())
	if u.GroupVersionKind() == clusterGVK {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.GetName()}}
		Eventually(absent).WithContext(ctx).WithArguments(management, ns).Should(BeTrue())
	}
}

func absent(ctx context.Context, c client.Client, obj client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// get reads an object again.
func get(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := object(gvk, namespace, name)
	return u, c.Get(ctx, client.ObjectKeyFromObject(u), u)
}

// field returns a string of an object, "" if it is not there.
func field(u *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(u.Object, path...)
	return s
}

// conditions maps the types of the conditions of an object to "Status" or "Status/Reason".
func conditions(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range list {
		entry, _ := c.(map[string]any)
		kind, _ := entry["type"].(string)
		out[kind], _ = entry["status"].(string)
		if reason, _ := entry["reason"].(string); reason != "" {
			out[kind] += "/" + reason
		}
	}
	return out
}

// clusterConditions polls the conditions of a v3 Cluster.
func clusterConditions(name string) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		u, err := get(ctx, management, clusterGVK, "", name)
		return conditions(u), err
	}
}

// manifestURL returns the complete URL of a registration token once it is filled, in either
// token mode.
func manifestURL(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	var url string
	Eventually(func(g Gomega, ctx context.Context) {
		crt, err := get(ctx, management, tokenGVK, namespace, name)
		g.Expect(err).NotTo(HaveOccurred())
		url = field(crt, "status", "manifestUrl")
		g.Expect(url).NotTo(BeEmpty())
		if secretName := field(crt, "status", "tokenSecretName"); secretName != "" {
			url = strings.ReplaceAll(url, "{token}", secretToken(ctx, g, namespace, secretName))
		}
	}).WithContext(ctx).Should(Succeed())
	return url
}
