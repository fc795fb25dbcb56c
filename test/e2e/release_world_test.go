package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/builder"
	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
	"github.com/archelon-io/archelon/test/node"
	"github.com/archelon-io/archelon/test/stage"
	"github.com/archelon-io/archelon/test/standin/rancher"
)

// image is the one that the chart names by itself.
const image = "ghcr.io/archelon-io/archelon:v0.1.0"

// releases is a management cluster into which the chart is installed by Helm, and which runs its Pods.
type releases struct {
	*shards
	helm    *helm.Helm
	node    podRunner
	excuses []excuse
}

// podRunner is what runs the Pods.
type podRunner interface {
	// Logs returns what the containers of a Pod have printed.
	Logs(key types.NamespacedName) string
	// Kill kills the containers of a Pod, as if they had crashed: they are restarted as the Pod says.
	Kill(key types.NamespacedName) error
}

func (r *releases) start(ctx context.Context) {
	GinkgoHelper()
	world := startStage(ctx, stage.Options{Name: "release", Audit: true, Workloads: true, Rancher: func(o *rancher.Options) {
		o.Logger = GinkgoLogr
		o.Timings.Cleanup = 100 * time.Millisecond
	}})
	r.shards = &shards{fixture: without(world)}
	r.servers = startLights(ctx, world)
	r.node = startNode(ctx, world)
	kubeconfig, err := world.Management.LocalKubeconfig()
	Expect(err).NotTo(HaveOccurred())
	r.helm, err = helm.New(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.helm.Close)
	for _, name := range []string{watch1, watch2, watch3} {
		Expect(r.Client.Create(ctx, importing.NamespaceOf(name))).To(Succeed())
	}
}

// startNode has somebody run the Pods: on kind the kubelet does.
func startNode(ctx context.Context, world *stage.Stage) podRunner {
	GinkgoHelper()
	if kindStage != nil {
		return kindStage.World().Management
	}
	n, err := node.Start(ctx, node.Options{Cluster: world.Management, Images: map[string]string{image: manager, stage.PushedImage: manager}, Out: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(n.Stop()).To(Succeed()) })
	return n
}

// coordination is the namespace of the Leases of all releases. It is the one of a release called archelon.
const coordination = "archelon-system"

// release is one of the chart. Its namespace accepts what the Pod Security Standard "restricted" allows. Its
// Lease is beside those of others.
func (r *releases) release(ctx context.Context, name string, values map[string]any) helm.Release {
	GinkgoHelper()
	for _, name := range []string{name + "-system", coordination} {
		namespace := importing.NamespaceOf(name)
		namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		Expect(client.IgnoreAlreadyExists(r.Client.Create(ctx, namespace))).To(Succeed())
	}
	if name+"-system" != coordination {
		values = with(values, map[string]any{"leaderElection": map[string]any{"namespace": coordination}})
	}
	return helm.Release{
		Name: name, Namespace: name + "-system", Chart: filepath.Join(stage.Root(), "charts", "archelon"), Wait: true, Timeout: 4 * patience, Values: values,
	}
}

// instanceOf is how clusters name the instance of a release.
func instanceOf(name string) string {
	if name+"-system" == coordination {
		return coordination + "/" + name
	}
	return coordination + "/" + name + "-system-" + name
}

// with returns values with more of them.
func with(values map[string]any, more map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, values)
	maps.Copy(all, more)
	return all
}

// install installs a release for the time of the node.
func (r *releases) install(ctx context.Context, release helm.Release) {
	GinkgoHelper()
	Expect(r.helm.Install(ctx, release)).To(Succeed())
}

// describePods adds the state of all Pods to the report of a spec that failed.
func (r *releases) describePods(ctx context.Context) {
	if !CurrentSpecReport().Failed() || r.shards == nil {
		return
	}
	pods := &corev1.PodList{}
	Expect(r.Client.List(ctx, pods)).To(Succeed())
	for i := range pods.Items {
		pod := &pods.Items[i]
		AddReportEntry("pod "+client.ObjectKeyFromObject(pod).String(), fmt.Sprintf("%s %+v\n%s", pod.Status.Phase, pod.Status.ContainerStatuses, r.node.Logs(client.ObjectKeyFromObject(pod))))
	}
}

