package hub_test

import (
	"context"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

const (
	system        = "archelon-system"
	registerLabel = "archelon.io/management-cluster-kubeconfig"
	uidAnnotation = "archelon.io/management-cluster-uid"
	originLabel   = "archelon.io/management-cluster"
	ownerLabel    = "cluster-api.cattle.io/capi-cluster-owner"
	ownerNSLabel  = "cluster-api.cattle.io/capi-cluster-owner-ns"
	importLabel   = "cluster-api.cattle.io/rancher-auto-import"
	finalizer     = "archelon.io/rancher-import"
	condition     = "RancherImported"

	importedAnnotation = "imported"
	hubUser            = "system:serviceaccount:archelon-system:archelon"
	siteUser           = "system:serviceaccount:archelon-system:archelon-hub"
	admins             = "system:masters"
)

// hub is Rancher's cluster with the manager.
type hub struct {
	*stage.Stage

	uid string
}

func newHub(ctx context.Context) *hub {
	GinkgoHelper()
	s, err := stage.Start(ctx, stage.Options{Name: "rancher", Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	h := &hub{Stage: s, uid: uidOf(ctx, s.Client)}
	Expect(client.IgnoreAlreadyExists(h.Client.Create(ctx, namespaceOf(system)))).To(Succeed())
	return h
}

// run starts a manager in this process, and returns what stops it before the end of the container.
func (h *hub) run(ctx context.Context) (stop func()) {
	GinkgoHelper()
	on := map[string]any{"enabled": true}
	objects := render(ctx, "archelon", map[string]any{
		"features":  map[string]any{"managementv3-cluster": on, "management-clusters": on},
		"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
	})
	apply(ctx, h.Client, objects)
	config, err := h.Management.ServiceAccountConfig(ctx, system, "archelon")
	Expect(err).NotTo(HaveOccurred())
	opts, err := options.New()
	Expect(err).NotTo(HaveOccurred())
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	address, err := process.FreeAddresses(1)
	Expect(err).NotTo(HaveOccurred())
	Expect(flags.Parse(append(argsOf(objects), "--metrics-bind-address=0", "--health-probe-bind-address="+address[0]))).To(Succeed())
	Expect(opts.Validate()).To(Succeed())
	opts.Seat = soon()
	running, cancel := context.WithCancel(context.Background())
	metrics.Registry = prometheus.NewRegistry() // Each manager registers the same.
	done := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		done <- setup.Run(running, config, opts, func(o *ctrl.Options) { o.Controller.SkipNameValidation = new(true) })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	DeferCleanup(stop)
	Eventually(func() error { return stage.Ready(ctx, "http://"+address[0]) }).WithContext(ctx).Should(Succeed())
	return stop
}

// soon are the times of seats. An order of magnitude less than those of an installation, they still cover a slow machine.
func soon() seat.Timing {
	return seat.Timing{Renew: 200 * time.Millisecond, Fresh: time.Second, Quiet: 2 * time.Second, Expire: 4 * time.Second}
}

// register has a Secret lead to a management cluster.
func (h *hub) register(ctx context.Context, name string, kubeconfig []byte) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: map[string]string{registerLabel: "true"}},
		Data:       map[string][]byte{"value": kubeconfig},
	}
	err := h.Client.Create(ctx, secret)
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		found := h.secret(ctx, name)
		found.Data = secret.Data
		err = h.Client.Update(ctx, found)
	}
	Expect(err).NotTo(HaveOccurred())
}

// end removes the registration of a management cluster.
func (h *hub) end(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(h.Client.Delete(ctx, h.secret(ctx, name))).To(Succeed())
}

func (h *hub) secret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	found := &corev1.Secret{}
	Expect(h.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: name}, found)).To(Succeed())
	return found
}

// reasons returns the reasons of the Events of a registration, each once.
func (h *hub) reasons(ctx context.Context, name string) func() []string {
	return func() []string {
		var reasons []string
		for _, event := range h.eventsOf(ctx, name) {
			reasons = append(reasons, event.Reason)
		}
		slices.Sort(reasons)
		return slices.Compact(reasons)
	}
}

func (h *hub) eventsOf(ctx context.Context, name string) []eventsv1.Event {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(h.Client.List(ctx, list, client.InNamespace(system))).To(Succeed())
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind != "Secret" || e.Regarding.Name != name })
}

// records returns the v3 Clusters for a CAPI Cluster of a management cluster.
func (h *hub) records(ctx context.Context, from *management, cluster *clusterv1.Cluster) []managementv3.Cluster {
	GinkgoHelper()
	list := &managementv3.ClusterList{}
	Expect(h.Client.List(ctx, list, client.MatchingLabels{
		originLabel: from.uid, ownerLabel: cluster.Name, ownerNSLabel: cluster.Namespace,
	})).To(Succeed())
	return list.Items
}

