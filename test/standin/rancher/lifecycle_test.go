package rancher_test

import (
	"context"
	"regexp"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// provisioned waits for the v3 Cluster of a v1 Cluster in namespace default and returns its name.
func provisioned(ctx context.Context, name string) string {
	GinkgoHelper()
	var cluster string
	Eventually(func(g Gomega, ctx context.Context) {
		prov, err := get(ctx, management, provGVK, "default", name)
		g.Expect(err).NotTo(HaveOccurred())
		cluster = field(prov, "status", "clusterName")
		g.Expect(cluster).NotTo(BeEmpty())
	}).WithContext(ctx).Should(Succeed())
	return cluster
}

// clustersOf returns the names of the v3 Clusters that were made from a v1 Cluster.
func clustersOf(ctx context.Context, namespace, name string) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterGVK.GroupVersion().WithKind("ClusterList"))
	if err := management.List(ctx, list); err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		annotations := list.Items[i].GetAnnotations()
		if annotations["objectset.rio.cattle.io/owner-namespace"] == namespace && annotations["objectset.rio.cattle.io/owner-name"] == name {
			out = append(out, list.Items[i].GetName())
		}
	}
	return out, nil
}

var _ = Describe("A v1 Cluster", func() {
	It("9: gets a v3 Cluster whose name it learns late", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.ClusterName = 5 * time.Second })
		newProvisioning(ctx, "nine-capi", func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"cluster-api.cattle.io/owned": "", "team": "blue"})
		}, annotation("field.cattle.io/description", "ninth"))
		Eventually(clustersOf).WithContext(ctx).WithArguments("default", "nine-capi").Should(HaveLen(1))
		prov, err := get(ctx, management, provGVK, "default", "nine-capi")
		Expect(err).NotTo(HaveOccurred())
		Expect(field(prov, "status", "clusterName")).To(BeEmpty())
		name := provisioned(ctx, "nine-capi")
		Expect(regexp.MustCompile(`^c-m-[bcdfghjklmnpqrstvwxz2456789]{8}$`).MatchString(name)).To(BeTrue(), name)

		cluster, err := get(ctx, management, clusterGVK, "", name)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.GetLabels()).To(And(HaveKey("cluster-api.cattle.io/owned"), HaveKeyWithValue("team", "blue")))
		Expect(cluster.GetAnnotations()).To(And(
			HaveKeyWithValue(noCreator, "true"), HaveKeyWithValue("provisioning.cattle.io/administrated", "false")))
		Expect(cluster.GetOwnerReferences()).To(BeEmpty())
		Expect(cluster.Object["spec"]).To(Equal(map[string]any{
			"displayName": "nine-capi", "description": "ninth", "fleetWorkspaceName": "default", "importedConfig": map[string]any{},
		}))
		manifestURL(ctx, name, "default-token")
		_, err = get(ctx, management, provGVK, "default", name)
		Expect(err).To(MatchError(apierrors.IsNotFound, "no companion of its own"))

		Expect(change(ctx, prov, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "red"}) })).To(Succeed())
		s.Down()
		Expect(s.Up(ctx)).To(Succeed())
		Consistently(clustersOf).WithContext(ctx).WithArguments("default", "nine-capi").Should(HaveExactElements(name))
		cluster, err = get(ctx, management, clusterGVK, "", name)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.GetLabels()).To(HaveKeyWithValue("team", "blue"), "labels are copied once")
	})

	It("9: gives its v3 Cluster the annotated name", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		newProvisioning(ctx, "named", annotation("provisioning.cattle.io/management-cluster-name", "c-m-chosen99"))
		Expect(provisioned(ctx, "named")).To(Equal("c-m-chosen99"))
	})

	It("10: is checked and stamped by the webhook", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		jane := as(ctx, "jane")
		own := object(provGVK, "default", "janes")
		own.Object["spec"] = map[string]any{}
		Expect(jane.Create(ctx, own)).To(Succeed())
		DeferCleanup(remove, own)
		Expect(own.GetAnnotations()).To(HaveKeyWithValue("field.cattle.io/creatorId", "jane"))
		marked := newProvisioning(ctx, "unstamped")
		Expect(marked.GetAnnotations()).NotTo(HaveKey("field.cattle.io/creatorId"))
		for _, name := range []string{"c-nov33", "local", "a", "a" + string(make63()) + "z"} {
			err := management.Create(ctx, object(provGVK, "default", name))
			Expect(err).To(MatchError(apierrors.IsInvalid, "invalid"), name)
		}
	})

	for _, g := range generations() {
		It("11: follows its v3 Cluster, and keeps ready for good ("+g.name+")", func(ctx SpecContext) {
			s := startGeneration(ctx, g)
			foreign := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "eleven-capi-kubeconfig"},
				Data:       map[string][]byte{"value": []byte("precious")},
			}
			Expect(management.Create(ctx, foreign)).To(Succeed())
			DeferCleanup(func(ctx context.Context) {
				Expect(client.IgnoreNotFound(management.Delete(ctx, foreign))).To(Succeed())
			})
			newProvisioning(ctx, "eleven-capi")
			name := provisioned(ctx, "eleven-capi")
			apply(ctx, download(ctx, s, name), nil)
			status := func(ctx context.Context) (any, error) {
				prov, err := get(ctx, management, provGVK, "default", "eleven-capi")
				return prov.Object["status"], err
			}
			Eventually(status).WithContext(ctx).Should(And(
				HaveKeyWithValue("ready", true),
				HaveKeyWithValue("agentDeployed", true),
				HaveKeyWithValue("fleetWorkspaceName", "default"),
				HaveKeyWithValue("clientSecretName", "eleven-capi-kubeconfig")))
			prov, err := get(ctx, management, provGVK, "default", "eleven-capi")
			Expect(err).NotTo(HaveOccurred())
			Expect(conditions(prov)).To(HaveKeyWithValue("Created", "True"))
			_, copied := conditions(prov)["Waiting"]
			Expect(copied).NotTo(Equal(g.subresource), "only an old Rancher copies conditions")

			secret := &corev1.Secret{}
			Expect(management.Get(ctx, client.ObjectKeyFromObject(foreign), secret)).To(Succeed())
			Expect(secret.UID).NotTo(Equal(foreign.UID), "a foreign secret is replaced")
			Expect(secret.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/cluster-name", "eleven-capi"))
			kubeconfig, err := clientcmd.Load(secret.Data["value"])
			Expect(err).NotTo(HaveOccurred())
			Expect(kubeconfig.Clusters).To(HaveKeyWithValue("cluster", HaveField("Server", s.URL()+"/k8s/clusters/"+name)))

			removeAgent(ctx)
			Eventually(clusterConditions(name)).WithContext(ctx).Should(HaveKeyWithValue("Ready", "False/Disconnected"))
			Consistently(status).WithContext(ctx).Should(HaveKeyWithValue("ready", true))
		})
	}

	It("23: ends before its v3 Cluster does", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		prov := newProvisioning(ctx, "held-capi", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.test/hold"}) })
		name := provisioned(ctx, "held-capi")
		Eventually(clusterConditions(name)).WithContext(ctx).Should(HaveKey("Connected"))
		cluster := object(clusterGVK, "", name)
		Expect(management.Delete(ctx, cluster)).To(Succeed())
		Eventually(func(ctx context.Context) ([]string, error) {
			u, err := get(ctx, management, provGVK, "default", "held-capi")
			return u.GetFinalizers(), err
		}).WithContext(ctx).Should(HaveExactElements("example.test/hold"))
		Eventually(func(ctx context.Context) ([]string, error) {
			u, err := get(ctx, management, clusterGVK, "", name)
			return u.GetFinalizers(), err
		}).WithContext(ctx).Should(ConsistOf(
			"wrangler.cattle.io/mgmt-cluster-remove", "controller.cattle.io/mgmt-cluster-rbac-remove"))
		Expect(change(ctx, prov, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })).To(Succeed())
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())
	})

	It("25: takes its v3 Cluster and a CAPI Cluster of the same name with it", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		for _, name := range []string{"twin", "single"} {
			capi := object(capiGVK, "default", name)
			Expect(management.Create(ctx, capi)).To(Succeed())
			DeferCleanup(remove, capi)
		}
		twin := newProvisioning(ctx, "twin")
		single := newProvisioning(ctx, "single-capi")
		names := []string{provisioned(ctx, "twin"), provisioned(ctx, "single-capi")}
		remove(ctx, twin)
		remove(ctx, single)
		for _, name := range names {
			Eventually(absent).WithContext(ctx).WithArguments(management, object(clusterGVK, "", name)).Should(BeTrue())
		}
		Expect(absent(ctx, management, object(capiGVK, "default", "twin"))).To(BeTrue())
		Expect(absent(ctx, management, object(capiGVK, "default", "single"))).To(BeFalse())
	})

	It("25: takes its v3 Cluster with it out of another workspace as well", func(ctx SpecContext) {
		startGeneration(ctx, generations()[0])
		prov := newProvisioning(ctx, "moved-capi")
		cluster, err := get(ctx, management, clusterGVK, "", provisioned(ctx, "moved-capi"))
		Expect(err).NotTo(HaveOccurred())
		Expect(change(ctx, cluster, spec("fleetWorkspaceName", "blue"))).To(Succeed())
		remove(ctx, prov)
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())
	})
})

