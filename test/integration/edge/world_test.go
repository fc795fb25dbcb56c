package edge_test

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
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
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
	kubeconfig    = "rancher-kubeconfig"
	originLabel   = "archelon.io/management-cluster"
	ownerLabel    = "cluster-api.cattle.io/capi-cluster-owner"
	ownerNSLabel  = "cluster-api.cattle.io/capi-cluster-owner-ns"
	importLabel   = "cluster-api.cattle.io/rancher-auto-import"
	uidLabel      = "archelon.io/capi-cluster-uid"
	finalizer     = "archelon.io/rancher-import"
	condition     = "RancherImported"
	agentSystem   = "cattle-system"
	managerOfCAPI = "system:serviceaccount:archelon-system:archelon"
)

// hub is Rancher's cluster.
type hub struct {
	*stage.Stage
}

func newHub(ctx context.Context) *hub {
	GinkgoHelper()
	s, err := stage.Start(ctx, stage.Options{Name: "rancher", Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	return &hub{s}
}

// admit renders the Rancher side for a management cluster and returns what acts as its account.
func (h *hub) admit(ctx context.Context, uid string) *rest.Config {
	GinkgoHelper()
	return h.admitted(ctx, uid, "first")
}

// admitted is admit, with the name of the Secret that the account's token is bound to.
func (h *hub) admitted(ctx context.Context, uid, token string) *rest.Config {
	GinkgoHelper()
	h.create(ctx, namespaceOf(system))
	apply(ctx, h.Client, render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": uid}}))
	return h.account(ctx, uid, token)
}

// account returns what acts as the account of a management cluster, until the Secret of the given name is gone.
func (h *hub) account(ctx context.Context, uid, name string) *rest.Config {
	GinkgoHelper()
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	Expect(h.Client.Create(ctx, bound)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: name, UID: bound.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "edge-" + uid}}
	Expect(h.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	config := rest.AnonymousClientConfig(h.Management.Config)
	config.BearerToken = request.Status.Token
	return config
}

// revoke ends what account returned.
func (h *hub) revoke(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(h.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}})).To(Succeed())
}

func (h *hub) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(h.Client.Create(ctx, object))).To(Succeed())
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

// management is a management cluster without Rancher.
type management struct {
	*env.ControlPlane
	client client.Client
	uid    string
	hub    *hub
	// values are those of the chart; by default those of a management cluster whose Rancher is elsewhere.
	values map[string]any
	// lookalike has the manager take the UID of this management cluster for that of the one it is a copy of.
	lookalike func(http.RoundTripper) http.RoundTripper
}

func newManagement(ctx context.Context, h *hub, name string) *management {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{Name: name, CRDs: crds, ControllerManager: true, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	known, err := scheme.New()
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(plane.Config, client.Options{Scheme: known})
	Expect(err).NotTo(HaveOccurred())
	m := &management{ControlPlane: plane, client: c, hub: h}
	own := &corev1.Namespace{}
	Expect(c.Get(ctx, client.ObjectKey{Name: "kube-system"}, own)).To(Succeed())
	m.uid = string(own.UID)
	Expect(c.Create(ctx, namespaceOf(system))).To(Succeed())
	return m
}

// connect gives the management cluster the kubeconfig of an account in Rancher's cluster.
func (m *management) connect(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	raw, err := m.hub.Management.KubeconfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: kubeconfig}, Data: map[string][]byte{"value": raw}}
	if err := m.client.Create(ctx, secret); err != nil {
		Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
		Expect(m.client.Update(ctx, secret)).To(Succeed())
	}
}

// values are those of the chart in a management cluster.
func values() map[string]any {
	return map[string]any{
		"features": map[string]any{"managementv3-cluster": map[string]any{"enabled": true}, "remote-rancher": map[string]any{"enabled": true}},
		"rancher":  map[string]any{"kubeconfigSecret": kubeconfig}, "uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
	}
}

// run starts a manager as the chart does, in this process, and returns what stops it.
func (m *management) run(ctx context.Context, change ...func(*options.Options)) (stop func() error) {
	GinkgoHelper()
	address, stop := m.begin(ctx, change...)
	Eventually(func() error { return stage.Ready(ctx, address) }).WithContext(ctx).Should(Succeed())
	return stop
}

// soon are times of the seat that specs can wait for.
func soon() seat.Timing {
	return seat.Timing{Renew: 200 * time.Millisecond, Fresh: time.Second, Quiet: 2 * time.Second, Expire: 4 * time.Second}
}

// begin is run for a manager that may not become ready. It returns where its probes are as well.
func (m *management) begin(ctx context.Context, change ...func(*options.Options)) (probes string, stop func() error) {
	GinkgoHelper()
	if m.values == nil {
		m.values = values()
	}
	objects := render(ctx, "archelon", m.values)
	apply(ctx, m.client, objects)
	config, err := m.ServiceAccountConfig(ctx, system, "archelon")
	Expect(err).NotTo(HaveOccurred())
	if m.lookalike != nil {
		config.Wrap(m.lookalike)
	}
	opts, err := options.New()
	Expect(err).NotTo(HaveOccurred())
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	address, err := process.FreeAddresses(1)
	Expect(err).NotTo(HaveOccurred())
	Expect(flags.Parse(append(argsOf(objects), "--metrics-bind-address=0", "--health-probe-bind-address="+address[0]))).To(Succeed())
	opts.Seat = soon()
	for _, c := range change {
		c(opts)
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

// cluster creates a CAPI Cluster whose control plane is up and which is selected.
func (m *management) cluster(
	ctx context.Context, namespace, name string, workload *env.ControlPlane, change ...func(*clusterv1.Cluster),
) *clusterv1.Cluster {
	GinkgoHelper()
	raw, err := workload.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	Expect(client.IgnoreAlreadyExists(m.client.Create(ctx, namespaceOf(namespace)))).To(Succeed())
	Expect(m.client.Create(ctx, builder.KubeconfigSecret(namespace, name, raw))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	cluster.Labels = map[string]string{importLabel: "true"}
	for _, c := range change {
		c(cluster)
	}
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

// requests returns what the manager, or the account in Rancher's cluster, has asked of an API server since the last call.
func requests(plane *env.ControlPlane, user string) []auditv1.Event {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != user })
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