// engaged returns the metric of a management cluster, -1 where there is none.
func engaged(name string) func() float64 {
	return func() float64 {
		families, err := metrics.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() != "archelon_management_cluster_engaged" {
				continue
			}
			for _, metric := range family.GetMetric() {
				if metric.GetLabel()[0].GetValue() == name {
					return metric.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
}

// management is a management cluster without Rancher. Agents can run in it: one is the workload cluster of another.
type management struct {
	*env.ControlPlane

	client client.Client
	uid    string
	// kubeconfig is that of the account which the chart creates for the hub.
	kubeconfig []byte
}

func newManagement(ctx context.Context, h *hub, name string) *management {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	plane, err := h.Workload(ctx, env.Options{Name: name, CRDs: crds, ControllerManager: true, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		h.Rancher.RemoveWorkload(name)
		Expect(plane.Stop()).To(Succeed())
	})
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	m := &management{ControlPlane: plane, client: c, uid: uidOf(ctx, c)}
	Expect(c.Create(ctx, namespaceOf(system))).To(Succeed())
	apply(ctx, c, render(ctx, "hub", map[string]any{"role": "management-side"}))
	config, err := plane.ServiceAccountConfig(ctx, system, "archelon-hub")
	Expect(err).NotTo(HaveOccurred())
	m.kubeconfig = m.kubeconfigFor(config)
	return m
}

func (m *management) kubeconfigFor(config *rest.Config) []byte {
	GinkgoHelper()
	raw, err := m.KubeconfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// cluster creates a CAPI Cluster whose control plane is up and which is selected.
func (m *management) cluster(ctx context.Context, namespace, name string, workload *env.ControlPlane) *clusterv1.Cluster {
	GinkgoHelper()
	raw, err := workload.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(client.IgnoreAlreadyExists(m.client.Create(ctx, namespaceOf(namespace)))).To(Succeed())
	Expect(m.client.Create(ctx, builder.KubeconfigSecret(namespace, name, raw))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	cluster.Labels = map[string]string{importLabel: "true"}
	Expect(m.client.Create(ctx, cluster)).To(Succeed())
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		builder.ControlPlaneUp(cluster)
		return m.client.Status().Update(ctx, cluster)
	})).To(Succeed())
	return cluster
}

// change writes what is changed of a CAPI Cluster.
func (m *management) change(ctx context.Context, cluster *clusterv1.Cluster, change func()) {
	GinkgoHelper()
	Expect(m.client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	before := cluster.DeepCopy()
	change()
	Expect(m.client.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
}

// reason returns status and reason of the condition of a CAPI Cluster.
func (m *management) reason(ctx context.Context, cluster *clusterv1.Cluster) func() string {
	return func() string {
		found := &clusterv1.Cluster{}
		if err := m.client.Get(ctx, client.ObjectKeyFromObject(cluster), found); err != nil {
			return err.Error()
		}
		c := conditions.Get(found, condition)
		if c == nil {
			return "none"
		}
		return string(c.Status) + "/" + c.Reason
	}
}

// written returns what a user has changed, but for Leases.
func written(plane *env.ControlPlane, user string) []string {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var writes []string
	for _, e := range events {
		if e.User.Username != user || slices.Contains([]string{"get", "list", "watch"}, e.Verb) || e.ObjectRef != nil && e.ObjectRef.Resource == "leases" {
			continue
		}
		writes = append(writes, e.Verb+" "+e.RequestURI)
	}
	return writes
}

// watches returns what a user watches, each as often as it does, without what tells one request for a watch from the next.
func watches(plane *env.ControlPlane, user string) []string {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	open := map[string]string{}
	for i := range events {
		e := &events[i]
		switch {
		case e.User.Username != user || e.Verb != "watch":
		case e.Stage == auditv1.StageResponseStarted:
			of, err := url.Parse(e.RequestURI)
			Expect(err).NotTo(HaveOccurred())
			query := of.Query()
			for _, key := range []string{"resourceVersion", "timeout", "timeoutSeconds"} {
				query.Del(key)
			}
			open[string(e.AuditID)] = of.Path + "?" + query.Encode()
		default:
			delete(open, string(e.AuditID))
		}
	}
	return slices.Sorted(maps.Values(open))
}

func uidOf(ctx context.Context, c client.Client) string {
	GinkgoHelper()
	own := &corev1.Namespace{}
	Expect(c.Get(ctx, client.ObjectKey{Name: "kube-system"}, own)).To(Succeed())
	return string(own.UID)
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// render returns what the chart makes of values.
func render(ctx context.Context, name string, values map[string]any) []unstructured.Unstructured {
	GinkgoHelper()
	h, err := helm.New(nil)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = h.Close() }()
	objects, err := h.Template(ctx, helm.Release{
		Name: name, Namespace: system, Chart: filepath.Join(stage.Root(), "charts", "archelon"), Values: values,
		Args: []string{"--kube-version=" + stage.KubeVersion},
	})
	Expect(err).NotTo(HaveOccurred())
	return objects
}

// apply creates what has no Pods.
func apply(ctx context.Context, c client.Client, objects []unstructured.Unstructured) {
	GinkgoHelper()
	for i := range objects {
		if object := &objects[i]; !slices.Contains([]string{"Deployment", "Job", "PodDisruptionBudget", "Service"}, object.GetKind()) {
			//nolint:staticcheck // of what the chart rendered
			Expect(c.Patch(ctx, object.DeepCopy(), client.Apply, client.FieldOwner("helm"), client.ForceOwnership)).To(Succeed(), object.GetName())
		}
	}
}

// argsOf returns the arguments of the manager.
func argsOf(objects []unstructured.Unstructured) []string {
	GinkgoHelper()
	for i := range objects {
		if objects[i].GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(objects[i].Object, "spec", "template", "spec", "containers")
		Expect(err).NotTo(HaveOccurred())
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args") //nolint:forcetypeassert // of a Deployment
		Expect(err).NotTo(HaveOccurred())
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$(POD_NAMESPACE)", system)
		}
		return args
	}
	Fail("the chart has no Deployment")
	return nil
}
