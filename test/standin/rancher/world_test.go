package rancher_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// secretToken returns the token in a Secret.
func secretToken(ctx context.Context, g Gomega, namespace, name string) string {
	secret := &corev1.Secret{}
	g.Expect(management.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
	return string(secret.Data["token"])
}

// clusterAgent is the agent's Deployment.
func clusterAgent() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "cattle-cluster-agent"}}
}

// removeAgent takes the agent and its credentials out of the workload cluster, but leaves the namespace.
func removeAgent(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(workload.Delete(ctx, clusterAgent()))).To(Succeed())
	Expect(workload.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("cattle-system"))).To(Succeed())
}

// download returns the manifest of a cluster's default token.
func download(ctx context.Context, s *rancher.Standin, cluster string) string {
	GinkgoHelper()
	got, err := fetch(ctx, s.CACert(), manifestURL(ctx, cluster, "default-token"))
	Expect(err).NotTo(HaveOccurred())
	Expect(got.Status).To(Equal(200), got.Body)
	return got.Body
}

// join lets the agent of the workload cluster connect for a new v3 Cluster.
func join(ctx context.Context, s *rancher.Standin, name string) *unstructured.Unstructured {
	GinkgoHelper()
	cluster := newCluster(ctx, name)
	apply(ctx, download(ctx, s, cluster.GetName()), nil)
	Eventually(clusterConditions(cluster.GetName())).WithContext(ctx).Should(And(
		HaveKeyWithValue("Connected", "True"),
		HaveKeyWithValue("Ready", "True"),
		HaveKeyWithValue("AgentDeployed", "True"),
	))
	return cluster
}

// generation is one of the two Ranchers that the specs meet.
type generation struct {
	name        string
	tokenMode   rancher.TokenMode
	subresource bool
}

// generations are the newest Rancher and one before 2.13.8.
func generations() []generation {
	return []generation{
		{"new Rancher", rancher.TokenPlaceholder, true},
		{"old Rancher", rancher.TokenPlain, false},
	}
}

// startGeneration installs the generation's CRD and runs a stand-in of it, with the workload
// cluster registered.
func startGeneration(ctx context.Context, g generation, changes ...func(*rancher.Options)) *rancher.Standin {
	GinkgoHelper()
	install(ctx, g.subresource)
	s := start(ctx, func(o *rancher.Options) {
		o.TokenMode = g.tokenMode
		o.StatusSubresource = g.subresource
		for _, change := range changes {
			change(o)
		}
	})
	Expect(s.AddWorkload("downstream", workloadPlane.Config)).To(Succeed())
	return s
}

// install gives the v3 Cluster a status subresource or takes it away, and waits until the API
// server acts on it. No stand-in may run meanwhile.
func install(ctx context.Context, subresource bool) {
	GinkgoHelper()
	definitions, err := rancher.CRDs(subresource)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(ctx context.Context) error {
		live := definitions[0].DeepCopy()
		if err := management.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		live.Spec.Versions[0].Subresources = definitions[0].Spec.Versions[0].Subresources
		return management.Update(ctx, live)
	}).WithContext(ctx).Should(Succeed())
	want := "probe"
	if subresource {
		want = "" // dropped at creation
	}
	Eventually(func(g Gomega, ctx context.Context) {
		probe := object(clusterGVK, "", "probe")
		probe.Object["status"] = map[string]any{"driver": "probe"}
		g.Expect(management.Create(ctx, probe)).To(Succeed())
		g.Expect(management.Delete(ctx, object(clusterGVK, "", "probe"))).To(Succeed())
		g.Expect(field(probe, "status", "driver")).To(Equal(want))
	}).WithContext(ctx).Should(Succeed())
}

// record collects every version of a v3 Cluster from now on.
func record(ctx context.Context, name string) func() []*unstructured.Unstructured {
	GinkgoHelper()
	watching, err := client.NewWithWatch(managementPlane.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterGVK.GroupVersion().WithKind("ClusterList"))
	watcher, err := watching.Watch(ctx, list, client.MatchingFields{"metadata.name": name})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	var mu sync.Mutex
	var seen []*unstructured.Unstructured
	go func() {
		for event := range watcher.ResultChan() {
			if u, ok := event.Object.(*unstructured.Unstructured); ok {
				mu.Lock()
				seen = append(seen, u)
				mu.Unlock()
			}
		}
	}()
	return func() []*unstructured.Unstructured {
		mu.Lock()
		defer mu.Unlock()
		return append([]*unstructured.Unstructured(nil), seen...)
	}
}

// as returns a client of the management cluster that acts as a user who may do anything with
// Rancher clusters, but has no rights on Fleet workspaces.
func as(ctx context.Context, user string) client.Client {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-editor"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{clusterGVK.Group, provGVK.Group}, Resources: []string{"clusters"}, Verbs: []string{"*"},
		}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-editor"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	for _, obj := range []client.Object{role, binding} {
		Expect(client.IgnoreAlreadyExists(management.Create(ctx, obj))).To(Succeed())
	}
	config := rest.CopyConfig(managementPlane.Config)
	config.Impersonate.UserName = user
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	// The authorizer learns of the binding through a watch.
	Eventually(func(ctx context.Context) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(clusterGVK.GroupVersion().WithKind("ClusterList"))
		return c.List(ctx, list)
	}).WithContext(ctx).Should(Succeed())
	return c
}
