package edge_test

import (
	"context"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	system             = apart.System
	kubeconfig         = "rancher-kubeconfig"
	importedAnnotation = "imported"
	uidLabel           = "archelon.io/capi-cluster-uid"
	agentSystem        = "cattle-system"
	managerOfCAPI      = "system:serviceaccount:archelon-system:archelon"
)

// rancherCluster is Rancher's cluster.
type rancherCluster struct {
	*stage.Stage
}

func newRancherCluster(ctx context.Context) *rancherCluster {
	GinkgoHelper()
	s, err := stage.Start(ctx, stage.Options{Name: "rancher", Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(s.Stop()).To(Succeed()) })
	return &rancherCluster{s}
}

// workload starts a workload cluster that Rancher knows.
func (r *rancherCluster) workload(ctx context.Context) *env.ControlPlane {
	GinkgoHelper()
	workload, err := r.Workload(ctx, env.Options{Name: "workload"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		r.Rancher.RemoveWorkload("workload")
		Expect(workload.Stop()).To(Succeed())
	})
	return workload
}

// admit renders the Rancher side for a management cluster and returns what acts as its account.
func (r *rancherCluster) admit(ctx context.Context, uid string) *rest.Config {
	GinkgoHelper()
	return r.admitted(ctx, uid, "first")
}

// admitted is admit, with the name of the Secret that the account's token is bound to.
func (r *rancherCluster) admitted(ctx context.Context, uid, token string) *rest.Config {
	GinkgoHelper()
	r.create(ctx, apart.Namespace(system))
	apart.Apply(ctx, r.Client, apart.Render(ctx, "edge", map[string]any{"role": "rancher-side", "managementCluster": map[string]any{"uid": uid}}))
	return r.account(ctx, uid, token)
}

// account returns what acts as the account of a management cluster, until the Secret of the given name is gone.
func (r *rancherCluster) account(ctx context.Context, uid, name string) *rest.Config {
	GinkgoHelper()
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
	Expect(r.Client.Create(ctx, bound)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: name, UID: bound.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "edge-" + uid}}
	Expect(r.Client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	config := rest.AnonymousClientConfig(r.Management.Config)
	config.BearerToken = request.Status.Token
	return config
}

// revoke ends what account returned.
func (r *rancherCluster) revoke(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(r.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}})).To(Succeed())
}

func (r *rancherCluster) create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(r.Client.Create(ctx, object))).To(Succeed())
}

// records returns the v3 Clusters for a CAPI Cluster of a management cluster.
func (r *rancherCluster) records(ctx context.Context, from *management, cluster *clusterv1.Cluster) []managementv3.Cluster {
	GinkgoHelper()
	return from.Records(ctx, r.Client, cluster)
}

// management is a management cluster without Rancher.
type management struct {
	*apart.Cluster

	rancher *rancherCluster
	// values are those of the chart; by default those of a management cluster whose Rancher is elsewhere.
	values map[string]any
	// lookalike has the manager take the UID of this management cluster for that of the one it is a copy of.
	lookalike func(http.RoundTripper) http.RoundTripper
}

func newManagement(ctx context.Context, r *rancherCluster, name string) *management {
	GinkgoHelper()
	crds, err := env.CAPICRDs()
	Expect(err).NotTo(HaveOccurred())
	plane, err := env.Start(ctx, env.Options{Name: name, CRDs: crds, ControllerManager: true, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
	return &management{Cluster: apart.New(ctx, plane), rancher: r}
}

// connect gives the management cluster the kubeconfig of an account in Rancher's cluster.
func (m *management) connect(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	raw, err := m.rancher.Management.KubeconfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: kubeconfig}, Data: map[string][]byte{"value": raw}}
	if err := m.Client.Create(ctx, secret); err != nil {
		Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
		Expect(m.Client.Update(ctx, secret)).To(Succeed())
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

// begin is run for a manager that may not become ready. It returns where its probes are as well.
func (m *management) begin(ctx context.Context, change ...func(*options.Options)) (probes string, stop func() error) {
	GinkgoHelper()
	if m.values == nil {
		m.values = values()
	}
	return m.Run(ctx, m.values, m.lookalike, change...)
}

// requests returns what the manager, or the account in Rancher's cluster, has asked of an API
// server since the last call.
func requests(plane *env.ControlPlane, user string) []auditv1.Event {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.User.Username != user })
}
