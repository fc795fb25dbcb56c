package plan_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/plan"
	"github.com/archelon-io/archelon/test/builder"
)

// Literals of the contract.
const (
	team        = "team-a"
	importLabel = "cluster-api.cattle.io/rancher-auto-import"
	finalizer   = "archelon.io/rancher-import"
	recordKey   = "archelon.io/rancher-cluster"
	instanceKey = "archelon.io/instance"
	managedBy   = "archelon.io/managed-by"
	uidLabel    = "archelon.io/capi-cluster-uid"
	watchLabel  = "cluster.x-k8s.io/watch-filter"
	turtlesHold = "capicluster.turtles.cattle.io"
	self        = "archelon-system/archelon"
	// others keeps an object that is deleted, as Rancher and CAPI do.
	others = "example.com/others"
)

var arguments = []string{
	"--leader-elect-namespace=archelon-system", "--instance=archelon", "--excluded-namespace=team-b", "--watch-filter=mine",
}

// labelled is a CAPI cluster with the import label.
func labelled(name string) *clusterv1.Cluster {
	cluster := builder.Cluster(team, name)
	cluster.Labels = map[string]string{importLabel: "true", watchLabel: "mine"}
	return cluster
}

// up creates a CAPI cluster whose control plane is up.
func (w *world) up(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	w.create(ctx, cluster)
	builder.ControlPlaneUp(cluster)
	Expect(w.client.Status().Update(ctx, cluster)).To(Succeed())
}

// ownedBy are the labels of a Rancher cluster that was created for a CAPI cluster.
func ownedBy(cluster *clusterv1.Cluster) map[string]string {
	return map[string]string{
		"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": cluster.Name,
		"cluster-api.cattle.io/capi-cluster-owner-ns": cluster.Namespace, uidLabel: string(cluster.UID),
	}
}

// v3 creates a v3 Rancher cluster for a CAPI cluster, to which Rancher is connected.
func (w *world) v3(ctx context.Context, name string, cluster *clusterv1.Cluster, change ...func(client.Object)) {
	GinkgoHelper()
	record := &managementv3.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: ownedBy(cluster), Finalizers: []string{finalizer, others},
			Annotations: map[string]string{"rancher.io/imported-cluster-version-management": "false"},
		},
		Spec: managementv3.ClusterSpec{DisplayName: cluster.Name, Description: "CAPI cluster imported to Rancher"},
	}
	for _, c := range change {
		c(record)
	}
	w.create(ctx, record)
	for _, kind := range []string{"Connected", "Waiting"} {
		record.Status.Conditions = append(record.Status.Conditions, managementv3.ClusterCondition{
			Type: managementv3.ClusterConditionType(kind), Status: corev1.ConditionTrue, LastUpdateTime: "2026-01-02T03:04:05Z",
		})
	}
	Expect(w.client.Status().Update(ctx, record)).To(Succeed())
}

// v1 creates a v1 Rancher cluster for a CAPI cluster, with the v3 Cluster that Rancher makes from it.
func (w *world) v1(ctx context.Context, name string, cluster *clusterv1.Cluster, change ...func(client.Object)) {
	GinkgoHelper()
	record := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: name, Labels: ownedBy(cluster), Finalizers: []string{finalizer, others},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}},
	}}
	for _, c := range change {
		c(record)
	}
	w.create(ctx, record)
	record.Status.ClusterName = "c-m-" + name
	Expect(w.client.Status().Update(ctx, record)).To(Succeed())
	w.v3(ctx, record.Status.ClusterName, cluster, func(behind client.Object) {
		annotations := behind.GetAnnotations()
		annotations["provisioning.cattle.io/administrated"] = "true"
		annotations["objectset.rio.cattle.io/owner-name"], annotations["objectset.rio.cattle.io/owner-namespace"] = record.Name, record.Namespace
		behind.SetFinalizers([]string{others})
	})
}

// kind is one of Rancher clusters.
type kind struct {
	name   string
	create func(ctx context.Context, name string, cluster *clusterv1.Cluster, change ...func(client.Object))
	// of names the Rancher cluster of a CAPI cluster.
	of     func(cluster string) string
	object func(name string) client.Object
	args   []string
}

func (w *world) kinds() (v1, v3 kind) {
	v1 = kind{"v1", w.v1, func(cluster string) string { return cluster + "-capi" }, func(name string) client.Object {
		return &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	}, nil}
	v3 = kind{"v3", w.v3, func(cluster string) string { return "c-" + cluster[:5] }, func(name string) client.Object {
		return &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}, []string{"--feature-gates=managementv3-cluster=true"}}
	return v1, v3
}

