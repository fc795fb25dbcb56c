package baremetal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/shard"
)

// PoliciesControllerName is the name of what reads policies in logs and metrics.
const PoliciesControllerName = "hostclaim-policies"

// policyInvalid is the reason of the Event about a policy that cannot be read.
const policyInvalid = "PolicyInvalid"

// policyReader tells of policies that cannot be read. They allow nobody, or copy nothing, and their author may not
// notice.
type policyReader struct {
	policies client.Reader
	recorder events.EventRecorder
	scope    shard.Scope
}

// Reconcile implements reconcile.Reconciler. It runs once for each version of a policy's spec.
func (p policyReader) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if !p.scope.Owns(request.Namespace) {
		return ctrl.Result{}, nil
	}
	policy := &metal3v1.HostDeployPolicy{}
	if err := p.policies.Get(ctx, request.NamespacedName, policy); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p.warn(policy, "The policy allows no namespace: ", hostclaim.PolicyProblem(policy))
	p.warn(policy, "The policy does not copy all labels and annotations that it is to copy: ", hostclaim.CopyProblem(policy))
	return ctrl.Result{}, nil
}

// warn reports a problem, if there is one.
func (p policyReader) warn(policy *metal3v1.HostDeployPolicy, consequence, problem string) {
	if problem != "" {
		p.recorder.Eventf(policy, nil, corev1.EventTypeWarning, policyInvalid, "Read", "%s", hostclaim.Bounded(consequence+problem))
	}
}

// add adds it to the manager.
func (p policyReader) add(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named(PoliciesControllerName).
		WithOptions(controller.Options{UsePriorityQueue: new(false)}). // See SetupWithManager.
		WatchesRawSource(source.Kind(
			mgr.GetCache(), client.Object(&metal3v1.HostDeployPolicy{}), &handler.EnqueueRequestForObject{}, predicate.GenerationChangedPredicate{},
		)).Complete(p)
	if err != nil {
		return fmt.Errorf("building controller %s: %w", PoliciesControllerName, err)
	}
	return nil
}
