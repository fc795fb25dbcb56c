package workload_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/test/env"
)

const userAgent = "archelon-under-test"

var remoteKubeconfig = kubeconfig.Source{Secret: types.NamespacedName{Namespace: "tenant", Name: "remote"}, Key: "config"}

var _ = Describe("Rancher's agent in a workload cluster", Ordered, func() {
	var plane *env.ControlPlane
	var admin client.Client
	var connected *workload.Client
	var objects []*unstructured.Unstructured

	BeforeAll(func(ctx SpecContext) {
		var err error
		plane, err = env.Start(ctx, env.Options{Name: "workload", Audit: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(plane.Stop()).To(Succeed()) })
		admin, err = client.New(plane.Config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		connected = connect(ctx, plane, plane.Config)

		manifest, err := rancher.ParseManifest(agentManifest())
		Expect(err).NotTo(HaveOccurred())
		objects = manifest.Objects()
	})

	It("finds nothing before", func(ctx SpecContext) {
		state, err := agent.Inspect(ctx, connected)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Exists).To(BeFalse())
		Expect(agent.NoCleanup(ctx, connected)).To(Succeed())
	})

	It("refuses what the user of the kubeconfig may not do", func(ctx SpecContext) {
		stranger, err := plane.User("stranger")
		Expect(err).NotTo(HaveOccurred())
		expectProblem(agent.Install(ctx, connect(ctx, plane, stranger), objects, false), outcome.KindFail, "WorkloadForbidden")

		unknown := rest.AnonymousClientConfig(plane.Config)
		unknown.BearerToken = "s3cret"
		expectProblem(agent.Install(ctx, connect(ctx, plane, unknown), objects, false), outcome.KindFail, "WorkloadUnauthorized")
	})

	It("applies the manifest with one request per object, in order, and none for discovery", func(ctx SpecContext) {
		before := len(requests(plane))
		Expect(agent.Install(ctx, connected, objects, false)).To(Succeed())

		var kinds []string
		for _, event := range requests(plane)[before:] {
			Expect(event.Verb).To(Equal("patch"), event.RequestURI)
			Expect(event.ResponseStatus.Code).To(BeEquivalentTo(http.StatusCreated), event.RequestURI)
			kinds = append(kinds, event.ObjectRef.Resource)
		}
		Expect(kinds).To(Equal([]string{
			"namespaces", "clusterroles", "serviceaccounts", "clusterroles", "clusterrolebindings", "clusterrolebindings",
			"secrets", "secrets", "poddisruptionbudgets", "services", "deployments", "daemonsets",
		}))
		deployment := &appsv1.Deployment{}
		Expect(admin.Get(ctx, agentKey(), deployment)).To(Succeed())
		Expect(deployment.ManagedFields).To(ContainElement(And(
			HaveField("Manager", "archelon"), HaveField("Operation", metav1.ManagedFieldsOperationApply))))
	})

	It("changes nothing when it applies the same again", func(ctx SpecContext) {
		before := versions(ctx, admin)
		Expect(agent.Install(ctx, connected, objects, false)).To(Succeed())
		Expect(versions(ctx, admin)).To(Equal(before))
	})

	It("applies kinds that a newer Rancher adds, with one request more for each group version", func(ctx SpecContext) {
		before := len(requests(plane))
		raw := []byte(`
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: cattle-cluster-agent-priority-class}
value: 1000
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cattle-agent, namespace: cattle-system}
`)
		manifest, err := rancher.ParseManifest(append(agentManifest(), raw...))
		Expect(err).NotTo(HaveOccurred())
		Expect(agent.Install(ctx, connected, manifest.Objects(), false)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKey{Name: "cattle-cluster-agent-priority-class"}, &schedulingv1.PriorityClass{})).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: "cattle-system", Name: "cattle-agent"}, &corev1.ConfigMap{})).To(Succeed())
		Expect(requests(plane)[before:]).To(HaveLen(2 + len(manifest.Objects())))
	})

	It("reads the state of the agent with two requests", func(ctx SpecContext) {
		before := len(requests(plane))
		state, err := agent.Inspect(ctx, connected)
		Expect(err).NotTo(HaveOccurred())
		Expect(requests(plane)[before:]).To(HaveLen(2))
		Expect(state.CredentialsSecret).To(Equal("cattle-credentials-5ec1f7e700"))

		ok, why := state.CanConnect("https://rancher.example.com", []string{"other", "token"}, "cafe")
		Expect(ok).To(BeTrue(), why)
		ok, why = state.CanConnect("https://rancher.example.com", []string{"other"}, "cafe")
		Expect(ok).To(BeFalse())
		Expect(why).To(ContainSubstring("token"))
	})

	It("names the manager that holds other values, and takes over when told to", func(ctx SpecContext) {
		deployment := deploymentWithImage("rancher/rancher-agent:v2.99.0")
		Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(deployment),
			client.FieldOwner("rancher-server"), client.ForceOwnership)).To(Succeed())

		err := agent.Install(ctx, connected, objects, false)
		expectProblem(err, outcome.KindFail, "AgentConflict")
		Expect(err).To(MatchError(And(ContainSubstring("rancher-server"), ContainSubstring(".image"))))
		Expect(err).NotTo(MatchError(ContainSubstring("v2.99.0")))

		Expect(agent.Install(ctx, connected, objects, true)).To(Succeed())
		live := &appsv1.Deployment{}
		Expect(admin.Get(ctx, agentKey(), live)).To(Succeed())
		Expect(live.Spec.Template.Spec.Containers[0].Image).To(Equal("rancher/rancher-agent:v2.15.0"))
	})

	It("says which field the API server does not accept", func(ctx SpecContext) {
		invalid := deploymentWithImage("x")
		Expect(unstructured.SetNestedField(invalid.Object, int64(-1), "spec", "replicas")).To(Succeed())
		err := agent.Install(ctx, connected, []*unstructured.Unstructured{invalid}, true)
		expectProblem(err, outcome.KindFail, "AgentRejected")
		Expect(err).To(MatchError(ContainSubstring("spec.replicas")))

		unknown := deploymentWithImage("x")
		Expect(unstructured.SetNestedField(unknown.Object, "s3cret", "spec", "fromTheFuture")).To(Succeed())
		expectProblem(agent.Install(ctx, connected, []*unstructured.Unstructured{unknown}, true), outcome.KindFail, "AgentRejected")
	})

	It("sees Rancher's clean-up Job in any namespace with one request", func(ctx SpecContext) {
		Expect(admin.Create(ctx, cleanupJob())).To(Succeed())
		before := len(requests(plane))
		err := agent.NoCleanup(ctx, connected)
		expectProblem(err, outcome.KindPoll, "WaitingForCleanup")
		Expect(err).To(MatchError(ContainSubstring("Job default/cattle-cleanup-")))
		Expect(requests(plane)[before:]).To(HaveLen(1))
	})

	It("waits for objects that are being deleted", func(ctx SpecContext) {
		Expect(admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "cattle-system", Name: "cattle-credentials-5ec1f7e700"}})).To(Succeed())
		state, err := agent.Inspect(ctx, connected)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.CredentialsFound).To(BeFalse())

		// Nothing deletes namespaces here, so it stays in this state.
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-system"}})).To(Succeed())
		expectProblem(agent.Install(ctx, connected, objects, true), outcome.KindPoll, "WaitingForCleanup")

		secrets := objects[5:6]
		Expect(secrets[0].GetKind()).To(Equal("Secret"))
		expectProblem(agent.Install(ctx, connected, secrets, true), outcome.KindPoll, "WaitingForCleanup")
	})

	It("gives up on an API server that has stopped answering", func(ctx SpecContext) {
		impatient := connectWith(ctx, plane, plane.Config, workload.Options{Timeout: 500 * time.Millisecond, UserAgent: userAgent})
		Expect(plane.Suspend()).To(Succeed())
		DeferCleanup(func() { Expect(plane.Resume()).To(Succeed()) })
		started := time.Now()
		_, err := agent.Inspect(ctx, impatient)
		expectProblem(err, outcome.KindFail, "WorkloadTimeout")
		Expect(time.Since(started)).To(BeNumerically("<", time.Minute))
	})
})

