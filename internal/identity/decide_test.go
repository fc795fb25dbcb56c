package identity

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

func conditionOf(conditions []identityv1.Condition, conditionType string) identityv1.Condition {
	for _, condition := range conditions {
		if condition.Type == conditionType {
			return condition
		}
	}
	return identityv1.Condition{}
}

// short is a condition as tables have it: "status severity reason".
func short(c identityv1.Condition) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", c.Status, c.Severity, c.Reason)), " ")
}

// untranslated has an identity say what became of its cloud credential.
func untranslated(reason string) func(*identityv1.OCIClusterIdentity) {
	return func(i *identityv1.OCIClusterIdentity) {
		i.Status.Conditions = append(i.Status.Conditions, identityv1.Condition{
			Type: infrav1.TranslatedCondition, Status: corev1.ConditionFalse, Reason: reason,
		})
	}
}

func TestDecideReady(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	good := Secret{
		Exists: true, Name: types.NamespacedName{Namespace: "a", Name: "key"},
		checked: checked{version: Version{"u", "1"}},
	}
	with := func(change func(*Secret)) Secret {
		secret := good
		change(&secret)
		return secret
	}
	asked := func(result string, ago time.Duration) Secret {
		return with(func(s *Secret) { s.answer, s.asked = answer{result, "what OCI said"}, now.Add(-ago) })
	}
	was := func(status corev1.ConditionStatus, reason string) func(*identityv1.OCIClusterIdentity) {
		return func(i *identityv1.OCIClusterIdentity) {
			i.Status.Conditions = []identityv1.Condition{{Type: "Ready", Status: status, Reason: reason}}
		}
	}
	badSelector := func(i *identityv1.OCIClusterIdentity) {
		i.Spec.AllowedNamespaces.Selector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
		}
	}
	cases := map[string]struct {
		reason   string
		identity *identityv1.OCIClusterIdentity
		secret   Secret
		trouble  error
		verify   bool
		policy   *oci.Policy
		want     string
		asks     bool
		after    time.Duration
	}{
		"Ready":    {reason: "all is well", identity: identitytest.Identity("a"), secret: good, want: "True Ready"},
		"NoSecret": {reason: "it is not there", identity: identitytest.Identity("a"), want: "False Error SecretNotFound"},
		"Flaw": {
			reason: "it holds no key", identity: identitytest.Identity("a"),
			secret: with(func(s *Secret) { s.flaw = "the Secret lacks key" }), want: "False Error CredentialInvalid",
		},
		"Withdrawn": {
			reason: "the key is not in the cloud credential any more", secret: good,
			identity: identitytest.Identity("a", untranslated(infrav1.CredentialWithdrawnReason)), want: "False Error CredentialWithdrawn",
		},
		"WithdrawnWithItsCredential": {
			reason: "nor is the cloud credential there", secret: good,
			identity: identitytest.Identity("a", untranslated(infrav1.CredentialGoneReason)), want: "False Error CredentialWithdrawn",
		},
		"WithdrawnAndOutage": {
			reason: "an outage does not give it back", trouble: errors.New("503"),
			identity: identitytest.Identity("a", was("True", "Ready"), untranslated(infrav1.CredentialGoneReason)),
			want:     "False EvaluationFailed",
		},
		"KeepsItsCredential": {
			reason: "its region is wrong, and its key works", secret: good,
			identity: identitytest.Identity("a", untranslated(identityv1.CredentialInvalidReason)), want: "True Ready",
		},
		"Forbidden": {
			reason: "the policy does not allow it", identity: identitytest.Identity("a"), policy: &oci.Policy{},
			want: "False Error SecretNamespaceForbidden",
		},
		"Instance": {
			reason:   "nor this",
			identity: identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = identityv1.InstancePrincipal }),
			want:     "False Error PrincipalTypeForbidden",
		},
		"UnknownType": {
			reason:   "what is that",
			identity: identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = "x" }),
			want:     "False Error PrincipalTypeUnknown",
		},
		"Selector": {
			reason: "it cannot be read", identity: identitytest.Identity("a", badSelector), secret: good,
			want: "False Error SelectorInvalid",
		},
		"GravestFirst": {
			reason: "without a Secret nothing works", identity: identitytest.Identity("a", badSelector),
			want: "False Error SecretNotFound",
		},
		"OutageNew": {
			reason: "nothing is known yet", identity: identitytest.Identity("a"), trouble: errors.New("503"),
			want: "Unknown EvaluationFailed",
		},
		"OutageReady": {
			reason: "an outage takes nothing away", identity: identitytest.Identity("a", was("True", "Ready")),
			trouble: errors.New("503"), want: "True EvaluationFailed",
		},
		"OutageRefused": {
			reason: "and gives nothing", identity: identitytest.Identity("a", was("False", "SecretNotFound")),
			trouble: errors.New("503"), want: "False EvaluationFailed",
		},
		"AskFirst": {
			reason: "OCI was never asked", identity: identitytest.Identity("a"), secret: good, verify: true,
			want: "Unknown EvaluationFailed", asks: true,
		},
		"Accepted": {
			reason: "OCI knows the key", identity: identitytest.Identity("a"), secret: asked(accepted, time.Minute), verify: true,
			want: "True Ready", after: 59 * time.Minute,
		},
		"Rejected": {
			reason: "OCI does not", identity: identitytest.Identity("a"), secret: asked(rejected, time.Minute), verify: true,
			want: "False Error CredentialRejected", after: 4 * time.Minute,
		},
		"RejectedAgain": {
			reason: "it is asked again", identity: identitytest.Identity("a"), secret: asked(rejected, 5*time.Minute),
			verify: true, want: "False Error CredentialRejected", asks: true,
		},
		"AcceptedAgain": {
			reason: "and after an hour", identity: identitytest.Identity("a"), secret: asked(accepted, time.Hour), verify: true,
			want: "True Ready", asks: true,
		},
		"UnreachableNew": {
			reason: "OCI does not answer", identity: identitytest.Identity("a"), secret: asked(unreachable, 0), verify: true,
			want: "Unknown EvaluationFailed", after: time.Minute,
		},
		"UnreachableReady": {
			reason: "an outage of OCI takes nothing away", identity: identitytest.Identity("a", was("True", "Ready")),
			secret: asked(unreachable, 0), verify: true, want: "True EvaluationFailed", after: time.Minute,
		},
		"VerifyOff": {
			reason: "what OCI said before does not count", identity: identitytest.Identity("a"), secret: asked(rejected, 0),
			want: "True Ready",
		},
		"FlawIsNotAsked": {
			reason: "there is nothing to sign with", identity: identitytest.Identity("a"),
			secret: with(func(s *Secret) { s.flaw = "x" }), verify: true, want: "False Error CredentialInvalid",
		},
		"InstanceNotAsked": {
			reason: "only keys of users are asked about",
			identity: identitytest.Identity(
				"infra", func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = identityv1.InstancePrincipal },
			),
			verify: true, want: "True Ready",
		},
		"OutageIsNotSilent": {
			reason: "no answer of OCI hides an outage", identity: identitytest.Identity("a"), secret: asked(accepted, 0),
			verify: true, trouble: errors.New("503"), want: "Unknown EvaluationFailed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			policy := oci.Policy{SecretNamespaces: []string{"a"}, TrustedNamespaces: []string{"infra"}}
			if tc.policy != nil {
				policy = *tc.policy
			}
			before := tc.identity.DeepCopy()
			got := Decide(
				Observation{Identity: tc.identity, Secret: tc.secret, Trouble: tc.trouble},
				Rules{Policy: policy, Verify: tc.verify}, now,
			)
			condition := conditionOf(got.Conditions, identityv1.ReadyCondition)
			if short(condition) != tc.want {
				t.Errorf("%s: got %s (%s), want %s", tc.reason, short(condition), condition.Message, tc.want)
			}
			if (condition.Message == "") != (condition.Reason == identityv1.ReadyReason) {
				t.Errorf("%s: reason %s has message %q", tc.reason, condition.Reason, condition.Message)
			}
			if (len(got.Actions) > 0) != tc.asks || got.After != tc.after {
				t.Errorf(
					"%s: got action %v after %s, want to ask: %t, after %s", tc.reason, got.Actions, got.After, tc.asks,
					tc.after,
				)
			}
			if !errors.Is(got.Trouble, tc.trouble) {
				t.Errorf("%s: the outage is not retried", tc.reason)
			}
			if diff := cmp.Diff(before, tc.identity); diff != "" {
				t.Errorf("%s: it changed what it was given:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDecideRestricted(t *testing.T) {
	for name, tc := range map[string]struct {
		allowed *identityv1.AllowedNamespaces
		refuse  bool
		want    string
		says    string
	}{
		"Nil":  {nil, false, "True Restricted", ""},
		"List": {&identityv1.AllowedNamespaces{NamespaceList: []string{"a"}}, false, "True Restricted", ""},
		"Open": {
			&identityv1.AllowedNamespaces{}, false, "False Warning OpenToAllNamespaces", "All namespaces may use",
		},
		"Refused": {&identityv1.AllowedNamespaces{}, true, "False Warning OpenToAllNamespaces", "identity.refuseOpen is true"},
		"NullList": {
			&identityv1.AllowedNamespaces{NullList: true}, false, "False Warning NullList", "CAPOCI allows all namespaces",
		},
		"NullAnd": {
			&identityv1.AllowedNamespaces{NullList: true, Selector: &metav1.LabelSelector{}}, false, "True Restricted", "",
		},
	} {
		identity := identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) { i.Spec.AllowedNamespaces = tc.allowed })
		got := conditionOf(
			Decide(
				Observation{Identity: identity}, Rules{Policy: oci.Policy{RefuseOpen: tc.refuse}}, time.Now(),
			).Conditions,
			identityv1.NamespacesRestrictedCondition,
		)
		if short(got) != tc.want || !strings.Contains(got.Message, tc.says) {
			t.Errorf("%s: got %s %q, want %s %q", name, short(got), got.Message, tc.want, tc.says)
		}
	}
}

