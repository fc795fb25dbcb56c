package node_test

import (
	"context"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("a workload", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("rolls out as a Deployment, with one Pod ready at all times", func(ctx SpecContext) {
		object := deployment(namespace, server())
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyRolledOut(ctx, object)
		Expect(available(object)).To(BeTrue())

		watch, err := admin.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		defer watch.Stop()
		seen := map[string]*corev1.Pod{}
		main := &object.Spec.Template.Spec.Containers[0]
		main.Image, main.Args = newerImage, append(main.Args, "--warm-up=1500ms")
		Expect(admin.Update(ctx, object)).To(Succeed())
		Eventually(func(g Gomega) {
			event := <-watch.ResultChan()
			each, ok := event.Object.(*corev1.Pod)
			g.Expect(ok).To(BeTrue())
			seen[each.Name] = each
			if event.Type == "DELETED" {
				delete(seen, each.Name)
			}
			Expect(serving(ctx, seen)).To(BeNumerically(">=", 1), "after %s of %s", event.Type, each.Name)
			g.Expect(seen).To(HaveLen(1))
			for _, last := range seen {
				g.Expect(last.Spec.Containers[0].Image).To(Equal(newerImage))
			}
		}, timeout, "1ms").Should(Succeed())
		eventuallyRolledOut(ctx, object)
	})

	It("completes as a Job", func(ctx SpecContext) {
		object := job(namespace, 0, task("--exit=0"))
		Expect(admin.Create(ctx, object)).To(Succeed())
		Eventually(func() []string { return outcomes(current(ctx, object)) }, timeout, interval).Should(ContainElement("Complete"))
		Expect(object.Status.Succeeded).To(Equal(int32(1)))
	})

	It("fails as a Job that has used up its tries", func(ctx SpecContext) {
		once := job(namespace, 0, task("--exit=3"))
		spec := task("--exit=4")
		spec.RestartPolicy = corev1.RestartPolicyOnFailure
		thrice := job(namespace, 2, spec)
		thrice.Name = "thrice"
		for _, object := range []*batchv1.Job{once, thrice} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		for _, object := range []*batchv1.Job{once, thrice} {
			Eventually(func() []string { return outcomes(current(ctx, object)) }, timeout, interval).
				Should(ContainElement("Failed: BackoffLimitExceeded"))
		}
		pods := &corev1.PodList{}
		Expect(admin.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: once.Name})).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		Expect(pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode).To(Equal(int32(3)))
	})

	It("goes with its namespace", func(ctx SpecContext) {
		object := deployment(namespace, server())
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyRolledOut(ctx, object)
		pods := &corev1.PodList{}
		Expect(admin.List(ctx, pods, client.InNamespace(namespace))).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		own := &corev1.Namespace{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: namespace}, own)).To(Succeed())
		Expect(admin.Delete(ctx, own)).To(Succeed())
		eventuallyGone(ctx, own)
		Expect(running(ctx, string(pods.Items[0].UID))).To(BeEmpty())
	})
})

func eventuallyRolledOut(ctx context.Context, object *appsv1.Deployment) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		status := current(ctx, object).Status
		g.Expect(status.ObservedGeneration).To(Equal(object.Generation))
		g.Expect(status.UpdatedReplicas).To(Equal(int32(1)))
		g.Expect(status.Replicas).To(Equal(int32(1)))
		g.Expect(status.AvailableReplicas).To(Equal(int32(1)))
	}, timeout, interval).Should(Succeed())
}

func available(object *appsv1.Deployment) bool {
	for _, condition := range object.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// serving counts the Pods whose program says that it is ready, whatever their status says.
func serving(ctx context.Context, pods map[string]*corev1.Pod) int {
	count := 0
	for _, each := range pods {
		if _, err := try(ctx, each, http.MethodGet, "/readyz"); err == nil {
			count++
		}
	}
	return count
}

func outcomes(object *batchv1.Job) []string {
	var all []string
	for _, condition := range object.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobComplete {
			all = append(all, string(condition.Type))
		}
		if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobFailed {
			all = append(all, fmt.Sprintf("%s: %s", condition.Type, condition.Reason))
		}
	}
	return all
}
