package hostclaim_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/shard"
)

const (
	pretendKind      = "pretend"
	pretendFinalizer = "hostclaims.metal3.io/pretend"
)

// pretender is the controller of a kind of its own, as somebody else could write it: its hosts are ConfigMaps.
type pretender struct{ client client.Client }

// startPretend runs it, and grants it what it needs.
func (w *world) startPretend(ctx context.Context) func() {
	GinkgoHelper()
	described := controller.Controller{Name: "hostclaim-pretend", Watches: func(shard.Scope) []controller.Watch {
		return []controller.Watch{
			{Object: &metal3v1.HostClaim{}, By: cache.ByObject{Field: fields.OneTermEqualSelector("spec.kind", pretendKind)}},
			{Object: &corev1.ConfigMap{}}, {Object: &clusterv1.Cluster{}},
		}
	}}
	return w.run(ctx, pretendKind, described, func(_ context.Context, _ *rest.Config, mgr ctrl.Manager, _ cache.Cache) error {
		p := &pretender{mgr.GetClient()}
		return ctrl.NewControllerManagedBy(mgr).Named(described.Name).
			For(&metal3v1.HostClaim{}).
			WatchesRawSource(source.Kind(mgr.GetCache(), &clusterv1.Cluster{}, handler.TypedEnqueueRequestsFromMapFunc(p.ofCluster))).
			Complete(p)
	})
}

func (w *world) grantPretend(ctx context.Context) {
	GinkgoHelper()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	w.create(
		ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: pretendKind}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: pretendKind}, Rules: []rbacv1.PolicyRule{
			rule("metal3.io", "hostclaims", "get", "list", "watch", "patch"), rule("metal3.io", "hostclaims/status", "patch"),
			rule("", "configmaps", "get", "list", "watch", "create", "delete"), rule("cluster.x-k8s.io", "clusters", "get", "list", "watch"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: pretendKind},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: pretendKind}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: pretendKind},
		},
	)
}

// ofCluster returns all claims: there are few.
func (p *pretender) ofCluster(ctx context.Context, cluster *clusterv1.Cluster) []reconcile.Request {
	claims := &metal3v1.HostClaimList{}
	if p.client.List(ctx, claims, client.InNamespace(cluster.Namespace)) != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range claims.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
	}
	return requests
}

// Reconcile implements reconcile.Reconciler.
func (p *pretender) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	claim := &metal3v1.HostClaim{}
	if err := p.client.Get(ctx, request.NamespacedName, claim); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if is, err := hostclaim.IsPaused(ctx, p.client, claim); is || err != nil {
		return ctrl.Result{}, err
	}
	before := claim.DeepCopy()
	locked := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	host := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "host-of-" + claim.Name}}
	if claim.DeletionTimestamp != nil {
		if err := client.IgnoreNotFound(p.client.Delete(ctx, host)); err != nil || !controllerutil.RemoveFinalizer(claim, pretendFinalizer) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, client.IgnoreNotFound(p.client.Patch(ctx, claim, locked))
	}
	held := controllerutil.AddFinalizer(claim, pretendFinalizer)
	claim.Labels = hostclaim.Set(claim.Labels, metal3v1.KindLabel, pretendKind)
	if held || before.Labels[metal3v1.KindLabel] != pretendKind {
		return ctrl.Result{}, p.client.Patch(ctx, claim, locked)
	}
	status := metav1.Condition{
		Type: metal3v1.ReadyCondition, Status: metav1.ConditionTrue, Reason: metal3v1.ReadyReason, ObservedGeneration: claim.Generation,
	}
	for arg := range claim.Spec.Args {
		status.Status, status.Reason, status.Message = metav1.ConditionFalse, metal3v1.ConfigurationInvalidReason, fmt.Sprintf("There is no arg %q", arg)
	}
	if status.Status == metav1.ConditionTrue {
		err := p.client.Get(ctx, client.ObjectKeyFromObject(host), host)
		if apierrors.IsNotFound(err) {
			err = client.IgnoreAlreadyExists(p.client.Create(ctx, host))
		}
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	claim.Status.ObservedGeneration = claim.Generation
	if changed := meta.SetStatusCondition(&claim.Status.Conditions, status); !changed && before.Status.ObservedGeneration == claim.Generation {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, p.client.Status().Patch(ctx, claim, locked)
}
