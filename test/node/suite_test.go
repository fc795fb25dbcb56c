package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/node"
	_ "github.com/archelon-io/archelon/test/report"
)

const (
	timeout  = 2 * time.Minute
	interval = 50 * time.Millisecond

	image        = "registry.test/testpod:v1"
	newerImage   = "registry.test/testpod:v2"
	kubectlImage = "registry.test/kubectl:v1"
)

var (
	cluster  *env.ControlPlane
	machine  *node.Node
	admin    client.WithWatch
	program  string
	programs string
)

func TestNode(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Node for tests")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	program = filepath.Join(GinkgoT().TempDir(), "testpod")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/testpod").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	programs, err = env.Assets()
	Expect(err).NotTo(HaveOccurred())

	cluster, err = env.Start(ctx, env.Options{Name: "node", Workloads: true, Audit: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Stop)
	admin, err = client.NewWithWatch(cluster.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	machine, err = node.Start(ctx, node.Options{
		Cluster: cluster, Out: GinkgoWriter,
		Images: map[string]string{image: program, newerImage: program, kubectlImage: filepath.Join(programs, "kubectl")},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return machine.Stop() })
})

// newNamespace creates a namespace in which Pods have to be as harmless as ours are.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "node-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	Expect(admin.Create(ctx, namespace)).To(Succeed())
	// Its controller creates it for Pods that name no other one.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "default"}}
	Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(account), account) }, timeout, interval).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			explain(ctx, namespace.Name)
		}
		Expect(client.IgnoreNotFound(admin.Delete(ctx, namespace))).To(Succeed())
	})
	return namespace.Name
}

// explain prints what the controllers have to say about a failure.
func explain(ctx context.Context, namespace string) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{&corev1.EventList{}, &corev1.PodList{}, &appsv1.ReplicaSetList{}} {
		Expect(admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		raw, err := yaml.Marshal(list)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%s\n", raw)
	}
}

// server returns a Pod that serves; it is allowed in a restricted namespace. A probe that fails counts at once, and one
// that is slow does not.
func server(args ...string) corev1.PodSpec {
	get := func(path string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}
	}
	return corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TerminationGracePeriodSeconds: new(int64(60)),
		Containers: []corev1.Container{{
			Name: "testpod", Image: image, Args: append([]string{"--listen=:8080"}, args...),
			Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			StartupProbe:   &corev1.Probe{ProbeHandler: get("/livez"), PeriodSeconds: 1, FailureThreshold: 60, TimeoutSeconds: 60},
			ReadinessProbe: &corev1.Probe{ProbeHandler: get("/readyz"), PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 60},
			LivenessProbe:  &corev1.Probe{ProbeHandler: get("/livez"), PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 60},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}
}

// task returns a Pod that ends by itself.
func task(args ...string) corev1.PodSpec {
	spec := server()
	spec.RestartPolicy = corev1.RestartPolicyNever
	c := &spec.Containers[0]
	c.Args, c.Ports, c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = args, nil, nil, nil, nil
	return spec
}

func pod(namespace string, spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}, Spec: spec}
}

func deployment(namespace string, spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": "testpod"}
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "testpod"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one},
			},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

func job(namespace string, limit int32, spec corev1.PodSpec) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job"},
		Spec:       batchv1.JobSpec{BackoffLimit: &limit, Template: corev1.PodTemplateSpec{Spec: spec}},
	}
}

// current reads an object anew.
func current[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	return object
}

func isReady(object *corev1.Pod) bool {
	for _, condition := range object.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func eventuallyReady(ctx context.Context, object *corev1.Pod) {
	GinkgoHelper()
	Eventually(func() bool { return isReady(current(ctx, object)) }, timeout, interval).Should(BeTrue(), func() string {
		raw, _ := json.Marshal(object.Status)
		return string(raw)
	})
}

func eventuallyGone(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(func() bool {
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), object))
	}, timeout, interval).Should(BeTrue(), "%s is still there", object.GetName())
}

// call sends a request to the server in a Pod and returns its answer.
func call(ctx context.Context, object *corev1.Pod, method, path string) string {
	GinkgoHelper()
	body, err := try(ctx, object, method, path)
	Expect(err).NotTo(HaveOccurred())
	return body
}

func try(ctx context.Context, object *corev1.Pod, method, path string) (string, error) {
	address, err := machine.Address(client.ObjectKeyFromObject(object), "http")
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, body)
	}
	return string(body), err
}

// running returns the command lines of processes that mention marker.
func running(ctx context.Context, marker string) []string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "args=").Output()
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, marker) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
