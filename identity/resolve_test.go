package identity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

func TestResolve(t *testing.T) {
	policy := Policy{SecretNamespaces: []string{"a", "infra", "vault"}, TrustedNamespaces: []string{"infra"}}
	typed := func(principal identityv1.PrincipalType) func(*identityv1.OCIClusterIdentity) {
		return func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = principal }
	}
	secretIn := func(namespace, name string) func(*identityv1.OCIClusterIdentity) {
		return func(i *identityv1.OCIClusterIdentity) {
			i.Spec.PrincipalSecret = corev1.SecretReference{Namespace: namespace, Name: name}
		}
	}
	open := func(i *identityv1.OCIClusterIdentity) { i.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{} }
	changed := func(change func(*corev1.ObjectReference)) *corev1.ObjectReference {
		ref := identitytest.Ref("id")
		change(ref)
		return ref
	}
	cases := map[string]struct {
		reason     string
		ref        *corev1.ObjectReference
		identity   *identityv1.OCIClusterIdentity
		namespace  string
		outOfScope bool
		refuseOpen bool
		want       Verdict
	}{
		"NoRef": {
			reason: "the principal of the process, as before", namespace: "a", want: Verdict{Allowed: true},
		},
		"Allowed": {
			reason: "all is well", ref: identitytest.Ref("id"), identity: identitytest.Identity("a"), namespace: "a",
			want: Verdict{Allowed: true, Principal: identityv1.UserPrincipal},
		},
		"OtherNamespace": {
			reason: "it is not for b", ref: identitytest.Ref("id"), identity: identitytest.Identity("a"), namespace: "b",
			want: Verdict{Reason: identityv1.NamespaceNotAllowedReason},
		},
		"NoIdentity": {
			reason: "there is none", ref: identitytest.Ref("id"), namespace: "a",
			want: Verdict{Reason: identityv1.IdentityNotFoundReason},
		},
		"OutOfScope": {
			reason: "it cannot be looked at", ref: identitytest.Ref("id"), namespace: "a", outOfScope: true,
			want: Verdict{Reason: identityv1.IdentityOutOfScopeReason},
		},
		"OtherKind": {
			reason: "CAPOCI does not look at the kind",
			ref:    changed(func(r *corev1.ObjectReference) { r.Kind = "Secret" }), identity: identitytest.Identity("a"),
			namespace: "a", want: Verdict{Reason: identityv1.IdentityRefInvalidReason},
		},
		"NoKind": {
			reason: "the kind has no default", ref: changed(func(r *corev1.ObjectReference) { r.Kind = "" }),
			identity: identitytest.Identity("a"), namespace: "a", want: Verdict{Reason: identityv1.IdentityRefInvalidReason},
		},
		"OtherGroup": {
			reason:   "another provider's kind of that name",
			ref:      changed(func(r *corev1.ObjectReference) { r.APIVersion = "example.com/v1" }),
			identity: identitytest.Identity("a"), namespace: "a", want: Verdict{Reason: identityv1.IdentityRefInvalidReason},
		},
		"BadVersion": {
			reason: "not a group and version", ref: changed(func(r *corev1.ObjectReference) { r.APIVersion = "a/b/c" }),
			identity: identitytest.Identity("a"), namespace: "a", want: Verdict{Reason: identityv1.IdentityRefInvalidReason},
		},
		"NoName": {
			reason: "there is no name", ref: identitytest.Ref(""), namespace: "a",
			want: Verdict{Reason: identityv1.IdentityRefInvalidReason},
		},
		"SecretElsewhere": {
			reason: "identities of tenants take Secrets of their own namespace", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("a", secretIn("vault", "key")), namespace: "a",
			want: Verdict{Reason: identityv1.SecretNamespaceForbiddenReason},
		},
		"SecretTrusted": {
			reason: "those of administrators may take others", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("infra", secretIn("vault", "key")), namespace: "a",
			want: Verdict{Allowed: true, Principal: identityv1.UserPrincipal},
		},
		"SecretUnnamed": {
			reason: "Secrets must not live there", ref: identitytest.Ref("id"), identity: identitytest.Identity("c"), namespace: "a",
			want: Verdict{Reason: identityv1.SecretNamespaceForbiddenReason},
		},
		"SecretNoDefault": {
			reason: "the namespace of the Secret has no default", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("a", secretIn("", "key")), namespace: "a",
			want: Verdict{Reason: identityv1.SecretReferenceInvalidReason},
		},
		"NoSecret": {
			reason: "no Secret is named", ref: identitytest.Ref("id"), identity: identitytest.Identity("a", secretIn("", "")), namespace: "a",
			want: Verdict{Reason: identityv1.SecretReferenceInvalidReason},
		},
		"TwoSecrets": {reason: "the spellings differ", ref: identitytest.Ref("id"), namespace: "a", want: Verdict{
			Reason: identityv1.SecretReferenceInvalidReason,
		},
			identity: identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) {
				i.Spec.ClientSecret = corev1.SecretReference{Namespace: "a", Name: "other"}
			})},
		"Spelling": {reason: "the spelling of the proposal", ref: identitytest.Ref("id"), namespace: "a", want: Verdict{
			Allowed: true, Principal: identityv1.UserPrincipal,
		},
			identity: identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) {
				i.Spec.ClientSecret, i.Spec.PrincipalSecret = i.Spec.PrincipalSecret, corev1.SecretReference{}
			})},
		"InstanceTenant": {
			reason: "a tenant must not get the principal of the management cluster", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("a", typed(identityv1.InstancePrincipal)), namespace: "a",
			want: Verdict{Reason: identityv1.PrincipalTypeForbiddenReason},
		},
		"WorkloadTenant": {
			reason: "nor that of the Pod", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("a", typed(identityv1.WorkloadPrincipal)), namespace: "a",
			want: Verdict{Reason: identityv1.PrincipalTypeForbiddenReason},
		},
		"InstanceTrusted": {
			reason: "administrators can give it", ref: identitytest.Ref("id"),
			identity: identitytest.Identity("infra", typed(identityv1.InstancePrincipal)), namespace: "a",
			want: Verdict{Allowed: true, Principal: identityv1.InstancePrincipal},
		},
		"UnknownType": {
			reason: "CAPOCI's CRD takes any text", ref: identitytest.Ref("id"), identity: identitytest.Identity("infra", typed("Nonsense")),
			namespace: "a", want: Verdict{Reason: identityv1.PrincipalTypeUnknownReason},
		},
		"Open": {
			reason: "open to all", ref: identitytest.Ref("id"), identity: identitytest.Identity("a", open), namespace: "z",
			want: Verdict{Allowed: true, Principal: identityv1.UserPrincipal},
		},
		"OpenRefused": {
			reason: "unless an administrator does not want that", ref: identitytest.Ref("id"), identity: identitytest.Identity("a", open),
			namespace: "a", refuseOpen: true, want: Verdict{Reason: identityv1.NamespaceNotAllowedReason},
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
			got.Message, got.Detail = "", ""
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
	types := []identityv1.PrincipalType{identityv1.UserPrincipal, identityv1.InstancePrincipal, identityv1.WorkloadPrincipal}
	for _, principal := range types {
		identity := identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = principal })
		if got := Resolve(Question{Ref: identitytest.Ref("id"), Namespace: Namespace{Name: "a"}, Identity: identity}); got.Allowed {
			t.Errorf("%s is allowed without a policy", principal)
		}
	}
}

func TestKeyOf(t *testing.T) {
	if got := KeyOf(identitytest.Ref("id"), "a").String(); got != "a/id" {
		t.Errorf("got %s, want the namespace of the cluster", got)
	}
	ref := identitytest.Ref("id")
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
