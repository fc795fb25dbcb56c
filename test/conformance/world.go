package conformance

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

const (
	paused      = clusterv1.PausedAnnotation
	clusterName = "conformance"
)

// requests are those of the controller that were for objects.
func (k *Kind) requests() []auditv1.Event {
	GinkgoHelper()
	events, err := k.Plane.AuditEvents()
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(events, func(event auditv1.Event) bool { return event.User.Username != k.User || event.ObjectRef == nil })
}

// writes are what the controller has written here, to a claim if one is named. Events are not counted: they
// are sent when there is time.
func (k *Kind) writes(name string) []string {
	GinkgoHelper()
	var writes []string
	for _, event := range k.requests() {
		is := event.ObjectRef
		of := name == "" || is.Resource == "hostclaims" && is.Namespace == k.Namespace && is.Name == name
		if of && is.Resource != "events" && !slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			writes = append(writes, string(event.AuditID)+" "+event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

// refuseToHold has the API server refuse finalizers of a claim until the returned function is called.
// The claim is paused meanwhile.
func (k *Kind) refuseToHold(ctx context.Context, claim *metal3v1.HostClaim) (allow func(context.Context)) {
	GinkgoHelper()
	name := "unheld-" + k.Names[0] + ".conformance"
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{metal3v1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"hostclaims"}},
	}}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "object.metadata.namespace != '" + claim.Namespace + "' || object.metadata.name != '" + claim.Name + "' || " +
					"!has(object.metadata.finalizers) || size(object.metadata.finalizers) == 0",
			}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	k.create(ctx, policy)
	k.create(ctx, binding)
	hold := func() error {
		held := claim.DeepCopy()
		held.Finalizers = []string{"conformance.archelon.io/try"}
		return k.Admin.Patch(ctx, held, client.MergeFrom(claim), client.DryRunAll)
	}
	Eventually(hold).ShouldNot(Succeed())
	return func(ctx context.Context) {
		GinkgoHelper()
		Expect(k.Admin.Delete(ctx, binding)).To(Succeed())
		Expect(k.Admin.Delete(ctx, policy)).To(Succeed())
	}
}

// cluster creates a CAPI Cluster that is paused in the namespace of claims. The returned function
// pauses it, or has it go on.
func (k *Kind) cluster(ctx context.Context) func(ctx context.Context, paused bool) {
	GinkgoHelper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: clusterName},
		Spec: clusterv1.ClusterSpec{
			Paused: new(true), ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "x", Port: 1},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "g.io", Kind: "K", Name: "n"},
		},
	}
	k.create(ctx, cluster)
	return func(ctx context.Context, paused bool) {
		GinkgoHelper()
		before := cluster.DeepCopy()
		cluster.Spec.Paused = &paused
		Expect(k.Admin.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
	}
}