// agentManifest returns a manifest as Rancher renders it.
func agentManifest() []byte {
	GinkgoHelper()
	raw, err := os.ReadFile("../../../internal/rancher/testdata/manifest.yaml")
	Expect(err).NotTo(HaveOccurred())
	return raw
}

func agentKey() client.ObjectKey {
	return client.ObjectKey{Namespace: "cattle-system", Name: "cattle-cluster-agent"}
}

func connect(ctx context.Context, plane *env.ControlPlane, config *rest.Config) *workload.Client {
	GinkgoHelper()
	return connectWith(ctx, plane, config, workload.Options{Timeout: time.Minute, DialTimeout: time.Minute, UserAgent: userAgent})
}

// connectWith goes the whole way from a kubeconfig Secret to a client.
func connectWith(ctx context.Context, plane *env.ControlPlane, config *rest.Config, o workload.Options) *workload.Client {
	GinkgoHelper()
	raw, err := plane.KubeconfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "remote"},
		Data:       map[string][]byte{"config": raw},
	}
	clients, err := workload.NewClients(fake.NewClientBuilder().WithObjects(secret).Build(), o)
	Expect(err).NotTo(HaveOccurred())
	connected, err := clients.Get(ctx, remoteKubeconfig)
	Expect(err).NotTo(HaveOccurred())
	return connected
}

// requests returns what the clients under test have asked the API server.
func requests(plane *env.ControlPlane) []auditv1.Event {
	GinkgoHelper()
	events, err := plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	var mine []auditv1.Event
	for _, event := range events {
		if event.UserAgent == userAgent {
			mine = append(mine, event)
		}
	}
	return mine
}

// versions leaves out the Namespace: of an object without fields the API server notes the first manager
// at the second apply only.
func versions(ctx context.Context, admin client.Client) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{}, &appsv1.DaemonSetList{},
	} {
		Expect(admin.List(ctx, list)).To(Succeed())
		Expect(meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				found[string(object.GetUID())] = object.GetResourceVersion()
			}
			return err
		})).To(Succeed())
	}
	return found
}

func expectProblem(err error, kind outcome.Kind, reason string) {
	GinkgoHelper()
	var problem *outcome.Problem
	Expect(errors.As(err, &problem)).To(BeTrue(), "got: %v", err)
	Expect(problem.Kind).To(Equal(kind), "got: %v", err)
	Expect(problem.Reason).To(Equal(reason), "got: %v", err)
	Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
}

func deploymentWithImage(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "cattle-cluster-agent", "namespace": "cattle-system"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "cattle-cluster-agent"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "cattle-cluster-agent"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "cluster-register", "image": image}}},
			},
		},
	}}
}

func cleanupJob() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", GenerateName: "cattle-cleanup-", Labels: map[string]string{"cattle.io/creator": "norman"},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "clean", Image: "clean"}},
		}}},
	}
}
