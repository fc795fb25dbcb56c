package e2e

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/helm"
	"github.com/archelon-io/archelon/test/importing"
)

const (
	worksIn       = "archelon.io/works-in"
	formerOverlap = "RancherImportScopeOverlap"
)

// formerTemplate is what the chart rendered when there was an admission webhook.
const formerTemplate = `
{{- $name := printf "%s-webhook" (include "archelon.fullname" .) }}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "archelon.labels" . | nindent 4 }}
spec:
  selector: {{- include "archelon.selectorLabels" . | nindent 4 }}
  ports: [{name: webhook, port: 443, targetPort: webhook}]
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels: {{- include "archelon.labels" . | nindent 4 }}
type: Opaque
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: {{ include "archelon.clusterName" . }}
  labels: {{- include "archelon.labels" . | nindent 4 }}
webhooks:
  - name: cluster.import.archelon.io
    admissionReviewVersions: [v1]
    clientConfig: {service: {name: {{ $name }}, namespace: {{ .Release.Namespace }}, port: 443, path: /validate-cluster-x-k8s-io-v1beta2-cluster}}
    failurePolicy: Ignore
    sideEffects: None
    timeoutSeconds: 1
    rules: [{apiGroups: [cluster.x-k8s.io], apiVersions: [v1beta2], operations: [CREATE, UPDATE], resources: [clusters]}]
`

// formerChart returns the path of a chart that has the webhook as well.
func formerChart(release helm.Release) string {
	GinkgoHelper()
	dir := filepath.Join(GinkgoT().TempDir(), "archelon")
	Expect(os.CopyFS(dir, os.DirFS(release.Chart))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "templates", "former.yaml"), []byte(formerTemplate), 0o600)).To(Succeed())
	return dir
}

// becomeFormer stops the manager of a release, and leaves what an earlier version leaves that was killed: a Lease that
// does not say where its holder works, and conditions about overlaps.
func (r *releases) becomeFormer(ctx context.Context, release helm.Release, clusters []*clusterv1.Cluster) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{ObjectMeta: objectMeta(release.Namespace, release.Name)}
	Expect(r.Client.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)))).To(Succeed())
	lease := r.lease(release.Name)
	Eventually(func() string { return ptr.Deref(importing.Current(ctx, r.Client, lease).Spec.HolderIdentity, "") }).WithTimeout(patience).Should(BeEmpty())
	before := lease.DeepCopy()
	delete(lease.Annotations, worksIn)
	renewed := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new("former"), new(int32(15)), &renewed
	Expect(r.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
	long := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	gone := r.lease("gone")
	gone.Labels, gone.Annotations = map[string]string{instanceKey: "gone"}, map[string]string{"archelon.io/scope": "*"}
	gone.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("gone"), LeaseDurationSeconds: new(int32(15)), RenewTime: &long}
	Expect(r.Client.Create(ctx, gone)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(r.Client.Delete(ctx, r.lease("gone")))).To(Succeed())
	})
	for _, cluster := range clusters {
		apply := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": formerOverlap, "status": "True", "reason": "ScopesOverlap", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
		}}}}}
		apply.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
		apply.SetNamespace(cluster.Namespace)
		apply.SetName(cluster.Name)
		Expect(r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(apply), client.FieldOwner("archelon-overlap"))).To(Succeed())
	}
}

// lease is that of an instance.
func (r *releases) lease(instance string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: objectMeta(coordination, instance+"-leader-election")}
}

// expectNothingFormer asserts that nothing of an earlier version is left of a release.
func (r *releases) expectNothingFormer(ctx context.Context, release helm.Release, clusters []*clusterv1.Cluster) {
	GinkgoHelper()
	Eventually(func() string { return importing.Current(ctx, r.Client, r.lease(release.Name)).Annotations[worksIn] }).
		WithTimeout(2 * patience).Should(Equal("*"))
	for _, cluster := range clusters {
		Eventually(func() bool { return conditions.Has(importing.Current(ctx, r.Client, cluster), formerOverlap) }).
			WithTimeout(patience).Should(BeFalse(), cluster.Name)
		Expect(importing.Current(ctx, r.Client, cluster).Annotations).To(HaveKeyWithValue(instanceKey, instanceOf(release.Name)))
	}
	for _, object := range []client.Object{
		&corev1.Service{ObjectMeta: objectMeta(release.Namespace, release.Name+"-webhook")},
		&corev1.Secret{ObjectMeta: objectMeta(release.Namespace, release.Name+"-webhook")},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: objectMeta("", release.Namespace+"."+release.Name)},
	} {
		Expect(r.K(ctx).Get(object)()).To(Satisfy(apierrors.IsNotFound), object.GetName())
	}
}
