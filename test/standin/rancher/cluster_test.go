package rancher_test

import (
	"context"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

const noCreator = "field.cattle.io/no-creator-rbac"

func annotation(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		u.SetAnnotations(annotations)
	}
}

func spec(key string, value any) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		fields, ok := u.Object["spec"].(map[string]any)
		Expect(ok).To(BeTrue())
		fields[key] = value
	}
}

// change patches an object of the management cluster as an administrator.
func change(ctx context.Context, u *unstructured.Unstructured, changes ...func(*unstructured.Unstructured)) error {
	live, err := get(ctx, management, u.GroupVersionKind(), u.GetNamespace(), u.GetName())
	if err != nil {
		return err
	}
	before := live.DeepCopy()
	for _, change := range changes {
		change(live)
	}
	return management.Patch(ctx, live, client.MergeFrom(before))
}

// projectsOf returns the namespaces of a cluster's projects.
func projectsOf(ctx context.Context, cluster string) ([]string, error) {
	list := &corev1.NamespaceList{}
	err := management.List(ctx, list)
	var names []string
	for i := range list.Items {
		if regexp.MustCompile("^" + cluster + "-p-[a-z0-9]{5}$").MatchString(list.Items[i].Name) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, err
}

var _ = Describe("Start and admission", func() {
	It("1: serves the four kinds with Rancher's pruning", func(ctx SpecContext) {
		install(ctx, true)
		cluster := object(clusterGVK, "", "kinds")
		cluster.Object["spec"] = map[string]any{"anything": map[string]any{"deep": int64(1)}}
		cluster.Object["other"] = "pruned"
		Expect(management.Create(ctx, cluster)).To(Succeed())
		DeferCleanup(remove, cluster)
		Expect(cluster.Object).NotTo(HaveKey("other"))
		Expect(cluster.Object["spec"]).To(HaveKeyWithValue("anything", HaveKeyWithValue("deep", BeEquivalentTo(1))))

		crt := object(tokenGVK, "default", "kinds")
		crt.Object["spec"] = map[string]any{"clusterName": "kinds", "anything": "pruned"}
		crt.Object["status"] = map[string]any{"tokenSecretName": "kept"}
		Expect(management.Create(ctx, crt)).To(Succeed())
		DeferCleanup(remove, crt)
		Expect(crt.Object["spec"]).To(Equal(map[string]any{"clusterName": "kinds"}))
		Expect(field(crt, "status", "tokenSecretName")).To(Equal("kept"), "the creator can write status")

		prov := object(provGVK, "default", "kinds")
		prov.Object["spec"] = map[string]any{}
		prov.Object["status"] = map[string]any{"clusterName": "dropped"}
		Expect(management.Create(ctx, prov)).To(Succeed())
		DeferCleanup(remove, prov)
		Expect(field(prov, "status", "clusterName")).To(BeEmpty())
	})

	It("2: creates the settings with value and default", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		for name, want := range map[string][2]string{
			"server-url":                   {s.URL(), ""},
			"internal-server-url":          {s.URL(), ""},
			"cacerts":                      {string(s.CACert()), ""},
			"agent-tls-mode":               {"", "strict"},
			"fleet-default-workspace-name": {"", "fleet-default"},
		} {
			setting, err := get(ctx, management, settingGVK, "", name)
			Expect(err).NotTo(HaveOccurred())
			Expect([2]string{field(setting, "value"), field(setting, "default")}).To(Equal(want), name)
		}
	})

	It("3: rejects what Rancher's webhook rejects on v3 Clusters, until it is stopped", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		both := object(clusterGVK, "", "c-both1")
		both.SetAnnotations(map[string]string{noCreator: "true", "field.cattle.io/creatorId": "u-1"})
		Expect(management.Create(ctx, both)).To(MatchError(apierrors.IsBadRequest, "a bad request"))

		plain := newCluster(ctx, "c-plain", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
		Expect(change(ctx, plain, annotation(noCreator, "true"))).To(MatchError(ContainSubstring("cannot be added or changed")))
		marked := newCluster(ctx, "c-mark1", spec("fleetWorkspaceName", "fleet-default"))
		Expect(change(ctx, marked, annotation(noCreator, "false"))).To(MatchError(ContainSubstring("cannot be added or changed")))
		Expect(change(ctx, marked, spec("fleetWorkspaceName", ""))).To(MatchError(ContainSubstring("cannot be made empty")))
		Expect(change(ctx, marked, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })).To(Succeed(), "removal is allowed")

		jane := as(ctx, "jane")
		own := object(clusterGVK, "", "c-jane1")
		own.Object["spec"] = map[string]any{"fleetWorkspaceName": "fleet-default"}
		Expect(jane.Create(ctx, own)).To(MatchError(apierrors.IsUnauthorized, "needs fleetaddcluster"))

		remove(ctx, plain)
		remove(ctx, marked)
		s.Stop()
		Expect(management.Create(ctx, both)).To(Succeed(), "the webhook is gone with the stand-in")
		Expect(management.Delete(ctx, both)).To(Succeed())
	})
})