// scenarios creates a cluster for each thing that the import does, with Rancher clusters of a
// kind, and one with another.
func (w *world) scenarios(ctx context.Context, active, former kind) {
	GinkgoHelper()
	w.create(ctx, namespaceOf("archelon-system"), namespaceOf(team), namespaceOf("team-b"))
	w.create(ctx, &managementv3.Setting{ObjectMeta: metav1.ObjectMeta{Name: "server-url"}, Value: "https://rancher.example.com"})
	imported := func(name string, of kind, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
		GinkgoHelper()
		cluster := labelled(name)
		cluster.Finalizers = []string{finalizer, others}
		cluster.Annotations = map[string]string{recordKey: of.name + "/" + of.of(name), instanceKey: self}
		for _, c := range change {
			c(cluster)
		}
		w.up(ctx, cluster)
		of.create(ctx, of.of(name), cluster)
		return cluster
	}
	remove := func(object client.Object) {
		GinkgoHelper()
		Expect(w.client.Delete(ctx, object)).To(Succeed())
	}
	w.up(ctx, labelled("fresh"))
	unlabelled := labelled("unlabelled")
	delete(unlabelled.Labels, importLabel)
	w.up(ctx, unlabelled)
	w.create(ctx, labelled("no-control-plane"))
	paused := labelled("paused")
	paused.Spec.Paused = new(true)
	w.up(ctx, paused)
	excluded := labelled("excluded")
	excluded.Namespace = "team-b"
	w.up(ctx, excluded)

	imported("settled", active)
	remove(imported("deleted", active))
	imported("unwanted", active, func(c *clusterv1.Cluster) { c.Labels[importLabel] = "false" })
	imported("assigned", active, func(c *clusterv1.Cluster) { c.Annotations[managedBy] = "rancher-turtles" })
	imported("removed", active)
	remove(active.object(active.of("removed")))
	// Another instance had it, and it has a label and a name that Rancher does not have yet.
	imported("changed", active, func(c *clusterv1.Cluster) {
		c.Labels["tier"], c.Annotations["archelon.io/display-name"] = "gold", "other-name"
		c.Annotations[instanceKey] = "elsewhere/archelon"
	})
	// Its watch label is another one's.
	imported("of-others", active, func(c *clusterv1.Cluster) { c.Labels[watchLabel] = "others" })
	remove(active.object(active.of("of-others")))
	imported("of-the-other-kind", former)

	orphan := builder.Cluster(team, "vanished")
	orphan.UID = "of-one-that-is-gone"
	active.create(ctx, active.of("vanished"), orphan)
	remove(active.object(active.of("vanished")))
	adopted := labelled("adopted")
	adopted.Annotations = map[string]string{managedBy: "archelon"}
	w.up(ctx, adopted)
	active.create(ctx, active.of("adopted"), adopted, func(record client.Object) {
		labels := record.GetLabels()
		delete(labels, uidLabel)
		record.SetFinalizers([]string{turtlesHold})
	})
}

func namespaceOf(name string) client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

var _ = Describe("archelon plan", Ordered, func() {
	for _, v3 := range []bool{true, false} {
		It(fmt.Sprintf("says what the manager then does, with v3 Rancher clusters: %t", v3), func(ctx SpecContext) {
			w := newWorld(ctx, fmt.Sprintf("plan-%t", v3))
			former, active := w.kinds()
			if !v3 {
				active, former = former, active
			}
			w.scenarios(ctx, active, former)
			args := append(slices.Clone(arguments), active.args...)
			plans, before := w.plans(ctx, args...), w.records(ctx)
			said := planned(plans)
			Expect(intents(plans)).To(ConsistOf(
				"idle", "import", "pause", "delete", "un-import", "leave to others", "release orphans"))

			By("writing nothing")
			asked := w.requests(planner)
			Expect(len(asked)).To(BeNumerically("<=", 7), "one list of each kind")
			for _, request := range asked {
				Expect(request.Verb).To(Equal("list"), request.RequestURI)
				Expect(request.ResponseStatus.Code).To(BeEquivalentTo(200), request.RequestURI)
				Expect(request.ObjectRef.Resource).NotTo(BeElementOf("secrets", "clusterregistrationtokens"))
			}

			By("having the manager work")
			w.manage(ctx, args...)
			differences := func() []string { return w.differences(ctx, said, before) }
			Eventually(differences).WithContext(ctx).Should(BeEmpty())
			Consistently(differences).WithContext(ctx).Should(BeEmpty())
			for key, cluster := range plans {
				w.expectCondition(ctx, key, cluster)
			}
			_, err := w.plan(ctx, args...)
			Expect(err).NotTo(HaveOccurred(), "nothing is left to do")
		}, SpecTimeout(scenarioTime))
	}
})

// intents are those of plans, each once.
func intents(plans map[string]plan.Cluster) []string {
	var all []string
	for _, cluster := range plans {
		all = append(all, cluster.Intent)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// expectCondition asserts that a cluster is in the state that the plan has said.
func (w *world) expectCondition(ctx context.Context, key string, said plan.Cluster) {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{}
	if w.client.Get(ctx, client.ObjectKey{Namespace: said.Namespace, Name: said.Name}, cluster) != nil {
		return // It is gone.
	}
	for _, condition := range cluster.Status.Conditions {
		if condition.Type == "RancherImported" {
			Expect(condition.Reason).To(Equal(said.Reason), key)
		}
	}
}
