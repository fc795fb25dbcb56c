package import_test

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// The labels that Turtles gives Fleet Clusters. Rancher copies no label of these keys.
const (
	fleetClassNameKey      = "cluster-api.cattle.io/clusterclass-name"
	fleetClassNamespaceKey = "cluster-api.cattle.io/clusterclass-namespace"
)

// Scenario: Fleet chooses clusters by the labels that Turtles gives them.
var _ = Describe("The Fleet Cluster of a CAPI Cluster", func() {
	for _, strategy := range importing.Strategies() {
		It("has the labels of the ClusterClass, as it is and as it becomes, as "+strategy, func(ctx context.Context) {
			f := newFixture(ctx, stage.Options{
				Name: "fleet-class-" + strategy, Audit: true, Rancher: func(o *rancher.Options) { o.Logger = GinkgoLogr },
			})
			f.Values = maps.Clone(f.Values)
			if f.Values == nil {
				f.Values = map[string]any{}
			}
			f.Values["admissionPolicy"] = map[string]any{"enabled": true}
			namespace := f.Namespace(ctx, nil)
			f.run(ctx, importing.Gate(strategy), "--cluster-class-labels") // It is ready while Fleet is not installed.
			cluster := f.Cluster(ctx, namespace, "prod", importing.Selected, func(c *clusterv1.Cluster) {
				c.Labels[fleetClassNameKey] = "forged"
				c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "quick"}, Version: "v1.36.0"}
			})
			Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))

			By("installing Fleet")
			f.StartFleet(ctx)
			fleet := f.fleetCluster(ctx, strategy, cluster)
			labels := func() map[string]string {
				found := fleet.DeepCopy()
				if f.Client.Get(ctx, client.ObjectKeyFromObject(fleet), found) != nil {
					return nil
				}
				return found.GetLabels()
			}
			class := func(name, namespace string) OmegaMatcher {
				return And(HaveKeyWithValue(fleetClassNameKey, name), HaveKeyWithValue(fleetClassNamespaceKey, namespace))
			}
			Eventually(labels).Should(And(class("quick", namespace), HaveKeyWithValue(classNameKey, "quick")))

			By("changing the ClusterClass")
			other := f.foreignFleetCluster(ctx, fleet, labels())
			f.classify(ctx, cluster, clusterv1.ClusterClassRef{Name: "other", Namespace: "classes"})
			Eventually(labels).Should(class("other", "classes"))

			By("removing a label from the Fleet Cluster")
			f.Patch(ctx, importing.Current(ctx, f.Client, fleet), func(o client.Object) {
				changed := o.GetLabels()
				delete(changed, fleetClassNameKey)
				o.SetLabels(changed)
			})
			Eventually(labels).Should(class("other", "classes"))

			By("having Rancher write the Fleet Cluster")
			f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
				o.SetLabels(map[string]string{importing.ImportLabel: "true", "team": "blue"})
			})
			Eventually(labels).Should(And(HaveKeyWithValue("team", "blue"), class("other", "classes")))

			By("writing anything else of a Fleet Cluster as the manager")
			manager := rest.CopyConfig(f.Management.Config)
			manager.Impersonate.UserName = importing.User
			as, err := client.New(manager, client.Options{Scheme: f.Client.Scheme()})
			Expect(err).NotTo(HaveOccurred())
			for _, patch := range []string{
				`{"metadata":{"labels":{"team":"red"}}}`, `{"metadata":{"labels":{"team":null}}}`,
				`{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"finalizers":["example.com/a"]}}`,
				`{"spec":{"kubeConfigSecret":"other"}}`,
			} {
				Eventually(func() error {
					return as.Patch(ctx, fleet.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
				}).Should(Satisfy(apierrors.IsForbidden), patch)
			}

			By("taking the ClusterClass away")
			f.classify(ctx, cluster, clusterv1.ClusterClassRef{})
			Eventually(labels).Should(And(
				Not(HaveKey(fleetClassNameKey)), Not(HaveKey(fleetClassNamespaceKey)), Not(HaveKey(classNameKey)),
			))
			Expect(importing.Current(ctx, f.Client, other).GetLabels()).To(class("quick", namespace))
			Expect(f.fleetWrites()).To(Equal(4), "one for each change, and none for what Rancher writes")
			for _, request := range f.Requests() {
				forbidden := request.ResponseStatus.Code == 403 && request.ImpersonatedUser == nil
				Expect(forbidden).To(BeFalse(), "%s %s", request.Verb, request.RequestURI)
			}
		})
	}
})

// classify gives a Cluster another ClusterClass.
func (f *fixture) classify(ctx context.Context, cluster *clusterv1.Cluster, class clusterv1.ClusterClassRef) {
	GinkgoHelper()
	f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) {
		if c, ok := o.(*clusterv1.Cluster); ok {
			if c.Spec.Topology.ClassRef = class; class.Name == "" {
				c.Spec.Topology = clusterv1.Topology{}
			}
		}
	})
}

// fleetCluster returns the Fleet Cluster of an imported Cluster by its name.
func (f *fixture) fleetCluster(
	ctx context.Context, strategy string, cluster *clusterv1.Cluster,
) *unstructured.Unstructured {
	GinkgoHelper()
	if strategy == "v1" {
		record := f.V1Records(ctx, cluster)[0]
		return importing.FleetCluster(record.Namespace, record.Name)
	}
	record := f.V3Records(ctx, cluster)[0]
	return importing.FleetCluster(record.Spec.FleetWorkspaceName, record.Name)
}

// foreignFleetCluster creates a Fleet Cluster of another Rancher cluster that has all other labels of a given one.
func (f *fixture) foreignFleetCluster(
	ctx context.Context, fleet client.Object, labels map[string]string,
) *unstructured.Unstructured {
	GinkgoHelper()
	other := importing.FleetCluster(fleet.GetNamespace(), "foreign")
	labels = maps.Clone(labels)
	labels["management.cattle.io/cluster-name"] = "c-other"
	other.SetLabels(labels)
	Expect(f.Client.Create(ctx, other)).To(Succeed())
	return other
}

// fleetWrites returns how often the manager has changed Fleet Clusters.
func (f *fixture) fleetWrites() int {
	GinkgoHelper()
	count := 0
	for _, request := range f.Requests() {
		if ref := request.ObjectRef; ref != nil && ref.APIGroup == "fleet.cattle.io" && changes(request) {
			count++
		}
	}
	return count
}

func changes(request auditv1.Event) bool {
	switch request.Verb {
	case "get", "list", "watch":
		return false
	}
	return request.ResponseStatus != nil && request.ResponseStatus.Code == 200
}
