package import_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
)

// canary is a text of a workload cluster that users must not read.
const canary = "s3cret-canary\n\x1b[31m"

// The API server, and the controllers of Deployments and ReplicaSets, are real. The test plays scheduler and kubelet.
var _ = Describe("An agent that does not connect", Ordered, func() {
	const workload = "agentcause-workload"
	var (
		f       *fixture
		cluster *clusterv1.Cluster
	)
	BeforeAll(func(ctx context.Context) {
		f = fixtureOn(ctx, startStage(ctx, stage.Options{Name: "agentcause"}), env.Options{Name: workload, Audit: true, Workloads: true})
		f.startManager(ctx, importing.Loud, importing.Gate("v3"), "--sync-period=1h", "--agent-pod-security=privileged")
		f.Rancher.HoldConnect(true)
		cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", importing.Selected)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/WaitingForAgent"))
	})
	// touch has the workload cluster looked at now, instead of after minutes.
	touch := func(ctx context.Context) {
		GinkgoHelper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}}
		f.Patch(ctx, importing.Current(ctx, f.Client, secret), func(o client.Object) {
			importing.SetAnnotation(o, "touched", fmt.Sprint(time.Now().UnixNano()))
		})
	}
	// told is what the condition says, once the workload cluster was looked at since the last time.
	told := func(ctx context.Context) func() string {
		return func() string {
			defer touch(ctx)
			for _, c := range importing.Current(ctx, f.Client, cluster).Status.Conditions {
				if c.Type == "RancherImported" {
					return c.Reason + ": " + c.Message
				}
			}
			return ""
		}
	}
	expect := func(ctx context.Context, reason, says string) {
		GinkgoHelper()
		Eventually(told(ctx)).WithPolling(3 * time.Second).Should(And(HavePrefix(reason+": "), ContainSubstring(says)))
	}
	// pods are those of the agent.
	pods := func(ctx context.Context) []corev1.Pod {
		GinkgoHelper()
		list := &corev1.PodList{}
		Expect(f.Lane.Client.List(ctx, list, client.InNamespace(importing.AgentNamespace), client.MatchingLabels{"app": importing.AgentDeployment})).To(Succeed())
		return list.Items
	}
	// say has the Pod of the agent in a state.
	say := func(ctx context.Context, change func(*corev1.PodStatus)) {
		GinkgoHelper()
		found := pods(ctx)
		Expect(found).To(HaveLen(1))
		found[0].Status = corev1.PodStatus{Phase: corev1.PodPending}
		change(&found[0].Status)
		Expect(f.Lane.Client.Status().Update(ctx, &found[0])).To(Succeed())
	}
	unscheduled := func(message string) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message + canary,
			}}
		}
	}
	container := func(state corev1.ContainerStatus) func(*corev1.PodStatus) {
		state.Name = "cluster-register"
		return func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{state} }
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: canary}}
	}
	ended := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 1, Message: canary}}
	}
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: canary}}},
		}
	}
	// failures are those of the agent's ReplicaSet, whose controller tries again now, instead of after minutes.
	failures := func(ctx context.Context) []appsv1.ReplicaSetCondition {
		GinkgoHelper()
		sets := &appsv1.ReplicaSetList{}
		Expect(f.Lane.Client.List(ctx, sets, client.InNamespace(importing.AgentNamespace))).To(Succeed())
		Expect(sets.Items).To(HaveLen(1))
		touched := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano()))
		Expect(f.Lane.Client.Patch(ctx, &sets.Items[0], touched)).To(Succeed())
		return sets.Items[0].Status.Conditions
	}
	// refused has the Pods of the agent created anew until the API server refuses them, with this text.
	refused := func(ctx context.Context, text string) {
		GinkgoHelper()
		Eventually(func() []appsv1.ReplicaSetCondition {
			for _, pod := range pods(ctx) {
				Expect(client.IgnoreNotFound(f.Lane.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))).To(Succeed())
			}
			return failures(ctx)
		}).Should(ContainElement(And(HaveField("Type", appsv1.ReplicaSetReplicaFailure), HaveField("Message", ContainSubstring(text)))))
	}
	// level is that of Pod Security in the agent's namespace.
	level := func(ctx context.Context) string {
		GinkgoHelper()
		namespace := importing.NamespaceOf(importing.AgentNamespace)
		Expect(f.Lane.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
		return namespace.Labels["pod-security.kubernetes.io/enforce"]
	}

	It("has a namespace with the administrator's level of Pod Security", func(ctx context.Context) {
		Expect(level(ctx)).To(Equal("privileged"))
	})
	It("is not looked into within a minute", func(ctx context.Context) {
		Consistently(f.Reason(ctx, cluster)).WithTimeout(quiet).Should(Equal("False/WaitingForAgent"))
		for _, request := range f.workloadRequests() {
			Expect(request.RequestURI).NotTo(Or(ContainSubstring("/pods"), ContainSubstring("/replicasets")))
		}
	})
	It("has no Node", func(ctx context.Context) {
		Eventually(pods).WithArguments(ctx).Should(HaveLen(1))
		expect(ctx, "AgentUnschedulable", "has no Node")
	})
	It("has no Node that is ready", func(ctx context.Context) {
		created := node("node-1", corev1.ConditionFalse)
		Expect(f.Lane.Client.Create(ctx, created)).To(Succeed())
		say(ctx, unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."))
		expect(ctx, "AgentUnschedulable", "no Node of the workload cluster is ready")
	})
	It("has no Node without a taint", func(ctx context.Context) {
		ready := node("node-1", corev1.ConditionTrue)
		Expect(f.Lane.Client.Get(ctx, client.ObjectKeyFromObject(ready), ready)).To(Succeed())
		ready.Spec.Taints = nil // The admission plugin for taints has added one.
		Expect(f.Lane.Client.Update(ctx, ready)).To(Succeed())
		ready.Status = node("", corev1.ConditionTrue).Status
		Expect(f.Lane.Client.Status().Update(ctx, ready)).To(Succeed())
		say(ctx, unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}."))
		expect(ctx, "AgentUnschedulable", "taints")
	})
	It("has an image that cannot be pulled", func(ctx context.Context) {
		for _, pod := range pods(ctx) {
			Expect(f.Lane.Client.SubResource("binding").Create(ctx, &pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}})).To(Succeed())
		}
		say(ctx, container(corev1.ContainerStatus{State: waiting("ImagePullBackOff")}))
		expect(ctx, "AgentImageUnavailable", "registry")
	})
	It("ends again and again", func(ctx context.Context) {
		say(ctx, container(corev1.ContainerStatus{RestartCount: 4, State: waiting("CrashLoopBackOff"), LastTerminationState: ended("Error")}))
		expect(ctx, "AgentCrashing", "log")
		say(ctx, container(corev1.ContainerStatus{RestartCount: 5, State: waiting("CrashLoopBackOff"), LastTerminationState: ended("OOMKilled")}))
		expect(ctx, "AgentCrashing", "memory")
	})
	It("has Pods that a quota refuses", func(ctx context.Context) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: "s3cret-canary"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		Expect(f.Lane.Client.Create(ctx, quota)).To(Succeed())
		quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard} // Its controller does not run here.
		Expect(f.Lane.Client.Status().Update(ctx, quota)).To(Succeed())
		refused(ctx, "exceeded quota")
		expect(ctx, "AgentPodsRefused", "ResourceQuota")
		Expect(f.Lane.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(failures).WithArguments(ctx).Should(BeEmpty())
	})
	It("has Pods that Pod Security refuses", func(ctx context.Context) {
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
		Expect(f.Lane.Client.Patch(ctx, importing.NamespaceOf(importing.AgentNamespace), label)).To(Succeed())
		refused(ctx, "violates PodSecurity")
		expect(ctx, "AgentPodsRefused", "Pod Security")
	})
	It("has Pods that nothing creates", func(ctx context.Context) {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment}}
		Expect(f.Lane.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		before := deployment.DeepCopy()
		deployment.Spec.Replicas = new(int32(0))
		Expect(f.Lane.Client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
		expect(ctx, "AgentUnschedulable", "0 replicas")
	})
	It("is installed again without a change of its namespace", func(ctx context.Context) {
		Expect(f.Lane.Client.Delete(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: importing.AgentDeployment},
		})).To(Succeed())
		touch(ctx)
		Eventually(func() *appsv1.Deployment { return f.Agent(ctx) }).ShouldNot(BeNil())
		Expect(level(ctx)).To(Equal("restricted"))
	})
	It("is imported when it connects, and lost with its cause", func(ctx context.Context) {
		f.Rancher.HoldConnect(false)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		f.Rancher.HoldConnect(true)
		f.Rancher.RemoveWorkload(workload)
		Expect(f.Attach(workload, f.Lane.Plane)).To(Succeed())
		expect(ctx, "AgentDisconnected", "Pod Security")
		f.Rancher.HoldConnect(false)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
	})
	AfterAll(func(ctx context.Context) {
		if cluster == nil {
			return // It has failed before.
		}
		events := &eventsv1.EventList{}
		Expect(f.Client.List(ctx, events, client.InNamespace(cluster.Namespace))).To(Succeed())
		Expect(events.Items).To(ContainElement(HaveField("Reason", "AgentUnschedulable")))
		for _, event := range events.Items {
			Expect(event.Note).NotTo(ContainSubstring("canary"))
		}
		Expect(fmt.Sprint(importing.Current(ctx, f.Client, cluster).Status.Conditions)).NotTo(ContainSubstring("canary"))
		Expect(f.Manager.Logs()).NotTo(ContainSubstring("s3cret-canary"))
		for _, request := range f.workloadRequests() {
			Expect(request.ResponseStatus.Code).NotTo(BeEquivalentTo(http.StatusForbidden), request.RequestURI)
			if strings.Contains(request.RequestURI, "/pods?") || strings.Contains(request.RequestURI, "/nodes") {
				Expect(request.RequestURI).To(ContainSubstring("limit="))
			}
		}
	})
})
