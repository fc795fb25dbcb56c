package identity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
)

func refTo(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "OCIClusterIdentity", Name: name,
	}
}

// identityIn returns a complete identity: its Secret lies beside it, and clusters of namespace a may use it.
func identityIn(namespace string, change ...func(*infrav1.OCIClusterIdentity)) *infrav1.OCIClusterIdentity {
	identity := &infrav1.OCIClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "id"},
		Spec: infrav1.OCIClusterIdentitySpec{
			Type:              infrav1.UserPrincipal,
			PrincipalSecret:   corev1.SecretReference{Namespace: namespace, Name: "key"},
			AllowedNamespaces: &infrav1.AllowedNamespaces{NamespaceList: []string{"a"}},
		},
	}
	for _, do := range change {
		do(identity)
	}
	return identity
}

func TestResolve(t *testing.T) {
	policy := Policy{SecretNamespaces: []string{"a", "infra", "vault"}, TrustedNamespaces: []string{"infra"}}
	typed := func(principal infrav1.PrincipalType) func(*infrav1.OCIClusterIdentity) {
		return func(i *infrav1.OCIClusterIdentity) { i.Spec.Type = principal }
	}
	secretIn := func(namespace, name string) func(*infrav1.OCIClusterIdentity) {
		return func(i *infrav1.OCIClusterIdentity) {
			i.Spec.PrincipalSecret = corev1.SecretReference{Namespace: namespace, Name: name}
		}
	}
	open := func(i *infrav1.OCIClusterIdentity) { i.Spec.AllowedNamespaces = &infrav1.AllowedNamespaces{} }
	changed := func(change func(*corev1.ObjectReference)) *corev1.ObjectReference {
		ref := refTo("id")
		change(ref)
		return ref
	}
	cases := map[string]struct {
		reason     string
		ref        *corev1.ObjectReference
		identity   *infrav1.OCIClusterIdentity
		namespace  string
		outOfScope bool
		refuseOpen bool
		want       Verdict
	}{
		"NoRef": {
			reason: "the principal of the process, as before", namespace: "a", want: Verdict{Allowed: true},
		},
		"Allowed": {
			reason: "all is well", ref: refTo("id"), identity: identityIn("a"), namespace: "a",
			want: Verdict{Allowed: true, Principal: infrav1.UserPrincipal},
		},
		"OtherNamespace": {
			reason: "it is not for b", ref: refTo("id"), identity: identityIn("a"), namespace: "b",
			want: Verdict{Reason: infrav1.NamespaceNotAllowedReason},
		},
		"NoIdentity": {
			reason: "there is none", ref: refTo("id"), namespace: "a",
			want: Verdict{Reason: infrav1.IdentityNotFoundReason},
		},
		"OutOfScope": {
			reason: "it cannot be looked at", ref: refTo("id"), namespace: "a", outOfScope: true,
			want: Verdict{Reason: infrav1.IdentityOutOfScopeReason},
		},
		"OtherKind": {
			reason: "CAPOCI does not look at the kind",
			ref:    changed(func(r *corev1.ObjectReference) { r.Kind = "Secret" }), identity: identityIn("a"),
			namespace: "a", want: Verdict{Reason: infrav1.IdentityRefInvalidReason},
		},
		"NoKind": {
			reason: "the kind has no default", ref: changed(func(r *corev1.ObjectReference) { r.Kind = "" }),
			identity: identityIn("a"), namespace: "a", want: Verdict{Reason: infrav1.IdentityRefInvalidReason},
		},
		"OtherGroup": {
			reason:   "another provider's kind of that name",
			ref:      changed(func(r *corev1.ObjectReference) { r.APIVersion = "example.com/v1" }),
			identity: identityIn("a"), namespace: "a", want: Verdict{Reason: infrav1.IdentityRefInvalidReason},
		},
		"BadVersion": {
			reason: "not a group and version", ref: changed(func(r *corev1.ObjectReference) { r.APIVersion = "a/b/c" }),
			identity: identityIn("a"), namespace: "a", want: Verdict{Reason: infrav1.IdentityRefInvalidReason},
		},
		"NoName": {
			reason: "there is no name", ref: refTo(""), namespace: "a",
			want: Verdict{Reason: infrav1.IdentityRefInvalidReason},
		},
		"SecretElsewhere": {
			reason: "identities of tenants take Secrets of their own namespace", ref: refTo("id"),
			identity: identityIn("a", secretIn("vault", "key")), namespace: "a",
			want: Verdict{Reason: infrav1.SecretNamespaceForbiddenReason},
		},
		"SecretTrusted": {
			reason: "those of administrators may take others", ref: refTo("id"),
			identity: identityIn("infra", secretIn("vault", "key")), namespace: "a",
			want: Verdict{Allowed: true, Principal: infrav1.UserPrincipal},
		},
		"SecretUnnamed": {
			reason: "Secrets must not live there", ref: refTo("id"), identity: identityIn("c"), namespace: "a",
			want: Verdict{Reason: infrav1.SecretNamespaceForbiddenReason},
		},
		"SecretNoDefault": {
			reason: "the namespace of the Secret has no default", ref: refTo("id"),
			identity: identityIn("a", secretIn("", "key")), namespace: "a",
			want: Verdict{Reason: infrav1.SecretReferenceInvalidReason},
		},
		"NoSecret": {
			reason: "no Secret is named", ref: refTo("id"), identity: identityIn("a", secretIn("", "")), namespace: "a",
			want: Verdict{Reason: infrav1.SecretReferenceInvalidReason},
		},
		"TwoSecrets": {reason: "the spellings differ", ref: refTo("id"), namespace: "a", want: Verdict{
			Reason: infrav1.SecretReferenceInvalidReason,
		},
			identity: identityIn("a", func(i *infrav1.OCIClusterIdentity) {
				i.Spec.ClientSecret = corev1.SecretReference{Namespace: "a", Name: "other"}
			})},
		"Spelling": {reason: "the spelling of the proposal", ref: refTo("id"), namespace: "a", want: Verdict{
			Allowed: true, Principal: infrav1.UserPrincipal,
		},
			identity: identityIn("a", func(i *infrav1.OCIClusterIdentity) {
				i.Spec.ClientSecret, i.Spec.PrincipalSecret = i.Spec.PrincipalSecret, corev1.SecretReference{}
			})},
		"InstanceTenant": {
			reason: "a tenant must not get the principal of the management cluster", ref: refTo("id"),
			identity: identityIn("a", typed(infrav1.InstancePrincipal)), namespace: "a",
			want: Verdict{Reason: infrav1.PrincipalTypeForbiddenReason},
		},
		"WorkloadTenant": {
			reason: "nor that of the Pod", ref: refTo("id"),
			identity: identityIn("a", typed(infrav1.WorkloadPrincipal)), namespace: "a",
			want: Verdict{Reason: infrav1.PrincipalTypeForbiddenReason},
		},
		"InstanceTrusted": {
			reason: "administrators can give it", ref: refTo("id"),
			identity: identityIn("infra", typed(infrav1.InstancePrincipal)), namespace: "a",
			want: Verdict{Allowed: true, Principal: infrav1.InstancePrincipal},
		},
		"UnknownType": {
			reason: "CAPOCI's CRD takes any text", ref: refTo("id"), identity: identityIn("infra", typed("Nonsense")),
			namespace: "a", want: Verdict{Reason: infrav1.PrincipalTypeUnknownReason},
		},
		"Open": {
			reason: "open to all", ref: refTo("id"), identity: identityIn("a", open), namespace: "z",
			want: Verdict{Allowed: true, Principal: infrav1.UserPrincipal},
		},
		"OpenRefused": {
			reason: "unless an administrator does not want that", ref: refTo("id"), identity: identityIn("a", open),
			namespace: "a", refuseOpen: true, want: Verdict{Reason: infrav1.NamespaceNotAllowedReason},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := policy
			set.RefuseOpen = tc.refuseOpen
			got := Resolve(Question{
				Ref: tc.ref, Namespace: Namespace{Name: tc.namespace}, Identity: tc.identity, OutOfScope: tc.outOfScope,
				Policy: set,
			})
			message := got.Message
			got.Message = ""
			if got != tc.want {
				t.Errorf("%s: got %+v (%s), want %+v", tc.reason, got, message, tc.want)
			}
			if got.Allowed == (message != "") {
				t.Errorf("%s: allowed %t with message %q", tc.reason, got.Allowed, message)
			}
			if strings.Contains(message, "vault") {
				t.Errorf("%s: the message tells a tenant about other namespaces: %s", tc.reason, message)
			}
		})
	}
}

