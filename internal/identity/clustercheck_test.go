package identity

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

func TestDecideIdentityVerified(t *testing.T) {
	good, waits := finding{result: accepted}, finding{pending, infrav1.VerificationPendingReason, "Archelon asks OCI"}
	hidden := finding{rejected, infrav1.CompartmentNotVisibleReason, "The compartment is not visible"}
	down := unknown(infrav1.OCIUnreachableReason, "OCI does not answer")
	late := unknown(infrav1.VerificationPendingReason, "Archelon has not asked OCI")
	before := &identityv1.Condition{Type: infrav1.IdentityVerifiedCondition, Status: corev1.ConditionTrue, Reason: infrav1.VerifiedReason}
	for name, tc := range map[string]struct {
		findings []finding
		before   *identityv1.Condition
		refused  bool
		want     string
		says     string
	}{
		"NoCluster":    {want: "Unknown NoCluster"},
		"Verified":     {findings: []finding{good, good}, want: "True Verified"},
		"Refused":      {findings: []finding{good, hidden, down, waits}, want: "False CompartmentNotVisible", says: "OCICluster a/1: The compartment is not visible"},
		"Down":         {findings: []finding{good, down}, want: "Unknown OCIUnreachable", says: "OCICluster a/1: OCI does not answer"},
		"Pending":      {findings: []finding{good, waits}, want: "Unknown VerificationPending"},
		"PendingStays": {findings: []finding{good, waits}, before: before, want: "none"},
		"LateStays":    {findings: []finding{late}, before: before, want: "none"},
		"Many":         {findings: []finding{hidden, hidden, hidden, hidden, hidden}, want: "False CompartmentNotVisible", says: "2 more"},
		"NotAllowed":   {findings: []finding{hidden}, refused: true, want: "Unknown NoCluster"},
	} {
		o := Observation{Identity: identitytest.Identity("a"), Checks: map[userID]check{}}
		if tc.before != nil {
			o.Identity.Status.Conditions = []identityv1.Condition{*tc.before}
		}
		if tc.refused {
			o.Identity.Spec.AllowedNamespaces = nil
		}
		o.Clusters = clustersIn("a", strings.Split("012345", "")[:len(tc.findings)]...)
		for n, found := range tc.findings {
			o.Checks[o.Clusters[n].id] = check{finding: found, ask: true, target: target{compartment: o.Clusters[n].id.name}}
		}
		got := Decide(o, Rules{Policy: oci.Policy{SecretNamespaces: []string{"a"}}}, time.Now())
		condition, is := conditionOf(got.Conditions, infrav1.IdentityVerifiedCondition), "none"
		if condition.Type != "" {
			is = string(condition.Status) + " " + condition.Reason
		}
		if is != tc.want || !strings.Contains(condition.Message, tc.says) {
			t.Errorf("%s: got %s: %s", name, is, condition.Message)
		}
		wanted := len(tc.findings)
		if tc.refused {
			wanted = 0
		}
		if len(got.Wants) != wanted {
			t.Errorf("%s: OCI is asked about %d targets", name, len(got.Wants))
		}
	}
}

// What OCI says of a cluster becomes what the import is told of it.
func TestWhatAnImportIsTold(t *testing.T) {
	server := newOCI(t, &identitytest.One().PublicKey)
	server.compartments = map[string]string{aCompartment: otherTenancy}
	w := newChecked(t, newVerifierFor(t, server), "one", "broken", "missing", "instance")
	w.server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "broken"}, Data: map[string][]byte{"user": identitytest.PKCS1(identitytest.One())}})
	w.server.Put(identitytest.Identity("infra", func(i *identityv1.OCIClusterIdentity) {
		i.Name, i.Spec.PrincipalSecret.Name = "missing", "gone"
	}))
	w.server.Put(identitytest.Identity("infra", func(i *identityv1.OCIClusterIdentity) {
		i.Name, i.Spec.Type = "instance", identityv1.InstancePrincipal
	}))
	override := func(name string) {
		ref := identitytest.Ref("one")
		ref.Namespace = "infra"
		w.server.Put(&infrav1.OCICluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: infrav1.ClusterSpec{
			IdentityRef: ref, ClientOverrides: &infrav1.ClientOverrides{IdentityClientURL: "https://override.invalid"},
		}})
	}
	w.cluster("other", "one", aCompartment)
	w.cluster("invalid", "one", "../users/x")
	w.cluster("broken", "broken", aCompartment)
	w.cluster("missing", "missing", aCompartment)
	w.cluster("instance", "instance", aCompartment)
	override("override")
	for _, name := range []string{"one", "broken", "missing", "instance"} {
		w.run(name)
	}
	w.ask()
	for name, want := range map[string]string{
		"other": "Stall CompartmentInOtherTenancy", "invalid": "Stall CompartmentInvalid", "broken": "Stall CredentialInvalid",
		"missing": "Stall SecretNotFound", "instance": "",
	} {
		if got := w.permits(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := w.permits("override"); !strings.Contains(got, "(ClientOverrideIgnored)") || server.asked.Load() != 1 {
		t.Errorf("an override that is not allowed: got %q after %d questions", got, server.asked.Load())
	}
	for name, want := range map[string]string{"broken": "False CredentialInvalid", "missing": "False SecretNotFound", "instance": "Unknown PrincipalNotChecked"} {
		if got := w.run(name); got != want {
			t.Errorf("identity %s: got %s, want %s", name, got, want)
		}
	}
	for _, object := range w.server.Objects(identityGK) {
		identity, _ := object.(*identityv1.OCIClusterIdentity)
		for _, condition := range identity.Status.Conditions {
			if quoted := identitytest.Quoted(identitytest.Data(), condition.Message, ""); quoted != "" {
				t.Errorf("condition %s of %s quotes %s: %s", condition.Type, identity.Name, quoted, condition.Message)
			}
		}
	}

	// Without the checks, the condition goes, and nothing refuses.
	w.r.Checker, w.r.Resolver.Checker = nil, nil
	if got := w.run("one"); got != "none" || w.permits("other") != "" {
		t.Errorf("without checks: got %s, %q", got, w.permits("other"))
	}
}
