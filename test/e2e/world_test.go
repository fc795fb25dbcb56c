package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/env"
)

// lane is a real workload cluster. It has one agent, so it is one import's at a time.
type lane struct {
	name   string
	plane  *env.ControlPlane
	client client.Client
}

// lane starts another workload cluster beside the one of the fixture.
func (f *fixture) lane(ctx context.Context, name string, audit bool) lane {
	GinkgoHelper()
	plane, err := f.Workload(ctx, env.Options{Name: name, Audit: audit})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		f.Rancher.RemoveWorkload(name)
		Expect(plane.Stop()).To(Succeed())
	})
	return lane{name: name, plane: plane, client: adminClient(plane)}
}

// clusterWith creates a CAPI cluster with a given kubeconfig, whose control plane is up.
func (f *fixture) clusterWith(ctx context.Context, namespace, name string, kubeconfig []byte, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	Expect(f.Client.Create(ctx, builder.KubeconfigSecret(namespace, name, kubeconfig))).To(Succeed())
	cluster := builder.Cluster(namespace, name)
	for _, c := range change {
		c(cluster)
	}
	Expect(f.Client.Create(ctx, cluster)).To(Succeed())
	f.status(ctx, cluster, builder.ControlPlaneUp)
	return cluster
}

// clusterIn creates a CAPI cluster that reaches the workload cluster of the lane.
func (f *fixture) clusterIn(ctx context.Context, l lane, namespace, name string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	GinkgoHelper()
	kubeconfig, err := l.plane.Kubeconfig()
	Expect(err).NotTo(HaveOccurred())
	return f.clusterWith(ctx, namespace, name, kubeconfig, change...)
}

// world is what the management cluster holds at one moment.
type world struct {
	clusters   []clusterv1.Cluster
	v1         []provisioningv1.Cluster
	v3         []managementv3.Cluster
	namespaces []string // of Rancher's clusters
}

func (f *fixture) look(ctx context.Context) world {
	GinkgoHelper()
	clusters, v1, v3, namespaces := &clusterv1.ClusterList{}, &provisioningv1.ClusterList{}, &managementv3.ClusterList{}, &corev1.NamespaceList{}
	for _, list := range []client.ObjectList{clusters, v1, v3, namespaces} {
		Expect(f.Client.List(ctx, list)).To(Succeed())
	}
	w := world{clusters: clusters.Items, v1: v1.Items, v3: v3.Items}
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; strings.HasPrefix(name, "c-") {
			w.namespaces = append(w.namespaces, name)
		}
	}
	return w
}

// cluster returns the CAPI cluster as it is now, nil if it or a namesake with another UID does not exist.
func (w world) cluster(of *clusterv1.Cluster) *clusterv1.Cluster {
	for i := range w.clusters {
		if w.clusters[i].UID == of.UID {
			return &w.clusters[i]
		}
	}
	return nil
}

// records returns the Rancher clusters of a kind that were made for the CAPI cluster, by its UID. What Rancher derived
// from them is left out.
func (w world) records(strategy string, of *clusterv1.Cluster) []client.Object {
	var records []client.Object
	add := func(kind string, object client.Object) {
		_, owned := object.GetLabels()[ownedLabel]
		if kind == strategy && owned && object.GetLabels()[uidLabel] == string(of.UID) && !strings.HasPrefix(object.GetName(), "c-m-") {
			records = append(records, object)
		}
	}
	for i := range w.v1 {
		add("v1", &w.v1[i])
	}
	for i := range w.v3 {
		add("v3", &w.v3[i])
	}
	return records
}

// rancher says what is left of Rancher's clusters, whomever they are for. Namespace c-... hold their tokens.
func (w world) rancher() []string {
	var left []string
	for i := range w.v1 {
		left = append(left, describeRecord("v1", &w.v1[i]))
	}
	for i := range w.v3 {
		left = append(left, describeRecord("v3", &w.v3[i]))
	}
	for _, namespace := range w.namespaces {
		left = append(left, "namespace "+namespace)
	}
	return left
}

func describeRecord(strategy string, object client.Object) string {
	return fmt.Sprintf("%s %s of %q, deleted %t, finalizers %v", strategy, client.ObjectKeyFromObject(object),
		object.GetLabels()[ownerLabel], !object.GetDeletionTimestamp().IsZero(), object.GetFinalizers())
}

// nothingOfRancher is empty when Rancher has no cluster, no namespace of one and no credentials of one.
func (f *fixture) nothingOfRancher(ctx context.Context) func() []string {
	return func() []string {
		left := f.look(ctx).rancher()
		secrets := &corev1.SecretList{}
		Expect(f.Client.List(ctx, secrets, client.InNamespace("cattle-global-data"))).To(Succeed())
		for i := range secrets.Items {
			left = append(left, "Secret cattle-global-data/"+secrets.Items[i].Name)
		}
		return left
	}
}

// strategies are the kinds of record, each by its short name.
func strategies() []string { return []string{"v1", "v3"} }

func otherThan(strategy string) string {
	return strategies()[1-slices.Index(strategies(), strategy)]
}

// gate is the flag that chooses the kind of record.
func gate(strategy string) string {
	return fmt.Sprintf("--feature-gates=managementv3-cluster=%t", strategy == "v3")
}

// longUnless labels what the everyday run leaves out, because something alike is in it.
func longUnless(everyday bool) Labels {
	if everyday {
		return nil
	}
	return Label("long")
}

// internalName returns the name of the v3 Cluster that stands for a record, "" as long as Rancher has not made it.
func internalName(record client.Object) string {
	if v1, ok := record.(*provisioningv1.Cluster); ok {
		return v1.Status.ClusterName
	}
	return record.GetName()
}