func clustersIn(namespace string, names ...string) []Cluster {
	var clusters []Cluster
	for _, name := range names {
		clusters = append(
			clusters,
			Cluster{id: userID{"OCICluster", namespace, name}, Ref: identitytest.Ref("id"), Namespace: oci.Namespace{Name: namespace}},
		)
	}
	return clusters
}

func TestDecideInUse(t *testing.T) {
	policy := oci.Policy{SecretNamespaces: []string{"a"}}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("c%02d", i)
	}
	otherKind := clustersIn("a", "odd")
	otherKind[0].Ref.Kind = "Foo"
	for name, tc := range map[string]struct {
		reason   string
		policy   oci.Policy
		change   func(*identityv1.OCIClusterIdentity)
		clusters []Cluster
		want     string
		message  string
	}{
		"None": {"nobody names it", policy, nil, nil, "False Info NotUsed", ""},
		"Used": {
			"two do", policy, nil, clustersIn("a", "x", "y"), "True Used", "Used by OCICluster a/x, OCICluster a/y",
		},
		"Refused": {
			"one that may not does not hold it", policy, nil, clustersIn("b", "x"), "False Info NotUsed",
			"Refused: OCICluster b/x (NamespaceNotAllowed)",
		},
		"Both": {
			"both are told", policy, nil, append(clustersIn("a", "x"), clustersIn("b", "y")...), "True Used",
			"Used by OCICluster a/x. Refused: OCICluster b/y (NamespaceNotAllowed)",
		},
		"Many": {"a message is bounded", policy, nil, clustersIn("a", many...), "True Used", "c09 and 2 more"},
		"ByCAPOCI": {
			"CAPOCI works with it although the policy refuses it here", oci.Policy{}, nil, clustersIn("a", "x"),
			"True Used", "OCICluster a/x (SecretNamespaceForbidden)",
		},
		"NullList": {
			"CAPOCI allows all namespaces", policy,
			func(i *identityv1.OCIClusterIdentity) {
				i.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{NullList: true}
			},
			clustersIn("b", "x"), "True Used", "OCICluster b/x (NamespaceNotAllowed)",
		},
		"UnknownKind": {
			"CAPOCI does not look at the kind", policy, nil, otherKind, "True Used",
			"OCICluster a/odd (IdentityRefInvalid)",
		},
	} {
		identity := identitytest.Identity("a")
		if tc.change != nil {
			tc.change(identity)
		}
		got := conditionOf(
			Decide(
				Observation{Identity: identity, Clusters: tc.clusters}, Rules{Policy: tc.policy}, time.Now(),
			).Conditions,
			identityv1.InUseCondition,
		)
		if short(got) != tc.want || !strings.HasSuffix(got.Message, tc.message) {
			t.Errorf("%s: %s: got %s %q, want %s %q", name, tc.reason, short(got), got.Message, tc.want, tc.message)
		}
	}
}

