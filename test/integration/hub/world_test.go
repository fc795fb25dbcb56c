package hub_test

import (
	"context"
	"maps"
	"net/url"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/archelon-io/archelon/test/apart"
	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/stage"
)

const (
	system        = apart.System
	registerLabel = "archelon.io/management-cluster-kubeconfig"
	uidAnnotation = "archelon.io/management-cluster-uid"

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
	h := &hub{Stage: s, uid: apart.UIDOf(ctx, s.Client)}
	Expect(client.IgnoreAlreadyExists(h.Client.Create(ctx, apart.Namespace(system)))).To(Succeed())
	return h
}

// run starts a manager in this process, and returns what stops it before the end of the container.
func (h *hub) run(ctx context.Context) (stop func()) {
	GinkgoHelper()
	on := map[string]any{"enabled": true}
	probes, end := h.plain().Run(ctx, map[string]any{
		"features":  map[string]any{"managementv3-cluster": on, "management-clusters": on},
		"uninstall": map[string]any{"offline": true}, "log": map[string]any{"format": "text"},
	}, nil)
	stop = func() { Expect(end()).To(Succeed()) }
	DeferCleanup(stop)
	Eventually(func() error { return stage.Ready(ctx, probes) }).WithContext(ctx).Should(Succeed())
	return stop
}

// plain is Rancher's cluster as a management cluster of its own.
func (h *hub) plain() *apart.Cluster {
	return &apart.Cluster{ControlPlane: h.Management, Client: h.Client, UID: h.uid}
}

// register has a Secret lead to a management cluster.
func (h *hub) register(ctx context.Context, name string, kubeconfig []byte) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: map[string]string{registerLabel: "true"}},
		Data:       map[string][]byte{"value": kubeconfig},
	}
	Expect(client.IgnoreAlreadyExists(h.Client.Create(ctx, secret))).To(Succeed())
	Eventually(h.K(ctx).Update(secret, func() { secret.Data = map[string][]byte{"value": kubeconfig} })).Should(Succeed())
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
	return from.Records(ctx, h.Client, cluster)
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
	*apart.Cluster

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
	m := &management{Cluster: apart.New(ctx, plane)}
	apart.Apply(ctx, m.Client, apart.Render(ctx, "hub", map[string]any{"role": "management-side"}))
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

// watches returns what a user watches, each as often as it does, without what tells one
// request for a watch from the next.
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
