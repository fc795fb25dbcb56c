package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/node"
)

// self is what the program in a Pod says of itself.
type self struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	PID  int      `json:"pid"`
}

var _ = Describe("a Pod", func() {
	var namespace string

	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("gets arguments, variables and files as in a cluster, moved to this machine", func(ctx SpecContext) {
		Expect(admin.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"color": "green"},
		})).To(Succeed())
		spec := server("--read=/etc/settings/color", "--stubborn=$(STUBBORN)")
		c := &spec.Containers[0]
		c.Args[0] = "--listen=$(IP):8080"
		field := func(path string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
		}
		c.Env = []corev1.EnvVar{
			{Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "WHO", ValueFrom: field("metadata.name")},
			{Name: "FULL", Value: "$(WHERE)/$(WHO)"}, // WHERE comes too late
			{Name: "WHERE", ValueFrom: field("metadata.namespace")},
			{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "STUBBORN", Value: "false"},
			{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "color",
			}}},
			{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "none", Optional: new(true),
			}}},
		}
		spec.Volumes = []corev1.Volume{
			{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/settings"}, {Name: "scratch", MountPath: "/tmp"}}
		object := pod(namespace, spec)
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyReady(ctx, object)

		var got self
		Expect(json.Unmarshal([]byte(call(ctx, object, http.MethodGet, "/self")), &got)).To(Succeed())
		Expect(got.Env).To(ContainElements(
			"WHO=pod", "WHERE="+namespace, "FULL=$(WHERE)/pod", "ACCOUNT=default", "NODE=test-node", "COLOR=green", "IP=127.0.0.1"))
		Expect(got.Env).NotTo(ContainElement(HavePrefix("ABSENT=")))
		address, err := machine.Address(client.ObjectKeyFromObject(object), "8080")
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Args).To(ContainElements("--listen="+address, "--stubborn=false"))
		Expect(call(ctx, object, http.MethodGet, "/file")).To(Equal("green"))
		index := slices.IndexFunc(got.Env, func(each string) bool { return strings.HasPrefix(each, "TMPDIR=") })
		Expect(index).To(BeNumerically(">=", 0))
		Expect(strings.TrimPrefix(got.Env[index], "TMPDIR=")).To(BeADirectory())
		Expect(machine.Logs(client.ObjectKeyFromObject(object))).To(ContainSubstring("started with"))
	})

	It("waits for its Secret and sees it change", func(ctx SpecContext) {
		spec := server("--read=/secret/word")
		spec.Volumes = []corev1.Volume{{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "word"}}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/secret", ReadOnly: true}}
		object := pod(namespace, spec)
		Expect(admin.Create(ctx, object)).To(Succeed())
		Eventually(func() []corev1.ContainerStatus { return current(ctx, object).Status.ContainerStatuses }, timeout, interval).
			Should(ConsistOf(HaveField("State.Waiting.Reason", "ContainerCreating")))

		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "word"}, Data: map[string][]byte{"word": []byte("one"), "other": nil},
		}
		Expect(admin.Create(ctx, secret)).To(Succeed())
		eventuallyReady(ctx, object)
		Expect(call(ctx, object, http.MethodGet, "/file")).To(Equal("one"))

		secret.Data = map[string][]byte{"word": []byte("two")}
		Expect(admin.Update(ctx, secret)).To(Succeed())
		Eventually(func() string { return call(ctx, object, http.MethodGet, "/file") }, timeout, interval).Should(Equal("two"))
		Expect(current(ctx, object).Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	It("acts as its ServiceAccount, by a token that is its own, or as nobody", func(ctx SpecContext) {
		spec := task("get", "configmaps", "--namespace="+namespace)
		spec.Containers[0].Image = kubectlImage
		spec.ServiceAccountName = "reader"
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}})).To(Succeed())
		object := pod(namespace, spec)
		Expect(admin.Create(ctx, object)).To(Succeed())
		Eventually(func() corev1.PodPhase { return current(ctx, object).Status.Phase }, timeout, interval).Should(Equal(corev1.PodFailed))
		Expect(machine.Logs(client.ObjectKeyFromObject(object))).To(ContainSubstring("Forbidden"))

		events, err := cluster.AuditEvents()
		Expect(err).NotTo(HaveOccurred())
		refused := 0
		for _, event := range events {
			if event.User.Username == "system:serviceaccount:"+namespace+":reader" && event.Verb == "list" &&
				event.ObjectRef.Resource == "configmaps" && event.ResponseStatus.Code == http.StatusForbidden {
				Expect(event.User.Extra).To(HaveKeyWithValue("authentication.kubernetes.io/pod-name", ConsistOf("pod")))
				refused++
			}
		}
		Expect(refused).To(Equal(1))

		spec = server()
		spec.AutomountServiceAccountToken = new(false)
		nobody := pod(namespace, spec)
		nobody.Name = "nobody"
		Expect(admin.Create(ctx, nobody)).To(Succeed())
		eventuallyReady(ctx, nobody)
		Expect(call(ctx, nobody, http.MethodGet, "/self")).NotTo(ContainSubstring("KUBECONFIG"))
	})

	It("is restarted when it crashes and when its liveness probe fails", func(ctx SpecContext) {
		object := pod(namespace, server())
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyReady(ctx, object)
		status := func() corev1.ContainerStatus { return current(ctx, object).Status.ContainerStatuses[0] }

		Expect(machine.Kill(client.ObjectKeyFromObject(object))).To(Succeed())
		Eventually(status, timeout, interval).Should(And(HaveField("RestartCount", int32(1)), HaveField("Ready", true)))
		Expect(status().LastTerminationState.Terminated.ExitCode).To(Equal(int32(137)))

		call(ctx, object, http.MethodPost, "/unhealthy")
		Eventually(status, timeout, interval).Should(And(HaveField("RestartCount", int32(2)), HaveField("Ready", true)))
		Expect(status().LastTerminationState.Terminated.ExitCode).To(BeZero(), "it was asked to end")
	})

	It("is not ready while its readiness probe fails or it stands still, and is not restarted for the former", func(ctx SpecContext) {
		spec := server()
		spec.Containers[0].LivenessProbe = nil
		spec.Containers[0].ReadinessProbe.TimeoutSeconds = 1
		object := pod(namespace, spec)
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyReady(ctx, object)
		ready := func() bool { return isReady(current(ctx, object)) }

		call(ctx, object, http.MethodPost, "/unready")
		Eventually(ready, timeout, interval).Should(BeFalse())
		call(ctx, object, http.MethodPost, "/ready")
		Eventually(ready, timeout, interval).Should(BeTrue())
		Expect(machine.Freeze(client.ObjectKeyFromObject(object))).To(Succeed())
		Eventually(ready, timeout, interval).Should(BeFalse())
		Expect(machine.Resume(client.ObjectKeyFromObject(object))).To(Succeed())
		Eventually(ready, timeout, interval).Should(BeTrue())
		Expect(object.Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	It("ends gracefully, and is killed when it does not", func(ctx SpecContext) {
		polite := pod(namespace, server("--linger=10s"))
		polite.Name = "polite"
		spec := server("--stubborn")
		spec.TerminationGracePeriodSeconds = new(int64(1))
		stubborn := pod(namespace, spec)
		stubborn.Name = "stubborn"
		for _, object := range []*corev1.Pod{polite, stubborn} {
			Expect(admin.Create(ctx, object)).To(Succeed())
		}
		for _, object := range []*corev1.Pod{polite, stubborn} {
			eventuallyReady(ctx, object)
			Expect(admin.Delete(ctx, object)).To(Succeed())
		}
		Eventually(func() string { return machine.Logs(client.ObjectKeyFromObject(polite)) }, timeout, interval).Should(ContainSubstring("asked to end"))
		Expect(current(ctx, polite).DeletionTimestamp).NotTo(BeNil(), "the Pod stays until its program has ended")
		for _, object := range []*corev1.Pod{polite, stubborn} {
			eventuallyGone(ctx, object)
		}
		Expect(machine.Logs(client.ObjectKeyFromObject(polite))).To(ContainSubstring("ends"))
		Expect(running(ctx, string(stubborn.UID))).To(BeEmpty())
	})

	It("says why it does not start, and starts once it can", func(ctx SpecContext) {
		const later = "registry.test/later:v1"
		reason := func(object *corev1.Pod) func() string {
			return func() string {
				statuses := current(ctx, object).Status.ContainerStatuses
				if len(statuses) == 0 || statuses[0].State.Waiting == nil {
					return ""
				}
				return statuses[0].State.Waiting.Reason + ": " + statuses[0].State.Waiting.Message
			}
		}
		create := func(name string, change func(*corev1.PodSpec)) *corev1.Pod {
			spec := server()
			change(&spec)
			object := pod(namespace, spec)
			object.Name = name
			Expect(admin.Create(ctx, object)).To(Succeed())
			return object
		}
		unpulled := create("unpulled", func(spec *corev1.PodSpec) { spec.Containers[0].Image = later })
		userless := create("userless", func(spec *corev1.PodSpec) { spec.SecurityContext.RunAsUser = nil })
		unmoved := create("unmoved", func(spec *corev1.PodSpec) { spec.Containers[0].Args = []string{"--listen=:9090"} })
		initial := create("initial", func(spec *corev1.PodSpec) {
			spec.InitContainers = []corev1.Container{{Name: "first", Image: image, SecurityContext: spec.Containers[0].SecurityContext}}
		})
		Eventually(reason(unpulled), timeout, interval).Should(HavePrefix("ImagePullBackOff"))
		Eventually(reason(userless), timeout, interval).Should(ContainSubstring("runAsNonRoot and image will run as root"))
		Eventually(reason(unmoved), timeout, interval).Should(ContainSubstring("cannot move containerPort 8080"))
		Eventually(reason(initial), timeout, interval).Should(ContainSubstring("does not know init containers"))

		machine.Push(later, program)
		eventuallyReady(ctx, unpulled)
	})

	It("may not be root where the namespace forbids it", func(ctx SpecContext) {
		spec := server()
		spec.SecurityContext.RunAsNonRoot, spec.SecurityContext.RunAsUser = nil, new(int64(0))
		err := admin.Create(ctx, pod(namespace, spec))
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "got: %v", err)
		Expect(err).To(MatchError(ContainSubstring("restricted")))
	})
})