// What is not seen is not denied, whatever was said before: an instance may see less than the one before it.
func TestDecideInUseOfWhatIsNotSeen(t *testing.T) {
	policy := oci.Policy{SecretNamespaces: []string{"a"}}
	for name, tc := range map[string]struct {
		reason   string
		unseen   Unseen
		clusters []Cluster
		want     string
		messages []string
	}{
		"Listed": {
			"a namespace of another instance", Unseen{Namespaces: []string{"x"}}, nil, "Unknown MayBeUsed",
			[]string{"clusters of namespaces x, in which this instance", infrav1.AllowDeletionAnnotation},
		},
		"Others": {
			"any namespace", Unseen{Others: true}, nil, "Unknown MayBeUsed",
			[]string{"clusters of any namespaces in which this instance", infrav1.AllowDeletionAnnotation},
		},
		"Refused": {
			"one that may not use it is named all the same", Unseen{Others: true}, clustersIn("b", "x"), "Unknown MayBeUsed",
			[]string{"Archelon does not know", "Refused: OCICluster b/x (NamespaceNotAllowed)"},
		},
		"Used": {
			"one is enough, and there may be more", Unseen{Namespaces: []string{"x"}}, clustersIn("a", "x"), "True Used",
			[]string{"Used by OCICluster a/x. Clusters of namespaces x, in which", "may use it as well"},
		},
	} {
		for _, before := range []corev1.ConditionStatus{"", "True", "False", "Unknown"} {
			identity := identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) {
				i.Status.Conditions = []identityv1.Condition{{Type: identityv1.InUseCondition, Status: before}}
			})
			got := conditionOf(
				Decide(
					Observation{Identity: identity, Unseen: tc.unseen, Clusters: tc.clusters}, Rules{Policy: policy}, time.Now(),
				).Conditions,
				identityv1.InUseCondition,
			)
			if short(got) != tc.want {
				t.Errorf("%s: %s: after %q got %s, want %s", name, tc.reason, before, short(got), tc.want)
			}
			for _, message := range tc.messages {
				if !strings.Contains(got.Message, message) {
					t.Errorf("%s: %s: %q does not say %q", name, tc.reason, got.Message, message)
				}
			}
		}
	}
}

