// Package apart is for tests of management clusters whose Rancher is in another cluster. It renders both sides of the
// chart, runs managers in the process of the test, and creates and moves CAPI Clusters.
package apart

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest/komega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/process"
	"github.com/archelon-io/archelon/test/stage"
)

// System is the namespace of releases.
const System = "archelon-system"

// Literals of the contract, not the constants under test.
const (
	OriginLabel  = "archelon.io/management-cluster"
	OwnerLabel   = "cluster-api.cattle.io/capi-cluster-owner"
	OwnerNSLabel = "cluster-api.cattle.io/capi-cluster-owner-ns"
	ImportLabel  = "cluster-api.cattle.io/rancher-auto-import"
	Finalizer    = "archelon.io/rancher-import"
	Condition    = "RancherImported"
)

// Cluster is a management cluster.
type Cluster struct {
	*env.ControlPlane

	Client client.Client
	UID    string
}

// New returns the management cluster of a control plane, with a namespace for releases.
func New(ctx context.Context, plane *env.ControlPlane) *Cluster {
	GinkgoHelper()
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Create(ctx, Namespace(System))).To(Succeed())
	return &Cluster{ControlPlane: plane, Client: c, UID: uidOf(ctx, c)}
}

// K reads and changes what is in the management cluster.
func (c *Cluster) K(ctx context.Context) komega.Komega { return komega.New(c.Client).WithContext(ctx) }

// Create creates a CAPI Cluster whose control plane is up and which is selected.
func (c *Cluster) Create(
	ctx context.Context, namespace, name string, workload *env.ControlPlane, change ...func(*clusterv1.Cluster),
) *clusterv1.Cluster {
	GinkgoHelper()
	raw, err := workload.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(client.IgnoreAlreadyExists(c.Client.Create(ctx, Namespace(namespace)))).To(Succeed())
	Expect(c.Client.Create(ctx, builder.KubeconfigSecret(namespace, name, raw))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	cluster.Labels = map[string]string{ImportLabel: "true"}
	for _, f := range change {
		f(cluster)
	}
	Expect(c.Client.Create(ctx, cluster)).To(Succeed())
	Eventually(c.K(ctx).UpdateStatus(cluster, func() { builder.ControlPlaneUp(cluster) })).Should(Succeed())
	return cluster
}

// Reason returns status and reason of the condition of a CAPI Cluster.
func (c *Cluster) Reason(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return func() string {
		found := cluster.DeepCopy()
		if err := c.K(ctx).Get(found)(); err != nil {
			return err.Error()
		}
		said := conditions.Get(found, Condition)
		if said == nil {
			return "none"
		}
		return string(said.Status) + "/" + said.Reason
	}
}

// Records returns those v3 Clusters in Rancher's cluster that are for a CAPI Cluster of this one.
func (c *Cluster) Records(ctx context.Context, in client.Client, cluster *clusterv1.Cluster) []managementv3.Cluster {
	GinkgoHelper()
	list := &managementv3.ClusterList{}
	Expect(in.List(ctx, list, client.MatchingLabels{
		OriginLabel: c.UID, OwnerLabel: cluster.Name, OwnerNSLabel: cluster.Namespace,
	})).To(Succeed())
	return list.Items
}

// uidOf returns the UID of a cluster.
func uidOf(ctx context.Context, c client.Client) string {
	GinkgoHelper()
	own := Namespace("kube-system")
	Expect(c.Get(ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
	return string(own.UID)
}

// Namespace returns one that is not written yet.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Render returns what the chart makes of values.
func Render(ctx context.Context, name string, values map[string]any) []unstructured.Unstructured {
	GinkgoHelper()
	h, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = h.Close() }()
	objects, err := h.Template(ctx, helm.Release{
		Name: name, Namespace: System, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + stage.KubeVersion},
	})
	Expect(err).NotTo(HaveOccurred())
	return objects
}

// Apply creates what has no Pods.
func Apply(ctx context.Context, c client.Client, objects []unstructured.Unstructured) {
	GinkgoHelper()
	for i := range objects {
		if object := &objects[i]; !slices.Contains([]string{"Deployment", "Job", "PodDisruptionBudget", "Service"}, object.GetKind()) {
			//nolint:staticcheck // of what the chart rendered
			Expect(c.Patch(ctx, object.DeepCopy(), client.Apply, client.FieldOwner("helm"), client.ForceOwnership)).To(Succeed(), object.GetName())
		}
	}
}

// Soon are times of seats that specs can wait for. Who has a seat keeps it on a machine that hangs for seconds.
func Soon() seat.Timing {
	return seat.Timing{Renew: 200 * time.Millisecond, Fresh: 2 * time.Second, Quiet: 3 * time.Second, Expire: 6 * time.Second}
}

// Run starts a manager in this process, as the chart with these values does in this cluster. It may not become ready.
// Run returns where its probes are, and what stops it before the end of the container.
func (c *Cluster) Run(
	ctx context.Context, values map[string]any, wrap func(http.RoundTripper) http.RoundTripper, change ...func(*options.Options),
) (probes string, stop func() error) {
	GinkgoHelper()
	objects := Render(ctx, "archelon", values)
	Apply(ctx, c.Client, objects)
	config, err := c.ServiceAccountConfig(ctx, System, "archelon")
	Expect(err).NotTo(HaveOccurred())
	config.Wrap(wrap)
	opts, err := options.New()
	Expect(err).NotTo(HaveOccurred())
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	address, err := process.FreeAddresses(1)
	Expect(err).NotTo(HaveOccurred())
	Expect(flags.Parse(append(args(objects), "--metrics-bind-address=0", "--health-probe-bind-address="+address[0]))).To(Succeed())
	opts.Seat = Soon()
	for _, f := range change {
		f(opts)
	}
	Expect(opts.Validate()).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	metrics.Registry = prometheus.NewRegistry() // Each manager registers the same.
	done := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		done <- setup.Run(running, config, opts, func(o *ctrl.Options) { o.Controller.SkipNameValidation = new(true) })
	}()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	DeferCleanup(stop)
	return "http://" + address[0], stop
}

// args returns the arguments of the manager.
func args(objects []unstructured.Unstructured) []string {
	GinkgoHelper()
	for i := range objects {
		if objects[i].GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", "containers")
		Expect(err).NotTo(HaveOccurred())
		of, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args") //nolint:forcetypeassert // of a Deployment
		Expect(err).NotTo(HaveOccurred())
		for i := range of {
			of[i] = strings.ReplaceAll(of[i], "$(POD_NAMESPACE)", System)
		}
		return of
	}
	Fail("the chart has no Deployment")
	return nil
}