var _ = Describe("the end of a node", func() {
	It("leaves neither programs nor files", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		own, err := node.Start(ctx, node.Options{
			Name: "second", Cluster: cluster, Out: GinkgoWriter,
			Images: map[string]string{image: program}, Namespaces: []string{namespace},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(own.Stop)
		spec := server("--stubborn")
		spec.NodeName = "second"
		object := pod(namespace, spec)
		Expect(admin.Create(ctx, object)).To(Succeed())
		eventuallyReady(ctx, object)
		Expect(running(ctx, string(object.UID))).To(HaveLen(1))
		files := filepath.Join(os.TempDir(), "archelon-node-*", string(object.UID)+"*")
		Expect(filepath.Glob(files)).NotTo(BeEmpty())

		Expect(own.Stop()).To(Succeed())
		Expect(own.Stop()).To(Succeed(), "a second time")
		Expect(running(ctx, string(object.UID))).To(BeEmpty())
		Expect(filepath.Glob(files)).To(BeEmpty())
		_, err = own.Address(client.ObjectKeyFromObject(object), "http")
		Expect(err).NotTo(HaveOccurred(), "tests may still ask where it was")
		Expect(own.Kill(client.ObjectKeyFromObject(object))).NotTo(Succeed(), "nothing runs")
	})
})