var _ = Describe("A new v3 Cluster", func() {
	for _, g := range generations() {
		Context("of a "+g.name, func() {
			It("4: gets finalizers and annotations one write at a time", func(ctx SpecContext) {
				startGeneration(ctx, g)
				versions := record(ctx, "c-write")
				newCluster(ctx, "c-write")
				Eventually(func(g Gomega) {
					seen := versions()
					g.Expect(seen).NotTo(BeEmpty())
					g.Expect(seen[len(seen)-1].GetAnnotations()).To(HaveKey("lifecycle.cattle.io/create.mgmt-cluster-rbac-remove"))
				}).Should(Succeed())
				seen := versions()
				for i := 1; i < len(seen); i++ {
					grown := len(seen[i].GetFinalizers()) - len(seen[i-1].GetFinalizers()) +
						len(seen[i].GetAnnotations()) - len(seen[i-1].GetAnnotations())
					Expect(grown).To(BeNumerically("<=", 1), "version %d", i)
				}
				last := seen[len(seen)-1]
				Expect(last.GetFinalizers()).To(ConsistOf(
					"controller.cattle.io/cluster-agent-controller-cleanup",
					"controller.cattle.io/cluster-scoped-gc",
					"controller.cattle.io/cluster-provisioner-controller",
					"controller.cattle.io/mgmt-cluster-rbac-remove",
					"wrangler.cattle.io/mgmt-cluster-remove"))
				Expect(last.GetAnnotations()).To(And(
					HaveKeyWithValue("lifecycle.cattle.io/create.cluster-scoped-gc", "true"),
					HaveKeyWithValue("lifecycle.cattle.io/create.mgmt-cluster-rbac-remove", "true"),
					Not(HaveKey("lifecycle.cattle.io/create.cluster-provisioner-controller"))), "that needs a driver")
			})

			It("5: gets a namespace and conditions, but neither Ready nor AgentDeployed", func(ctx SpecContext) {
				startGeneration(ctx, g)
				newCluster(ctx, "c-conds")
				Eventually(clusterConditions("c-conds")).WithContext(ctx).Should(Equal(map[string]string{
					"BackingNamespaceCreated":       "True",
					"DefaultProjectCreated":         "True",
					"SystemProjectCreated":          "True",
					"Pending":                       "Unknown",
					"Provisioned":                   "Unknown",
					"Waiting":                       "Unknown",
					"PreBootstrapped":               "Unknown",
					"NoDiskPressure":                "True",
					"NoMemoryPressure":              "True",
					"Connected":                     "False",
					"ServiceAccountSecretsMigrated": "True",
				}))
				ns := &corev1.Namespace{}
				Expect(management.Get(ctx, client.ObjectKey{Name: "c-conds"}, ns)).To(Succeed())
				Expect(ns.Annotations).To(HaveKeyWithValue("management.cattle.io/system-namespace", "true"))
				Expect(ns.OwnerReferences).To(BeEmpty())
				Expect(projectsOf(ctx, "c-conds")).To(HaveLen(2))

				newCluster(ctx, "c-owned", func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
				Eventually(clusterConditions("c-owned")).WithContext(ctx).Should(HaveKeyWithValue("CreatorMadeOwner", "True"))
			})
		})
	}

	It("6: gets the default Fleet workspace unless it is managed externally, and then its companion is in namespace default", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-fleet")
		newCluster(ctx, "c-exter", annotation("provisioning.cattle.io/externally-managed", "true"))
		workspace := func(name string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				u, err := get(ctx, management, clusterGVK, "", name)
				return field(u, "spec", "fleetWorkspaceName"), err
			}
		}
		Eventually(workspace("c-fleet")).WithContext(ctx).Should(Equal("fleet-default"))
		Eventually(clusterConditions("c-exter")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
		Expect(workspace("c-exter")(ctx)).To(BeEmpty())
		_, err := get(ctx, management, provGVK, "default", "c-exter")
		Expect(err).NotTo(HaveOccurred())
	})

	It("7: gets a default token in its namespace, after its deletion again as soon as the cluster changes", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		cluster := newCluster(ctx, "c-token")
		Eventually(clusterConditions("c-token")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
		url := manifestURL(ctx, "c-token", "default-token")
		crt, err := get(ctx, management, tokenGVK, "c-token", "default-token")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(crt, "spec", "clusterName")).To(Equal("c-token"))
		Expect(management.Delete(ctx, crt)).To(Succeed())
		gone := func(ctx context.Context) (bool, error) { return absent(ctx, management, crt.DeepCopy()) }
		Eventually(gone).WithContext(ctx).Should(BeTrue())
		Consistently(gone).WithContext(ctx).Should(BeTrue(), "its deletion is no event of the cluster")
		Expect(change(ctx, cluster, annotation("example.com/look", "again"))).To(Succeed())
		Eventually(func(ctx context.Context) string { return manifestURL(ctx, "c-token", "default-token") }).
			WithContext(ctx).ShouldNot(Equal(url), "a new token")
	})

	It("8: gets a v1 companion if its name is a legacy one", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		newCluster(ctx, "c-abcde", func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"cluster-api.cattle.io/owned": "", "team": "blue"})
		})
		newCluster(ctx, "other-name")
		Eventually(func(g Gomega, ctx context.Context) {
			companion, err := get(ctx, management, provGVK, "fleet-default", "c-abcde")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(companion.GetLabels()).To(Equal(map[string]string{"team": "blue"}))
			g.Expect(field(companion, "status", "clusterName")).To(Equal("c-abcde"))
		}).WithContext(ctx).Should(Succeed())
		Eventually(clusterConditions("other-name")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
		_, err := get(ctx, management, provGVK, "fleet-default", "other-name")
		Expect(err).To(MatchError(apierrors.IsNotFound, "not found"))
	})

	It("27: loses unknown fields to a full update, but not to a patch", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		cluster := newCluster(ctx, "c-trunc", spec("unknownField", "kept"))
		Eventually(clusterConditions("c-trunc")).WithContext(ctx).Should(HaveKeyWithValue("Connected", "False"))
		Expect(change(ctx, cluster, annotation("harmless", "patch"))).To(Succeed())
		live, err := get(ctx, management, clusterGVK, "", "c-trunc")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(live, "spec", "unknownField")).To(Equal("kept"))
		live.Object["spec"] = map[string]any{"displayName": "demo", "fleetWorkspaceName": "fleet-default"}
		delete(live.Object, "status")
		Expect(management.Update(ctx, live)).To(Succeed())
		Expect(field(live, "spec", "unknownField")).To(BeEmpty())
		Expect(conditions(live)).NotTo(BeEmpty(), "the status subresource protects status")
	})

	It("27: loses its status to a full update if it has no status subresource", func(ctx SpecContext) {
		install(ctx, false)
		cluster := object(clusterGVK, "", "c-wiped")
		cluster.Object["status"] = map[string]any{"driver": "imported"}
		Expect(management.Create(ctx, cluster)).To(Succeed())
		DeferCleanup(remove, cluster)
		delete(cluster.Object, "status")
		Expect(management.Update(ctx, cluster)).To(Succeed())
		Expect(field(cluster, "status", "driver")).To(BeEmpty())
		patched := cluster.DeepCopy()
		patched.Object["status"] = map[string]any{"driver": "imported"}
		Expect(management.Status().Patch(ctx, patched, client.MergeFrom(cluster))).To(MatchError(apierrors.IsNotFound, "not found"))
	})

	It("waits as long as its timings say", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.Connect = time.Hour })
		newCluster(ctx, "c-slow1")
		Eventually(clusterConditions("c-slow1")).WithContext(ctx).Should(HaveKey("Waiting"))
		Consistently(clusterConditions("c-slow1")).WithContext(ctx).ShouldNot(HaveKey("Connected"))
	})
})
