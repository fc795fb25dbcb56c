package fleet_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/internal/fleet"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/test/builder"
)

// operator runs internal/fleet with the permissions of config/rbac and no others, and controllers across the fleet.
func operator(ctx context.Context, w *world, controllers ...func(mcmanager.Manager)) {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "rbac", "fleet_role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(raw, role)).To(Succeed())
	role.Name = w.namespace
	Expect(managementAdmin.Create(ctx, role)).To(Succeed())
	Expect(managementAdmin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "archelon"}})).To(Succeed())
	Expect(managementAdmin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "archelon"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: "archelon"}},
	})).To(Succeed())
	account, err := management.ServiceAccountConfig(ctx, w.namespace, "archelon")
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(account, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	across, err := fleet.SetupWithManager(mgr, fleet.Options{
		Claim: instance.Claim{}, Registry: prometheus.NewRegistry(), Concurrency: 2, Timing: w.options().Timing,
		ClusterOptions: w.options().ClusterOptions,
	})
	Expect(err).NotTo(HaveOccurred())
	for _, add := range controllers {
		add(across)
	}
	w.start(mgr)
}

// condition returns a function for Eventually: "status reason: message" of condition FleetEngaged of Cluster one.
func (w *world) condition(ctx context.Context) func() string {
	return func() string {
		ccl := &clusterv1.Cluster{}
		if err := managementAdmin.Get(ctx, w.key("one"), ccl); err != nil {
			return err.Error()
		}
		condition := conditions.Get(ccl, "FleetEngaged")
		if condition == nil {
			return "none"
		}
		return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
	}
}

// imported puts the finalizer of the import on Cluster one, or takes it off.
func (w *world) imported(ctx context.Context, is bool) {
	GinkgoHelper()
	ccl := &clusterv1.Cluster{}
	Expect(managementAdmin.Get(ctx, w.key("one"), ccl)).To(Succeed())
	before := ccl.DeepCopy()
	if is {
		controllerutil.AddFinalizer(ccl, "archelon.io/rancher-import")
	} else {
		controllerutil.RemoveFinalizer(ccl, "archelon.io/rancher-import")
	}
	Expect(managementAdmin.Patch(ctx, ccl, client.MergeFrom(before))).To(Succeed())
}

