package admission_test

import (
	"context"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// patience is how long an API server may take to see that a policy has come or gone.
const patience = 2 * time.Minute

const importLabel = "cluster-api.cattle.io/rancher-auto-import"

// world is a management cluster without any controller.
type world struct {
	plane  *env.ControlPlane
	config *rest.Config
	admin  client.Client
	helm   *helm.Helm
}

func newWorld(ctx context.Context, namespaces ...string) *world {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	ranchers, err := rancher.CRDs(true)
	Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{Name: "admission", CRDs: append(crds, ranchers...)})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	w := &world{plane: plane, config: rest.CopyConfig(plane.Config)}
	w.config.QPS = -1
	w.admin, err = client.New(w.config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	w.helm, err = helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.helm.Close)
	for _, name := range namespaces {
		Expect(w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	return w
}

// install creates what a release has about admission, and returns it as the chart renders it.
func (w *world) install(ctx context.Context, namespace string, values map[string]any) []unstructured.Unstructured {
	GinkgoHelper()
	objects := w.installed(ctx, namespace, values, func(object *unstructured.Unstructured) bool {
		return isPolicy(object) && object.GetName() == namespace+".archelon-admission"
	})
	Expect(objects).To(HaveLen(2))
	return objects
}

// installed creates those objects of a release that match, and returns them as the chart renders them.
func (w *world) installed(
	ctx context.Context, namespace string, values map[string]any, match func(*unstructured.Unstructured) bool,
) []unstructured.Unstructured {
	GinkgoHelper()
	rendered, err := w.helm.Template(ctx, helm.Release{
		Name: "archelon", Namespace: namespace, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + stage.KubeVersion, "--no-hooks"},
	})
	Expect(err).NotTo(HaveOccurred())
	var objects []unstructured.Unstructured
	for _, object := range rendered {
		if match(&object) {
			objects = append(objects, object)
			Expect(w.admin.Create(ctx, object.DeepCopy())).To(Succeed())
		}
	}
	return objects
}

func isPolicy(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == "admissionregistration.k8s.io"
}

// create reports how the creation of a cluster ends. Nothing is written.
func (w *world) create(ctx context.Context, cluster *clusterv1.Cluster) error {
	return w.admin.Create(ctx, cluster.DeepCopy(), client.DryRunAll)
}

// change reports how a change of a cluster of the tenant ends. Nothing is written.
func (w *world) change(ctx context.Context, name string, mutate func(*clusterv1.Cluster)) error {
	GinkgoHelper()
	old := &clusterv1.Cluster{}
	Expect(w.admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: name}, old)).To(Succeed())
	changed := old.DeepCopy()
	mutate(changed)
	return w.admin.Patch(ctx, changed, client.MergeFrom(old), client.DryRunAll)
}

// refusedBy matches the refusal of the release archelon in a namespace.
func refusedBy(namespace, text string) gomegatypes.GomegaMatcher {
	name := namespace + ".archelon-admission"
	return And(
		MatchError(apierrors.IsInvalid, "invalid"),
		MatchError(HaveSuffix("ValidatingAdmissionPolicy '"+name+"' with binding '"+name+"' denied request: "+text)),
	)
}

// cluster returns one that is not written yet, with labels and annotations.
func cluster(namespace, name string, mutate ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := builder.Cluster(namespace, name)
	for _, m := range mutate {
		m(c)
	}
	return c
}

// labelled and annotated set a key; without a value they remove it.
func labelled(key string, value ...string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Labels = with(c.Labels, key, value) }
}

func annotated(key string, value ...string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Annotations = with(c.Annotations, key, value) }
}

func with(all map[string]string, key string, value []string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	delete(all, key)
	for _, v := range value {
		all[key] = v
	}
	return all
}
