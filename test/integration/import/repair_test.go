package import_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

const (
	// resync is short, so that an importer that insists on what it applied has every occasion to show it.
	resync = time.Second
	// quiet is how long nothing may happen: several resyncs.
	quiet = 4 * resync
)

// The agent is installed again, once, when Rancher says that it is disconnected and what is there cannot connect. In
// every other case the workload cluster is left alone: while the agent is connected, it is not even asked.
var _ = Describe("Repair", Ordered, ContinueOnFailure, func() {
	const workload = "repair-workload"
	var (
		f       *fixture
		cluster *clusterv1.Cluster
		id      string // of the v3 Cluster
	)
	BeforeAll(func(ctx context.Context) {
		f = newRepairFixture(ctx, workload)
		f.startManager(ctx, importing.Loud, "--feature-gates=managementv3-cluster=true", "--sync-period="+resync.String())
		cluster = f.Cluster(ctx, f.Namespace(ctx, nil), "prod", func(c *clusterv1.Cluster) { c.Labels = map[string]string{importing.ImportLabel: "true"} })
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		id = f.V3Records(ctx, cluster)[0].Name
		// From here on the agent is as Rancher applied it itself, with a token of Rancher's own.
		Eventually(func() int { return f.Rancher.Reapplies(id) }).Should(Equal(1))
		Expect(f.repairs()).To(Equal(1))
	})
	// cut ends the session of the agent and keeps it from getting another.
	cut := func(ctx context.Context) {
		GinkgoHelper()
		f.Rancher.HoldConnect(true)
		f.Rancher.RemoveWorkload(workload)
		Expect(f.Attach(workload, f.Lane.Plane)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).ShouldNot(Equal("True/Imported"))
	}
	connect := func(ctx context.Context) {
		GinkgoHelper()
		f.Rancher.HoldConnect(false)
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
	}
	deployment := func(ctx context.Context, change func(*appsv1.Deployment)) {
		GinkgoHelper()
		found := f.Agent(ctx)
		Expect(found).NotTo(BeNil())
		before := found.DeepCopy()
		change(found)
		Expect(f.Lane.Client.Patch(ctx, found, client.MergeFrom(before))).To(Succeed())
	}
	remove := func(ctx context.Context, object client.Object) {
		GinkgoHelper()
		Expect(f.Lane.Client.Delete(ctx, object)).To(Succeed())
	}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: importing.AgentNamespace, Name: name}
	}

	It("leaves a connected agent alone, whatever is done to it", func(ctx context.Context) {
		before := len(f.workloadRequests())
		deployment(ctx, func(d *appsv1.Deployment) {
			d.Spec.Replicas = new(int32(3))
			d.Spec.Template.Spec.Containers[0].Image = "example.invalid/another-agent"
			d.Labels = map[string]string{"edited": "by-hand"}
			setEnv(d, "CATTLE_CA_CHECKSUM", "none")
		})
		f.Patch(ctx, importing.Current(ctx, f.Client, cluster), func(o client.Object) { importing.SetAnnotation(o, "touched", "1") })
		Consistently(func() int { return len(f.workloadRequests()) }).WithTimeout(quiet).Should(Equal(before))
		Expect(f.Reason(ctx, cluster)()).To(Equal("True/Imported"))
		Expect(f.Agent(ctx).Spec.Replicas).To(HaveValue(BeEquivalentTo(3)))
	})
	It("installs it again once it is disconnected, and takes over what others changed", func(ctx context.Context) {
		before := f.repairs()
		cut(ctx)
		Eventually(f.repairs).Should(Equal(before + 1))
		connect(ctx)
		Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before + 1))
		Expect(f.Agent(ctx).Spec.Template.Spec.Containers[0].Image).NotTo(ContainSubstring("another-agent"))
	})
	It("leaves an agent alone that is able to connect and does not", func(ctx context.Context) {
		before, requests := len(f.workloadWrites()), len(f.workloadRequests())
		cut(ctx)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
		Eventually(f.workloadRequests).Should(HaveLen(requests+4), "one look at the Deployment, its Secret, its ReplicaSets and its Pods")
		Consistently(f.workloadRequests).WithTimeout(quiet).Should(HaveLen(requests + 4))
		connect(ctx)
		Expect(f.workloadWrites()).To(HaveLen(before))
	})
	It("leaves an agent alone that somebody has scaled to nothing", func(ctx context.Context) {
		before := len(f.workloadWrites())
		deployment(ctx, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
		Consistently(f.workloadWrites).WithTimeout(quiet).Should(HaveLen(before))
		deployment(ctx, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Expect(f.workloadWrites()).To(HaveLen(before))
	})

	// What breaks the agent without ending its session does not lead to a request before the session ends.
	DescribeTable("installs it again, once, when there is none", func(ctx context.Context, damage func(context.Context)) {
		before, deployments := f.repairs(), f.Rancher.Reapplies(id)
		damage(ctx)
		Eventually(f.repairs).WithTimeout(2 * patience).Should(Equal(before + 1))
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before + 1))
		// What was installed only registers. Rancher takes its own agent for deployed, and has to be asked for it.
		Expect(f.Rancher.Reapplies(id)).To(Equal(deployments + 1))
	},
		Entry("because its Deployment was deleted", func(ctx context.Context) {
			remove(ctx, &appsv1.Deployment{ObjectMeta: named(importing.AgentDeployment)})
		}),
		Entry("because its namespace was deleted", func(ctx context.Context) { remove(ctx, importing.NamespaceOf(importing.AgentNamespace)) }),
	)
	It("has Rancher deploy it again, once, when what is there only registers, as after a manager that died in mid-repair", func(ctx context.Context) {
		before, deployments := f.repairs(), f.Rancher.Reapplies(id)
		deployment(ctx, func(d *appsv1.Deployment) {
			container := &d.Spec.Template.Spec.Containers[0]
			container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "CATTLE_FEATURES" })
		})
		Eventually(func() int { return f.Rancher.Reapplies(id) }).Should(Equal(deployments + 1))
		Eventually(f.Reason(ctx, cluster)).Should(Equal("True/Imported"))
		Consistently(func() int { return f.Rancher.Reapplies(id) }).WithTimeout(quiet).Should(Equal(deployments + 1))
		Expect(f.repairs()).To(Equal(before))
	})
	DescribeTable("installs it again, once, when it cannot connect any more", func(ctx context.Context, damage func(context.Context)) {
		before, requests, deployments := f.repairs(), len(f.workloadRequests()), f.Rancher.Reapplies(id)
		damage(ctx)
		Consistently(func() int { return len(f.workloadRequests()) }).WithTimeout(2*resync).Should(Equal(requests), "while it is connected")
		cut(ctx)
		Eventually(f.repairs).Should(Equal(before + 1))
		connect(ctx)
		Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before + 1))
		Expect(f.Rancher.Reapplies(id)).To(Equal(deployments), "what Rancher deployed is still there")
	},
		Entry("because its credentials were deleted", func(ctx context.Context) {
			for _, env := range f.Agent(ctx).Spec.Template.Spec.Containers[0].Env {
				if env.Name == "CATTLE_CREDENTIAL_NAME" {
					remove(ctx, &corev1.Secret{ObjectMeta: named(env.Value)})
				}
			}
		}),
		Entry("because Rancher has another CA", func(ctx context.Context) { Expect(f.Rancher.RotateCA(ctx)).To(Succeed()) }),
		Entry("because Rancher has another address", func(ctx context.Context) {
			Expect(f.Rancher.SetServerURL(ctx, strings.Replace(f.Rancher.URL(), "127.0.0.1", "localhost", 1))).To(Succeed())
		}),
	)
	It("installs it again, once, when Rancher's address changes after it was lost and the old one is dead", func(ctx context.Context) {
		before, url := f.repairs(), f.Rancher.URL()
		Expect(f.Rancher.SetServerURL(ctx, deadServer)).To(Succeed())
		Consistently(f.Reason(ctx, cluster)).WithTimeout(quiet).Should(Equal("True/Imported"), "while it is connected")
		remove(ctx, &appsv1.Deployment{ObjectMeta: named(importing.AgentDeployment)})
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("False/RancherUnreachable"))
		Expect(f.repairs()).To(Equal(before))
		Expect(f.Rancher.SetServerURL(ctx, url)).To(Succeed())
		Eventually(f.Reason(ctx, cluster)).WithTimeout(2 * patience).Should(Equal("True/Imported"))
		Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before + 1))
	})
	It("installs it again, once, when its token was rotated while it was away", func(ctx context.Context) {
		before := f.repairs()
		cut(ctx)
		Eventually(f.Reason(ctx, cluster)).Should(Equal("False/AgentDisconnected"))
		Expect(f.repairs()).To(Equal(before))
		Expect(f.Rancher.RotateToken(ctx, id)).To(Succeed())
		Eventually(f.repairs).WithTimeout(importing.Reaction).Should(Equal(before+1), "before the agent is looked at again anyway, which is after 30 seconds")
		connect(ctx)
		Consistently(f.repairs).WithTimeout(quiet).Should(Equal(before + 1))
	})
	AfterAll(func() {
		Expect(f.Manager.Done()).NotTo(BeClosed())
		f.ExpectNoSecrets()
	})
})

// newRepairFixture returns a fixture whose workload cluster has what ends a namespace, and whose Rancher
// gives rotated tokens no grace.
func newRepairFixture(ctx context.Context, name string) *fixture {
	GinkgoHelper()
	s := startStage(ctx, stage.Options{Name: "repair", Audit: true, Rancher: func(o *rancher.Options) {
		o.Logger = GinkgoLogr
		o.Timings.TokenGrace = 0
	}})
	return fixtureOn(ctx, s, env.Options{Name: name, Audit: true, ControllerManager: true})
}

// repairs returns how often the manager has applied the agent's Deployment, with which an installation ends.
func (f *fixture) repairs() int {
	GinkgoHelper()
	count := 0
	for _, e := range f.workloadWrites() {
		if e.ObjectRef != nil && e.ObjectRef.Resource == "deployments" && e.ObjectRef.Name == importing.AgentDeployment && e.ResponseStatus.Code < 300 {
			count++
		}
	}
	return count
}

func setEnv(deployment *appsv1.Deployment, name, value string) {
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers[0].Env {
		if containers[0].Env[i].Name == name {
			containers[0].Env[i].Value = value
		}
	}
}