// drop deletes a cluster of several.
func (r *releases) drop(ctx context.Context, cluster *clusterv1.Cluster) {
	GinkgoHelper()
	Expect(r.Client.Delete(ctx, cluster)).To(Succeed())
	Eventually(r.K(ctx).Get(cluster)).Should(Satisfy(apierrors.IsNotFound))
	Expect(r.Client.Delete(ctx, builder.KubeconfigSecret(cluster.Namespace, cluster.Name, nil))).To(Succeed())
}

// held returns what our finalizers are on.
func (r *releases) held(ctx context.Context) []string {
	GinkgoHelper()
	var held []string
	for _, kind := range []schema.GroupVersionKind{
		{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "ClusterList"},
		{Group: "management.cattle.io", Version: "v3", Kind: "ClusterList"},
		{Group: "provisioning.cattle.io", Version: "v1", Kind: "ClusterList"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBindingList"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(r.Client.List(ctx, list)).To(Succeed())
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "archelon.io/") }) {
				held = append(held, kind.Kind+" "+kind.Group+" "+client.ObjectKeyFromObject(&list.Items[i]).String())
			}
		}
	}
	return held
}

// records returns the Rancher clusters of all CAPI clusters: kind, name and UID by the name of the CAPI cluster.
func (r *releases) records(ctx context.Context) map[string]string {
	GinkgoHelper()
	w := r.Look(ctx)
	records := map[string]string{}
	for i := range w.Clusters {
		for _, strategy := range importing.Strategies() {
			for _, record := range w.Records(strategy, &w.Clusters[i]) {
				records[client.ObjectKeyFromObject(&w.Clusters[i]).String()] += fmt.Sprintf("%s %s %s;", strategy, record.GetName(), record.GetUID())
			}
		}
	}
	return records
}

// watchConnections notes every time that an agent is not connected, until the returned function is called,
// which returns what was noted.
func (r *releases) watchConnections(ctx context.Context, clusters []*clusterv1.Cluster) func() []string {
	GinkgoHelper()
	ids := map[string]string{}
	w := r.Look(ctx)
	for _, cluster := range clusters {
		for _, strategy := range importing.Strategies() {
			for _, record := range w.Records(strategy, cluster) {
				ids[cluster.Name] = importing.InternalName(record)
			}
		}
	}
	Expect(ids).To(HaveLen(len(clusters)))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	// A spec that fails before it asks must not leave it behind: it would fail others.
	DeferCleanup(func() { stop(); <-ended })
	lost := make(chan []string, 1)
	go func() {
		defer close(ended)
		var found []string
		ticker := time.NewTicker(glance())
		defer ticker.Stop()
		for {
			for name, id := range ids {
				if workload, _ := r.Rancher.Connected(id); workload == "" && !slices.Contains(found, name) {
					found = append(found, name)
				}
			}
			select {
			case <-ctx.Done():
				lost <- found
				return
			case <-ticker.C:
			}
		}
	}()
	return func() []string {
		stop()
		return <-lost
	}
}

// glance is between two looks at all connections. On kind each is a request through the API server.
func glance() time.Duration {
	if kindStage != nil {
		return time.Second
	}
	return 20 * time.Millisecond
}

// left returns what Helm has left of a release.
func (r *releases) left(ctx context.Context, release helm.Release) []string {
	GinkgoHelper()
	var left []string
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "DeploymentList"},
		{Group: "batch", Version: "v1", Kind: "JobList"},
		{Version: "v1", Kind: "ServiceAccountList"},
		{Version: "v1", Kind: "ServiceList"},
		{Version: "v1", Kind: "SecretList"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudgetList"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyList"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBindingList"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleList"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBindingList"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleList"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBindingList"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		Expect(r.Client.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/instance": release.Name})).To(Succeed())
		for i := range list.Items {
			left = append(left, kind.Kind+" "+client.ObjectKeyFromObject(&list.Items[i]).String())
		}
	}
	return left
}

// uninstallPod returns the Pod of the release's uninstaller that runs, or nil.
func (r *releases) uninstallPod(ctx context.Context, release helm.Release) *corev1.Pod {
	pods := &corev1.PodList{}
	job := client.MatchingLabels{"batch.kubernetes.io/job-name": release.Name + "-uninstall-see-helm-get-notes"}
	if err := r.Client.List(ctx, pods, client.InNamespace(release.Namespace), job); err != nil {
		return nil
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			return &pods.Items[i]
		}
	}
	return nil
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