func TestResolveWithoutPolicyAllowsNoPrincipalThatIsNotTheTenants(t *testing.T) {
	types := []infrav1.PrincipalType{infrav1.UserPrincipal, infrav1.InstancePrincipal, infrav1.WorkloadPrincipal}
	for _, principal := range types {
		identity := identityIn("a", func(i *infrav1.OCIClusterIdentity) { i.Spec.Type = principal })
		if got := Resolve(Question{Ref: refTo("id"), Namespace: Namespace{Name: "a"}, Identity: identity}); got.Allowed {
			t.Errorf("%s is allowed without a policy", principal)
		}
	}
}

func TestKeyOf(t *testing.T) {
	if got := KeyOf(refTo("id"), "a").String(); got != "a/id" {
		t.Errorf("got %s, want the namespace of the cluster", got)
	}
	ref := refTo("id")
	ref.Namespace = "b"
	if got := KeyOf(ref, "a").String(); got != "b/id" {
		t.Errorf("got %s, want the namespace of the reference", got)
	}
}

func TestPolicyValidate(t *testing.T) {
	if err := (Policy{SecretNamespaces: []string{"a"}, TrustedNamespaces: []string{"b"}}).Validate(); err != nil {
		t.Error(err)
	}
	for _, policy := range []Policy{
		{SecretNamespaces: []string{"*"}}, {TrustedNamespaces: []string{""}}, {SecretNamespaces: []string{"A"}},
	} {
		if policy.Validate() == nil {
			t.Errorf("%+v passes", policy)
		}
	}
}
