package rancher_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// cleanupOf waits for the clean-up Job in the workload cluster.
func cleanupOf(ctx context.Context) batchv1.Job {
	GinkgoHelper()
	Eventually(cleanupJobs).WithContext(ctx).Should(HaveLen(1))
	jobs, err := cleanupJobs(ctx)
	Expect(err).NotTo(HaveOccurred())
	return jobs[0]
}

// runJob starts the program of a clean-up Job with the rights of its ServiceAccount.
func runJob(ctx context.Context, job batchv1.Job) *pod {
	GinkgoHelper()
	env := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	opts, err := agent.FromEnvironment(func(name string) string { return env[name] })
	Expect(err).NotTo(HaveOccurred())
	Expect(opts.Cleanup).To(BeTrue())
	opts.Config = identityOf(ctx, job.Namespace, job.Spec.Template.Spec.ServiceAccountName)
	return launch(opts)
}

// leftOfCleanup returns the names of all that belongs to a clean-up.
func leftOfCleanup(ctx context.Context) ([]string, error) {
	var left []string
	for _, list := range []client.ObjectList{
		&batchv1.JobList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &corev1.ServiceAccountList{},
	} {
		if err := workload.List(ctx, list); err != nil {
			return nil, err
		}
		left = append(left, generated(list)...)
	}
	return left, nil
}

func generated(list client.ObjectList) []string {
	var names []string
	add := func(meta metav1.ObjectMeta) {
		if meta.GenerateName == agent.CleanupHead {
			names = append(names, meta.Name)
		}
	}
	switch list := list.(type) {
	case *batchv1.JobList:
		for i := range list.Items {
			add(list.Items[i].ObjectMeta)
		}
	case *rbacv1.ClusterRoleList:
		for i := range list.Items {
			add(list.Items[i].ObjectMeta)
		}
	case *rbacv1.ClusterRoleBindingList:
		for i := range list.Items {
			add(list.Items[i].ObjectMeta)
		}
	case *corev1.ServiceAccountList:
		for i := range list.Items {
			add(list.Items[i].ObjectMeta)
		}
	}
	return names
}

var _ = Describe("The clean-up of a cluster with a real agent", func() {
	It("is left to the Job, which removes itself last", func(ctx SpecContext) {
		s := startReal(ctx, func(o *rancher.Options) { o.Timings.Cleanup = 200 * time.Millisecond })
		joinReal(ctx, s, "c-rcl01")
		cluster := object(clusterGVK, "", "c-rcl01")
		Expect(management.Delete(ctx, cluster)).To(Succeed())
		job := cleanupOf(ctx)
		Eventually(absent).WithContext(ctx).WithArguments(management, cluster).Should(BeTrue())
		Expect(leftOfCleanup(ctx)).To(HaveLen(4))
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-system"}}
		Consistently(absent).WithContext(ctx).WithArguments(workload, ns).Should(BeFalse(), "nothing is played")

		Eventually(runJob(ctx, job).ended).Should(BeClosed())
		Eventually(absent).WithContext(ctx).WithArguments(workload, ns).Should(BeTrue())
		Eventually(leftOfCleanup).WithContext(ctx).Should(BeEmpty())
		for _, obj := range []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cattle-admin"}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "cattle-admin-binding"}},
		} {
			Expect(absent(ctx, workload, obj)).To(BeTrue())
		}

		// The workload cluster can be imported and cleaned up again.
		joinReal(ctx, s, "c-rcl02")
		Expect(management.Delete(ctx, object(clusterGVK, "", "c-rcl02"))).To(Succeed())
		Eventually(runJob(ctx, cleanupOf(ctx)).ended).Should(BeClosed())
		Eventually(leftOfCleanup).WithContext(ctx).Should(BeEmpty())
	})

	It("spares a cluster that runs Rancher itself", func(ctx SpecContext) {
		s := startReal(ctx, func(o *rancher.Options) { o.Timings.Cleanup = 0 })
		joinReal(ctx, s, "c-rcl03")
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "rancher"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		}
		Expect(workload.Create(ctx, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(workload.Delete(ctx, service)).To(Succeed()) })
		Expect(management.Delete(ctx, object(clusterGVK, "", "c-rcl03"))).To(Succeed())
		Eventually(runJob(ctx, cleanupOf(ctx)).ended).Should(BeClosed())
		Eventually(leftOfCleanup).WithContext(ctx).Should(BeEmpty())
		Expect(absent(ctx, workload, clusterAgent())).To(BeFalse())
	})
})
