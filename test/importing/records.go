package importing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Strategies are the kinds of record, each by its short name.
func Strategies() []string { return []string{"v1", "v3"} }

// OtherThan returns the other kind of record.
func OtherThan(strategy string) string {
	return Strategies()[1-slices.Index(Strategies(), strategy)]
}

// Gate is the flag that chooses the kind of record.
func Gate(strategy string) string {
	return fmt.Sprintf("--feature-gates=managementv3-cluster=%t", strategy == "v3")
}

// LongUnless labels what the everyday run leaves out, because something alike is in it.
func LongUnless(everyday bool) Labels {
	if everyday {
		return nil
	}
	return Label("long")
}

// InternalName returns the name of the v3 Cluster that stands for a record, "" as long as Rancher has not made it.
func InternalName(record client.Object) string {
	if v1, ok := record.(*provisioningv1.Cluster); ok {
		return v1.Status.ClusterName
	}
	return record.GetName()
}

// V3Records returns the v3 Clusters that name the CAPI cluster and were not derived from a v1 Cluster.
func (f *Fixture) V3Records(ctx context.Context, cluster *clusterv1.Cluster) []managementv3.Cluster {
	GinkgoHelper()
	list := &managementv3.ClusterList{}
	Expect(f.Client.List(ctx, list, client.MatchingLabels{OwnerLabel: cluster.Name, OwnerNSLabel: cluster.Namespace})).To(Succeed())
	return slices.DeleteFunc(list.Items, func(c managementv3.Cluster) bool { return strings.HasPrefix(c.Name, "c-m-") })
}

// V1Records returns the v1 Clusters that name the CAPI cluster.
func (f *Fixture) V1Records(ctx context.Context, cluster *clusterv1.Cluster) []provisioningv1.Cluster {
	GinkgoHelper()
	list := &provisioningv1.ClusterList{}
	Expect(f.Client.List(ctx, list, client.MatchingLabels{OwnerLabel: cluster.Name, OwnerNSLabel: cluster.Namespace})).To(Succeed())
	return list.Items
}

// ExpectNothingLeft waits until no Rancher cluster names the CAPI cluster and Rancher's clean-up in
// the workload cluster is done.
func (f *Fixture) ExpectNothingLeft(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	agents := f.Lane.K(ctx).Get(NamespaceOf(AgentNamespace))
	Eventually(func(g Gomega) {
		g.Expect(f.V3Records(ctx, cluster)).To(BeEmpty())
		g.Expect(f.V1Records(ctx, cluster)).To(BeEmpty())
		g.Expect(agents()).To(Satisfy(apierrors.IsNotFound), "namespace %s in the workload cluster", AgentNamespace)
	}).Should(Succeed())
}

// Left says what Rancher or its agent has in the workload cluster.
func (l Lane) Left(ctx context.Context) []string {
	GinkgoHelper()
	var left []string
	namespaces := &corev1.NamespaceList{}
	Expect(l.Client.List(ctx, namespaces)).To(Succeed())
	for i := range namespaces.Items {
		if strings.HasPrefix(namespaces.Items[i].Name, "cattle-") {
			left = append(left, "namespace "+namespaces.Items[i].Name+" in the workload cluster")
		}
	}
	jobs := &batchv1.JobList{}
	Expect(l.Client.List(ctx, jobs)).To(Succeed())
	for i := range jobs.Items {
		left = append(left, "Job "+jobs.Items[i].Name+" in the workload cluster")
	}
	return left
}

// World is what the management cluster holds at one moment.
type World struct {
	Clusters   []clusterv1.Cluster
	V1         []provisioningv1.Cluster
	V3         []managementv3.Cluster
	Namespaces []string // of Rancher's clusters
}

// Look returns what there is now.
func (f *Fixture) Look(ctx context.Context) World {
	GinkgoHelper()
	clusters, v1, v3, namespaces := &clusterv1.ClusterList{}, &provisioningv1.ClusterList{}, &managementv3.ClusterList{}, &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{clusters, v1, v3, namespaces} {
		Expect(f.Client.List(ctx, list)).To(Succeed())
	}
	w := World{Clusters: clusters.Items, V1: v1.Items, V3: v3.Items}
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; strings.HasPrefix(name, "c-") {
			w.Namespaces = append(w.Namespaces, name)
		}
	}
	return w
}

// Cluster returns the CAPI cluster as it is now, nil if it or a namesake with another UID does not exist.
func (w World) Cluster(of *clusterv1.Cluster) *clusterv1.Cluster {
	for i := range w.Clusters {
		if w.Clusters[i].UID == of.UID {
			return &w.Clusters[i]
		}
	}
	return nil
}

// Records returns the Rancher clusters of a kind that were made for the CAPI cluster, by its UID. What Rancher derived
// from them is left out.
func (w World) Records(strategy string, of *clusterv1.Cluster) []client.Object {
	var records []client.Object
	add := func(kind string, object client.Object) {
		_, owned := object.GetLabels()[OwnedLabel]
		if kind == strategy && owned && object.GetLabels()[UIDLabel] == string(of.UID) && !strings.HasPrefix(object.GetName(), "c-m-") {
			records = append(records, object)
		}
	}
	for i := range w.V1 {
		add("v1", &w.V1[i])
	}
	for i := range w.V3 {
		add("v3", &w.V3[i])
	}
	return records
}

// Rancher says what is left of Rancher's clusters, whomever they are for. Namespace c-... hold their tokens.
func (w World) Rancher() []string {
	var left []string
	for i := range w.V1 {
		left = append(left, DescribeRecord("v1", &w.V1[i]))
	}
	for i := range w.V3 {
		left = append(left, DescribeRecord("v3", &w.V3[i]))
	}
	for _, namespace := range w.Namespaces {
		left = append(left, "namespace "+namespace)
	}
	return left
}

// DescribeRecord says what a record is and how it stands.
func DescribeRecord(strategy string, record client.Object) string {
	return fmt.Sprintf("%s %s of %q, deleted %t, finalizers %v", strategy, client.ObjectKeyFromObject(record),
		record.GetLabels()[OwnerLabel], !record.GetDeletionTimestamp().IsZero(), record.GetFinalizers())
}

// NothingOfRancher is empty when Rancher has no cluster, no namespace of one and no credentials of one.
func (f *Fixture) NothingOfRancher(ctx context.Context) func() []string {
	return func() []string {
		left := f.Look(ctx).Rancher()
		secrets := &corev1.SecretList{}
		Expect(f.Client.List(ctx, secrets, client.InNamespace("cattle-global-data"))).To(Succeed())
		for i := range secrets.Items {
			left = append(left, "Secret cattle-global-data/"+secrets.Items[i].Name)
		}
		return left
	}
}