func make63() []byte {
	out := make([]byte, 63)
	for i := range out {
		out[i] = 'x'
	}
	return out
}

// cleanupJobs returns the clean-up Jobs in the workload cluster.
func cleanupJobs(ctx context.Context) ([]batchv1.Job, error) {
	jobs := &batchv1.JobList{}
	err := workload.List(ctx, jobs, client.InNamespace("default"), client.MatchingLabels{"cattle.io/creator": "norman"})
	return jobs.Items, err
}

// noWebhook has the API server ask nobody about writes of a group's clusters, as it does when rancher-webhook is away.
func noWebhook(ctx context.Context, group string) (back func()) {
	GinkgoHelper()
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	away := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "away"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         "away.example.test",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{"clusters"}},
			}},
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	Expect(management.Create(ctx, away)).To(Succeed())
	back = sync.OnceFunc(func() { Expect(management.Delete(context.Background(), away)).To(Succeed()) })
	DeferCleanup(back)
	probe := object(clusterGVK, "", "c-probe")
	Eventually(func(ctx context.Context) error { return management.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).
		WithContext(ctx).Should(MatchError(apierrors.IsInternalError, "an internal error"))
	return back
}

var _ = Describe("Deletion of a v3 Cluster", func() {
	for _, g := range generations() {
		It("24: keeps namespace and tokens while anybody has a finalizer ("+g.name+")", func(ctx SpecContext) {
			startGeneration(ctx, g)
			cluster := newCluster(ctx, "c-final", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.test/hold"}) })
			manifestURL(ctx, "c-final", "default-token")
			versions := record(ctx, "c-final")
			Expect(management.Delete(ctx, cluster)).To(Succeed())
			finalizers := func(ctx context.Context) ([]string, error) {
				u, err := get(ctx, management, clusterGVK, "", "c-final")
				return u.GetFinalizers(), err
			}
			left := ConsistOf("example.test/hold", "controller.cattle.io/mgmt-cluster-rbac-remove")
			Eventually(finalizers).WithContext(ctx).Should(left)
			Consistently(finalizers).WithContext(ctx).Should(left)
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c-final"}}
			Expect(management.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
			Expect(ns.DeletionTimestamp).To(BeNil())
			manifestURL(ctx, "c-final", "default-token")
			companion, err := get(ctx, management, provGVK, "fleet-default", "c-final")
			Expect(err).NotTo(HaveOccurred())
			Expect(companion.GetDeletionTimestamp()).NotTo(BeNil(), "it ends after its v3 Cluster")

			Expect(change(ctx, cluster, func(u *unstructured.Unstructured) {
				u.SetFinalizers([]string{"controller.cattle.io/mgmt-cluster-rbac-remove"})
			})).To(Succeed())
			for _, gone := range []client.Object{cluster, ns, companion} {
				Eventually(absent).WithContext(ctx).WithArguments(management, gone).Should(BeTrue())
			}
			Eventually(projectsOf).WithContext(ctx).WithArguments("c-final").Should(BeEmpty())
			Expect(absent(ctx, management, object(tokenGVK, "c-final", "default-token"))).To(BeTrue())
			seen := versions()
			for i := 1; i < len(seen); i++ {
				Expect(len(seen[i-1].GetFinalizers())-len(seen[i].GetFinalizers())).To(BeNumerically("<=", 1), "one at a time")
			}
		})
	}

	It("22, 26: cleans the workload cluster up with a Job, which an early import meets", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		cluster := join(ctx, s, "c-clean")
		manifest := download(ctx, s, "c-clean")
		Expect(management.Delete(ctx, cluster)).To(Succeed())
		Eventually(cleanupJobs).WithContext(ctx).Should(HaveExactElements(And(
			HaveField("GenerateName", "cattle-cleanup-"), HaveField("Name", HavePrefix("cattle-cleanup-")))))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-system"}}
		Expect(workload.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
		Expect(ns.DeletionTimestamp).To(BeNil(), "the Job sleeps first")
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())

		Eventually(func(ctx context.Context) error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", GenerateName: "early-"}}
			return workload.Create(ctx, account)
		}).WithContext(ctx).Should(MatchError(func(err error) bool {
			return apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
		}, "namespace is terminating"))
		Eventually(cleanupJobs).WithContext(ctx).Should(BeEmpty())
		Eventually(absent).WithContext(ctx).WithArguments(workload, ns).Should(BeTrue())
		for _, obj := range []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cattle-admin"}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cattle-admin-binding"}},
		} {
			Expect(absent(ctx, workload, obj)).To(BeTrue())
		}
		proxy := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "proxy-clusterrole-kubeapiserver"}}
		Expect(absent(ctx, workload, proxy)).To(BeFalse(), "it has no label")

		// The old manifest's token died with its namespace.
		apply(ctx, manifest, nil)
		newCluster(ctx, "c-clean")
		Consistently(func() bool { _, ok := s.Connected("c-clean"); return ok }).Should(BeFalse())
	})

	It("22: creates another Job each time that its webhook keeps it from taking the finalizer off", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.Cleanup = time.Second })
		cluster := join(ctx, s, "c-hooks")
		back := noWebhook(ctx, clusterGVK.Group)
		Expect(management.Delete(ctx, cluster)).To(Succeed())
		Eventually(cleanupJobs).WithContext(ctx).Should(HaveLen(3))
		back()
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())
		Eventually(cleanupJobs).WithContext(ctx).Should(BeEmpty())
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-system"}}
		Eventually(absent).WithContext(ctx).WithArguments(workload, ns).Should(BeTrue())
	})

	It("22: leaves a workload cluster alone that was never connected", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0])
		cluster := newCluster(ctx, "c-never")
		download(ctx, s, "c-never")
		remove(ctx, cluster)
		Expect(cleanupJobs(ctx)).To(BeEmpty())
	})

	It("22: gives up on an unreachable workload cluster after three attempts", func(ctx SpecContext) {
		s := startGeneration(ctx, generations()[0], func(o *rancher.Options) { o.Timings.CleanupRetry = 200 * time.Millisecond })
		cluster := join(ctx, s, "c-unrea")
		s.RemoveWorkload("downstream")
		began := time.Now()
		Expect(management.Delete(ctx, cluster)).To(Succeed())
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())
		Expect(time.Since(began)).To(BeNumerically(">=", 400*time.Millisecond))
		Expect(cleanupJobs(ctx)).To(BeEmpty())
	})
})