var _ = Describe("Condition FleetEngaged", func() {
	It("follows the engagement of an imported Cluster, with the permissions of the gate alone", func(ctx context.Context) {
		w := newWorld(ctx)
		operator(ctx, w)
		w.engage(ctx, "one", workload, workload.Config)
		Consistently(w.condition(ctx)).Should(Equal("none"), "it is not imported")
		w.imported(ctx, true)
		Eventually(w.condition(ctx)).Should(Equal("True Engaged: Engaged"))

		By("keeping what CAPI has in the list")
		w.phase(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		ccl := &clusterv1.Cluster{}
		Expect(managementAdmin.Get(ctx, w.key("one"), ccl)).To(Succeed())
		Expect(conditions.Has(ccl, clusterv1.ClusterControlPlaneAvailableCondition)).To(BeTrue())

		By("being silent when nothing changes")
		version := ccl.ResourceVersion
		Consistently(func() string {
			Expect(managementAdmin.Get(ctx, w.key("one"), ccl)).To(Succeed())
			return ccl.ResourceVersion
		}).WithTimeout(2 * time.Second).Should(Equal(version))

		By("saying how long the connection is kept that a slip in the Secret would end")
		kept := func(what string) types.GomegaMatcher {
			return MatchRegexp("^True RotationFailing: Degraded: .*" + what + ".* is kept until [0-9-]+T[0-9:]+Z")
		}
		Expect(managementAdmin.Delete(ctx, builder.KubeconfigSecret(w.namespace, "one", nil))).To(Succeed())
		Eventually(w.condition(ctx)).Should(kept("Secret one-kubeconfig with the kubeconfig does not exist"))
		write := func(data map[string][]byte) {
			GinkgoHelper()
			secret := builder.KubeconfigSecret(w.namespace, "one", nil)
			secret.Data = data
			if err := managementAdmin.Create(ctx, secret); err != nil {
				Expect(managementAdmin.Update(ctx, secret)).To(Succeed())
			}
		}
		whole, err := workload.KubeconfigFor(workload.Config)
		Expect(err).NotTo(HaveOccurred())
		write(map[string][]byte{"values": whole})
		Eventually(w.condition(ctx)).Should(kept("has no kubeconfig under key value"))
		write(map[string][]byte{"value": whole[:len(whole)/2]})
		Eventually(w.condition(ctx)).Should(kept("The kubeconfig "))
		w.kubeconfig(ctx, "one", workload, workload.Config)
		Eventually(w.condition(ctx)).Should(Equal("True Engaged: Engaged"))

		By("noticing at once that a kubeconfig is refused")
		write(map[string][]byte{"value": []byte("apiVersion: v1\nkind: Config\ncurrent-context: it\n" +
			"contexts: [{name: it, context: {cluster: it, user: it}}]\n" +
			"clusters: [{name: it, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"users: [{name: it, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}}}]\n")})
		Eventually(w.condition(ctx)).Should(HavePrefix("False KubeconfigExecRefused: Disconnected: "))
		Eventually(func(g Gomega) {
			events := &eventsv1.EventList{}
			g.Expect(managementAdmin.List(ctx, events, client.InNamespace(w.namespace))).To(Succeed())
			reasons := make([]string, 0, len(events.Items))
			for _, event := range events.Items {
				reasons = append(reasons, event.Type+" "+event.Reason)
			}
			g.Expect(reasons).To(ContainElements("Normal Engaged", "Warning RotationFailing", "Warning KubeconfigExecRefused"))
		}).Should(Succeed())

		By("leaving with the import")
		w.imported(ctx, false)
		Eventually(w.condition(ctx)).Should(Equal("none"))
	})

	It("follows annotations to another kubeconfig, which has to be the Cluster's own", func(ctx context.Context) {
		w := newWorld(ctx)
		operator(ctx, w)
		w.cluster(ctx, "one", clusterv1.ClusterPhaseProvisioned)
		w.imported(ctx, true)
		Eventually(w.condition(ctx)).Should(HavePrefix("False KubeconfigMissing: "))
		raw, err := workload.KubeconfigFor(workload.Config)
		Expect(err).NotTo(HaveOccurred())
		secret := builder.KubeconfigSecret(w.namespace, "other", raw)
		secret.Data = map[string][]byte{"admin.conf": raw}
		Expect(managementAdmin.Create(ctx, secret)).To(Succeed())
		ccl := &clusterv1.Cluster{}
		Expect(managementAdmin.Get(ctx, w.key("one"), ccl)).To(Succeed())
		before := ccl.DeepCopy()
		ccl.Annotations = map[string]string{"archelon.io/kubeconfig-secret": "other-kubeconfig/admin.conf"}
		Expect(managementAdmin.Patch(ctx, ccl, client.MergeFrom(before))).To(Succeed())
		Eventually(w.condition(ctx)).Should(HavePrefix(`False KubeconfigMissing: Pending: No Secret ` + w.namespace +
			`/other-kubeconfig with label cluster.x-k8s.io/cluster-name: "one" exists, `))
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: "one"}
		Expect(managementAdmin.Update(ctx, secret)).To(Succeed())
		Eventually(w.condition(ctx)).Should(Equal("True Engaged: Engaged"))
	})

	It("leaves nothing running for a Cluster that leaves", func(ctx context.Context) {
		w := newWorld(ctx)
		operator(ctx, w, w.count)
		w.engage(ctx, "one", workload, workload.Config)
		cycle := func() {
			w.imported(ctx, true)
			Eventually(w.condition(ctx)).Should(Equal("True Engaged: Engaged"))
			w.imported(ctx, false)
			Eventually(w.condition(ctx)).Should(Equal("none"))
		}
		cycle()
		before := runtime.NumGoroutine()
		const cycles = 20
		for range cycles {
			cycle()
		}
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<", before+cycles/2))
	})
})
