package agent_test

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/archelon-io/archelon/test/env"
	"github.com/archelon-io/archelon/test/node"
	_ "github.com/archelon-io/archelon/test/report"
	"github.com/archelon-io/archelon/test/standin/rancher/remote"
)

const (
	standinNamespace = "rancher-standin"
	standinImage     = "registry.test/rancher-standin:v1"
	agentImage       = "registry.test/rancher-agent:v1"
)

// One control plane is that of Rancher and that of the cluster which is imported, each with its programs as Pods.
var (
	plane   *env.ControlPlane
	machine *node.Node
	admin   client.Client
)

func TestPods(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Rancher's agent in Pods")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ctrllog.SetLogger(logr.Discard())
	programs := GinkgoT().TempDir()
	out, err := exec.CommandContext(ctx, "go", "build", "-o", programs, "./cmd/cattle-cluster-agent", "../rancher/cmd/rancher-standin").CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	plane, err = env.Start(ctx, env.Options{Name: "agents", Workloads: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return plane.Stop() })
	config := plane.Config
	config.QPS = -1
	admin, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	machine, err = node.Start(ctx, node.Options{
		Cluster: plane, Out: GinkgoWriter,
		Images: map[string]string{
			standinImage: filepath.Join(programs, "rancher-standin"),
			agentImage:   filepath.Join(programs, "cattle-cluster-agent"),
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return machine.Stop() })
}, NodeTimeout(10*time.Minute))

// startStandin runs the stand-in as a Deployment and returns its Pod and its control.
func startStandin(ctx context.Context) (*corev1.Pod, *remote.Remote) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: standinNamespace, Name: "rancher"}
	labels := map[string]string{"app": "rancher"}
	// On a busy machine the stand-in takes its time.
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: 120, TimeoutSeconds: 60,
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("control")}},
		}
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: standinNamespace}},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "rancher-standin"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: meta.Namespace, Name: meta.Name}},
		},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: meta.Name,
				Containers: []corev1.Container{{
					Name: "rancher", Image: standinImage,
					Args: []string{
						"--in-cluster", "--listen=:8443", "--control-listen=:8080", "--state-namespace=" + standinNamespace,
						"--agent-image=" + agentImage, `--timings={"cleanup":"500ms","disconnect":"10s"}`,
					},
					Ports: []corev1.ContainerPort{
						{Name: "https", ContainerPort: 8443}, {Name: "control", ContainerPort: 8080},
					},
					LivenessProbe:  probe("/healthz"),
					ReadinessProbe: probe("/readyz"),
				}},
			}},
		}},
	} {
		Expect(admin.Create(ctx, obj)).To(Succeed())
	}
	Eventually(readyPods).WithContext(ctx).WithArguments(standinNamespace).Should(HaveLen(1))
	pods, err := readyPods(ctx, standinNamespace)
	Expect(err).NotTo(HaveOccurred())
	address, err := machine.Address(client.ObjectKeyFromObject(&pods[0]), "control")
	Expect(err).NotTo(HaveOccurred())
	return &pods[0], remote.New(&http.Client{}, "http://"+address, func(err error) { Fail(err.Error()) })
}

// readyPods returns the Pods of a namespace that are ready and not about to end.
func readyPods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var ready []corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp.IsZero() {
				ready = append(ready, *pod)
			}
		}
	}
	return ready, nil
}