func TestDecideLeavesOthersAlone(t *testing.T) {
	user := userID{"OCICluster", "a", "x"}
	got := Decide(Observation{Clusters: clustersIn("a", "x")}, Rules{}, time.Now())
	if got.Conditions != nil || got.Verdicts[user].Reason != identityv1.IdentityNotFoundReason {
		t.Errorf("without an identity: got %+v", got)
	}
	foreign := Observation{Identity: identitytest.Identity("a"), Foreign: true, Clusters: clustersIn("a", "x")}
	got = Decide(foreign, Rules{Policy: oci.Policy{SecretNamespaces: []string{"a"}}}, time.Now())
	if got.Conditions != nil || !got.Verdicts[user].Allowed {
		t.Errorf("for another instance's identity: got %+v", got)
	}
	outage := Observation{Identity: identitytest.Identity("a"), Trouble: errors.New("503"), Clusters: clustersIn("a", "x")}
	got = Decide(outage, Rules{}, time.Now())
	if got.Verdicts != nil || conditionOf(got.Conditions, identityv1.InUseCondition).Type != "" {
		t.Errorf("in an outage: got %+v, want clusters and their condition left as they are", got)
	}
	outage.Trouble, outage.Secret.Trouble = nil, outage.Trouble
	got = Decide(outage, Rules{Policy: oci.Policy{SecretNamespaces: []string{"a"}}}, time.Now())
	if short(conditionOf(got.Conditions, identityv1.InUseCondition)) != "True Used" || !got.Verdicts[user].Allowed {
		t.Errorf("without its Secret: got %+v, want it to say who uses the identity", got)
	}
	if got.Trouble == nil || conditionOf(got.Conditions, identityv1.ReadyCondition).Reason != identityv1.EvaluationFailedReason {
		t.Errorf("without its Secret: got %+v, want that to be tried again", got)
	}
}

func TestDecideKeepsTransitionTimes(t *testing.T) {
	began := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	identity := identitytest.Identity("a", func(i *identityv1.OCIClusterIdentity) {
		i.Status.Conditions = []identityv1.Condition{
			{Type: "Ready", Status: corev1.ConditionFalse, Reason: "CredentialInvalid", LastTransitionTime: began},
			{Type: "NamespacesRestricted", Status: corev1.ConditionFalse, LastTransitionTime: began},
		}
	})
	got := Decide(Observation{Identity: identity}, Rules{}, time.Date(2026, 2, 2, 2, 2, 2, 2, time.UTC))
	if ready := conditionOf(got.Conditions, "Ready"); !ready.LastTransitionTime.Equal(&began) {
		t.Errorf("another reason is another transition: %s", ready.LastTransitionTime)
	}
	at := conditionOf(got.Conditions, "NamespacesRestricted").LastTransitionTime
	if at.Equal(&began) || at.Nanosecond() != 0 {
		t.Errorf("another status is no transition: %s", at)
	}
}

func TestMerge(t *testing.T) {
	foreign := identityv1.Condition{Type: "Else"}
	old, now := identityv1.Condition{Type: "Ready", Status: "False"}, identityv1.Condition{Type: "Ready", Status: "True"}
	before := []identityv1.Condition{old, foreign}
	got := Merge(before, now, identityv1.Condition{Type: "InUse"})
	if len(got) != 3 || got[0] != now || got[1] != foreign || got[2].Type != "InUse" {
		t.Errorf("got %+v", got)
	}
	if before[0] != old {
		t.Error("it changed what it was given")
	}
}
