package translation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
)

var decidePolicy = Policy{Namespace: "oci", AllowedNamespaces: []string{"tenant"}}

// seen is an observation: what there is of a credential, its Secret and its identity. UIDs are "now" and "before".
type seen struct {
	credential bool
	content    Content
	// secret and identity are the UID in the label, "foreign" for no label, empty for no object.
	secret, identity string
	// inUse is the status of that condition, empty for none.
	inUse corev1.ConditionStatus
	named bool
	// unseen is whether clusters may use the identity that are not seen.
	unseen bool
	// allowed is the value of the annotation that allows to delete it.
	allowed string
	// drifted is whether the identity has another spec than it should have.
	drifted, terminating bool
}

func (s seen) observation() Observation {
	o := Observation{Content: s.content, Named: s.named, Unseen: s.unseen}
	meta := func(owner string) metav1.ObjectMeta {
		meta := metav1.ObjectMeta{Namespace: "oci", Name: "cc-1", UID: "object", ResourceVersion: "1"}
		if owner != "foreign" {
			meta.Labels = map[string]string{infrav1.CredentialUIDLabel: owner}
		}
		if s.terminating {
			meta.DeletionTimestamp = &metav1.Time{}
		}
		return meta
	}
	if s.credential {
		o.Credential = identity.SecretMetadata()
		o.Credential.ObjectMeta = metav1.ObjectMeta{
			Namespace: CredentialNamespace, Name: "cc-1", UID: "now", ResourceVersion: "1",
		}
	}
	if s.secret != "" {
		o.Secret = identity.SecretMetadata()
		o.Secret.ObjectMeta = meta(s.secret)
	}
	if s.identity != "" {
		o.Identity = &identityv1.OCIClusterIdentity{ObjectMeta: meta(s.identity), Spec: decidePolicy.Spec("cc-1")}
		if s.allowed != "" {
			o.Identity.Annotations = map[string]string{infrav1.AllowDeletionAnnotation: s.allowed}
		}
		if s.drifted {
			o.Identity.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{}
		}
		if s.inUse != "" {
			o.Identity.Status.Conditions = []identityv1.Condition{{Type: identityv1.InUseCondition, Status: s.inUse}}
		}
	}
	return o
}

// texts returns what is done, the reason that is reported, and the condition as "status reason".
func (d Decision) texts() (actions, report, condition string) {
	var all []string
	for _, action := range d.Actions {
		all = append(all, action.String())
	}
	if d.Report != nil {
		report = d.Report.Reason
	}
	if d.Condition != nil {
		condition = string(d.Condition.Status) + " " + d.Condition.Reason
	}
	return strings.Join(all, ","), report, condition
}

func TestDecide(t *testing.T) {
	good, same := Content{OCI: true}, Content{OCI: true, Same: true}
	flawed := Content{OCI: true, Flaw: "the region is wrong"}
	keyless := Content{OCI: true, Flaw: "the cloud credential lacks key", Withdrawn: true}
	const (
		used, unused    = corev1.ConditionTrue, corev1.ConditionFalse
		unknown         = corev1.ConditionUnknown
		secret, create  = "write the principal Secret cc-1", "create OCIClusterIdentity cc-1"
		change          = "change OCIClusterIdentity cc-1"
		remove, removeS = "remove OCIClusterIdentity cc-1", "remove the principal Secret cc-1"
	)
	for name, tc := range map[string]struct {
		reason    string
		seen      seen
		actions   string
		report    string // reason
		condition string // "status reason"
	}{
		"New":        {"both are missing", seen{credential: true, content: good}, secret + "," + create, "Translated", ""},
		"NoIdentity": {"it is missing", seen{credential: true, content: same, secret: "now"}, create, "Translated", ""},
		"NoSecret":   {"it is missing", seen{credential: true, content: good, identity: "now"}, secret, "Translated", "True Translated"},
		"Settled": {
			"nothing is to do", seen{credential: true, content: same, secret: "now", identity: "now"}, "", "Translated",
			"True Translated",
		},
		"Rotated": {
			"the Secret follows", seen{credential: true, content: good, secret: "now", identity: "now"}, secret, "Translated",
			"True Translated",
		},
		"Opened": {
			"somebody has changed the spec", seen{credential: true, content: same, secret: "now", identity: "now", drifted: true},
			change, "Translated", "True Translated",
		},
		"BeingDeleted": {
			"it is created again when it has gone",
			seen{credential: true, content: same, secret: "now", identity: "now", drifted: true, terminating: true}, "", "Translated",
			"True Translated",
		},
		"Regionless": {
			"it is a warning, and no more",
			seen{credential: true, content: Content{OCI: true, Same: true, Regionless: true}, secret: "now", identity: "now"}, "",
			"RegionMissing", "True RegionMissing",
		},
		"RegionlessNew": {
			"nothing waits for a region", seen{credential: true, content: Content{OCI: true, Regionless: true}}, secret + "," + create,
			"RegionMissing", "",
		},
		"Flawed": {"nothing is created", seen{credential: true, content: flawed}, "", "CredentialInvalid", ""},
		"FlawedLater": {
			"what was there stays, and says so", seen{credential: true, content: flawed, secret: "now", identity: "now"}, "",
			"CredentialInvalid", "False CredentialInvalid",
		},
		"Keyless": {"nothing is created", seen{credential: true, content: keyless}, "", "CredentialInvalid", ""},
		"KeylessUsed": {
			"clusters keep the former key", seen{credential: true, content: keyless, secret: "now", identity: "now", inUse: used}, "",
			"CredentialWithdrawn", "False CredentialWithdrawn",
		},
		"KeylessUnknown": {
			"whether clusters use it is not known", seen{credential: true, content: keyless, secret: "now", identity: "now"}, "",
			"CredentialWithdrawn", "False CredentialWithdrawn",
		},
		"KeylessUnseen": {
			"another instance may see clusters that use it",
			seen{credential: true, content: keyless, secret: "now", identity: "now", inUse: unused, unseen: true}, "",
			"CredentialWithdrawn", "False CredentialWithdrawn",
		},
		"KeylessUnused": {
			"a withdrawn key does not stay",
			seen{credential: true, content: keyless, secret: "now", identity: "now", inUse: unused}, remove + "," + removeS, "", "",
		},
		"KeylessAllowed": {
			"the identity may go although clusters use it",
			seen{credential: true, content: keyless, secret: "now", identity: "now", inUse: used, allowed: "true"}, remove + "," + removeS, "", "",
		},
		"KeylessSecret": {"its identity has gone", seen{credential: true, content: keyless, secret: "now"}, removeS, "", ""},
		"KeylessNamed": {
			"another identity names the Secret", seen{credential: true, content: keyless, secret: "now", named: true}, "", "CredentialInvalid", "",
		},
		"KeylessForeign": {
			"they are not ours", seen{credential: true, content: keyless, secret: "foreign", identity: "foreign", inUse: unused}, "",
			"CredentialInvalid", "",
		},
		"ForeignSecret":   {"it is not ours", seen{credential: true, content: good, secret: "foreign"}, "", "Collision", ""},
		"ForeignIdentity": {"the same", seen{credential: true, content: good, identity: "foreign"}, "", "Collision", ""},
		"ForeignSecretLater": {
			"the label was taken away", seen{credential: true, content: good, secret: "foreign", identity: "now"}, "", "Collision",
			"False Collision",
		},
		"ForeignIdentityOfOurSecret": {
			"the Secret is not changed either", seen{credential: true, content: good, secret: "now", identity: "foreign"}, "",
			"Collision", "",
		},
		"EarlierUnused": {
			"a credential of the same name was deleted",
			seen{credential: true, content: good, secret: "before", identity: "before", inUse: unused}, remove + "," + removeS, "", "",
		},
		"EarlierSecret": {"its Secret is left", seen{credential: true, content: good, secret: "before"}, removeS, "", ""},
		"EarlierUsed": {
			"clusters keep their principal",
			seen{credential: true, content: good, secret: "before", identity: "before", inUse: used}, "", "Collision",
			"False CredentialGone",
		},
		"GoneUnused": {
			"the identity goes first", seen{secret: "now", identity: "now", inUse: unused}, remove + "," + removeS, "", "",
		},
		"GoneShared":  {"another identity names the Secret", seen{secret: "now", identity: "now", inUse: unused, named: true}, remove, "", ""},
		"GoneSecret":  {"then the Secret", seen{secret: "now"}, removeS, "", ""},
		"GoneNamed":   {"another identity names it", seen{secret: "now", named: true}, "", "", ""},
		"GoneUsed":    {"clusters use it", seen{secret: "now", identity: "now", inUse: used}, "", "", "False CredentialGone"},
		"GoneUnknown": {"nobody has looked who uses it", seen{secret: "now", identity: "now"}, "", "", "False CredentialGone"},
		"GoneUnseen": {
			"another instance may see clusters that use it", seen{secret: "now", identity: "now", inUse: unknown, unseen: true}, "",
			"", "False CredentialGone",
		},
		"GoneUnseenNow": {
			"an instance said so that saw more than this one", seen{secret: "now", identity: "now", inUse: unused, unseen: true},
			"", "", "False CredentialGone",
		},
		"GoneAllowed": {
			"who may write the identity lets it go",
			seen{secret: "now", identity: "now", inUse: unknown, unseen: true, allowed: "true"}, remove + "," + removeS, "", "",
		},
		"GoneUsedAllowed": {
			"the same", seen{secret: "now", identity: "now", inUse: used, allowed: "true"}, remove + "," + removeS, "", "",
		},
		"GoneNotAllowed": {
			"no other value does", seen{secret: "now", identity: "now", inUse: used, allowed: "yes"}, "", "", "False CredentialGone",
		},
		"Allowed": {
			"the credential is there",
			seen{credential: true, content: same, secret: "now", identity: "now", inUse: unused, allowed: "true"}, "", "Translated",
			"True Translated",
		},
		"ForeignAllowed": {
			"it is not ours", seen{secret: "foreign", identity: "foreign", inUse: unused, allowed: "true"}, "", "", "",
		},
		"GoneForeign": {"nothing is ours", seen{secret: "foreign", identity: "foreign", inUse: unused}, "", "", ""},
		"GoneTwice":   {"it is on its way", seen{secret: "now", identity: "now", inUse: unused, terminating: true}, "", "", "False CredentialGone"},
		"OtherCloud":  {"a credential of another cloud", seen{credential: true}, "", "", ""},
		"BecameOther": {
			"the driver was changed", seen{credential: true, secret: "now", identity: "now", inUse: unused}, remove + "," + removeS, "", "",
		},
		"Nothing": {"there is nothing", seen{}, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tc.seen.observation(), decidePolicy, time.Unix(1000, 0))
			actions, report, condition := d.texts()
			if actions != tc.actions {
				t.Errorf("%s: does %q, want %q", tc.reason, actions, tc.actions)
			}
			if report != tc.report {
				t.Errorf("%s: reports %q, want %q", tc.reason, report, tc.report)
			}
			if condition != tc.condition {
				t.Errorf("%s: condition %q, want %q", tc.reason, condition, tc.condition)
			}
			if d.Report != nil && len(d.Report.String()) > maxMark {
				t.Errorf("%s: %q does not fit into an annotation", tc.reason, d.Report)
			}
		})
	}
}

func TestConditionKeepsItsTime(t *testing.T) {
	o := seen{
		credential: true, content: Content{OCI: true, Same: true}, secret: "now", identity: "now",
	}.observation()
	first := Decide(o, decidePolicy, time.Unix(1000, 0)).Condition
	o.Identity.Status.Conditions = []identityv1.Condition{*first}
	o.Content.Regionless = true
	if again := Decide(o, decidePolicy, time.Unix(2000, 0)).Condition; !again.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("it is still True since %v: got %v", first.LastTransitionTime, again.LastTransitionTime)
	}
	o.Content.Flaw = "x"
	if later := Decide(o, decidePolicy, time.Unix(2000, 0)).Condition; later.LastTransitionTime.Unix() != 2000 {
		t.Errorf("it is False now: got %v", later.LastTransitionTime)
	}
}
