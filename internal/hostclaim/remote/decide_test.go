package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/workload"
)

var (
	now   = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	place = workload.Place{Server: "https://there:6443", Authority: "ca", Namespace: "user1"}
)

// sourceWith returns a source that is held.
func sourceWith(changes ...func(*metal3v1.HostClaim)) *metal3v1.HostClaim {
	claim := &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "c", UID: "uid-c", ResourceVersion: "1", Generation: 3, Finalizers: []string{"hostclaims.metal3.io/remote"},
		Labels:      map[string]string{"hostclaims.metal3.io/kind": "remote"},
		Annotations: map[string]string{"hostclaims.metal3.io/powered-on": "true"},
	}}
	claim.Spec = metal3v1.HostClaimSpec{
		Kind: "remote", Credentials: "remote", Args: map[string]metal3v1.Argument{"real-kind": "baremetal", "zone": "z1"}, Online: new(true),
	}
	for _, change := range changes {
		if change != nil {
			change(claim)
		}
	}
	return claim
}

func pinned(uid types.UID) func(*metal3v1.HostClaim) {
	return func(c *metal3v1.HostClaim) {
		c.Status.Remote = &metal3v1.RemoteReference{
			Server: place.Server, Authority: place.Authority, Namespace: place.Namespace, Name: targetName(originOf(c)), UID: uid,
		}
		keepTarget(c, c.Status.Remote)
	}
}

func says(kind, status, reason string) func(*metal3v1.HostClaim) {
	return func(c *metal3v1.HostClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		})
	}
}

// ofNow has what a source says be of its generation.
func ofNow(c *metal3v1.HostClaim) {
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].ObservedGeneration = c.Generation
	}
}

func statusDropped(c *metal3v1.HostClaim) { c.Status.Remote = nil }

func deleted(c *metal3v1.HostClaim) { c.DeletionTimestamp = &metav1.Time{Time: now} }

func annotated(key, value string) func(*metal3v1.HostClaim) {
	return func(c *metal3v1.HostClaim) { c.Annotations = hostclaim.Set(c.Annotations, key, value) }
}

func hasCopies(c *metal3v1.HostClaim) {
	annotated(metal3v1.CopiedAnnotation, `{"labels":{"example.com/rack":"r1"}}`)(c)
}

func hasLost(c *metal3v1.HostClaim) { annotated(metal3v1.LostHostAnnotation, lostThere)(c) }

func withUserData(c *metal3v1.HostClaim) {
	c.Spec.UserData = &corev1.SecretReference{Name: "s"}
	c.Spec.Image = &metal3v1.Image{URL: "http://image"}
}

// targetOf returns the target as a source wants it.
func targetOf(source *metal3v1.HostClaim, changes ...func(*metal3v1.HostClaim)) *metal3v1.HostClaim {
	o := Observation{Claim: source, RealKind: "baremetal", Place: place, Sources: sourcesOf(source)}
	target := wanted(o, planSecrets(o))
	target.UID, target.ResourceVersion = "uid-t", "7"
	for _, change := range changes {
		change(target)
	}
	return target
}

func sourcesOf(source *metal3v1.HostClaim) map[hostclaim.Role]*metav1.PartialObjectMetadata {
	found := map[hostclaim.Role]*metav1.PartialObjectMetadata{}
	for role, ref := range hostclaim.Sources(source) {
		found[role] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace, Name: ref.Name, UID: "uid-s", ResourceVersion: "5",
		}}
	}
	return found
}

func copiesOf(source *metal3v1.HostClaim, version string, owner types.UID) map[string]*metav1.PartialObjectMetadata {
	name := copyName(originOf(source), hostclaim.UserData)
	return map[string]*metav1.PartialObjectMetadata{name: {ObjectMeta: metav1.ObjectMeta{
		Namespace: "user1", Name: name, UID: "uid-x", ResourceVersion: "9",
		Labels:          map[string]string{metal3v1.OriginLabel: originOf(source), metal3v1.SourceLabel: version},
		OwnerReferences: []metav1.OwnerReference{{UID: owner}},
	}}}
}

// told writes a decision as its actions and RemoteSynced.
func toldOf(d Decision) string {
	var texts []string
	for _, action := range d.Actions {
		texts = append(texts, action.String())
		if change, ok := action.(changeTarget); ok && change.warning != nil {
			texts = append(texts, "!"+change.warning.Reason)
		}
		if change, ok := action.(changeSource); ok && change.warning != nil {
			texts = append(texts, "!"+change.warning.Reason)
		}
	}
	if d.Status != nil {
		synced := hostclaim.ConditionOf(&metal3v1.HostClaim{Status: *d.Status}, "RemoteSynced")
		texts = append(texts, fmt.Sprintf("%s %s", synced.Status, synced.Reason))
	}
	for _, warning := range d.Warnings {
		texts = append(texts, "!"+warning.Reason)
	}
	return strings.Join(texts, ", ")
}

// decideRow is a situation, and what follows.
type decideRow struct {
	o    Observation
	want string
}

func decideRows() map[string]decideRow {
	const (
		create, change, remove = "creating the claim in the other cluster", "changing the claim in the other cluster", "deleting the claim in the other cluster"
		copied, removed        = "copying Secret s to the other cluster", "removing a Secret from the other cluster"
		loses                  = "HostClaim a/c: have it say that its host is lost"
		drop, tell             = "HostClaim a/c: release it", "HostClaim a/c: have it tell what its target tells"
	)
	unreachable := &Problem{"RemoteUnreachable", "silence"}
	connecting := yetToAnswer()
	bound, data := says("Associated", "True", "BareMetalHostAssociated"), sourceWith(withUserData, pinned("uid-t"))
	elsewhere := workload.Place{Server: "https://elsewhere", Authority: "ca", Namespace: "user1"}
	unhealthy := annotated("capm3.metal3.io/unhealthy", "x")
	return map[string]decideRow{
		"none":          {Observation{}, ""},
		"paused":        {Observation{Claim: sourceWith(), Paused: true}, ""},
		"not held":      {Observation{Claim: sourceWith(func(c *metal3v1.HostClaim) { c.Finalizers = nil })}, "HostClaim a/c: hold it"},
		"silence":       {Observation{Claim: sourceWith(), Problem: unreachable}, "False RemoteUnreachable"},
		"no answer yet": {Observation{Claim: sourceWith(), Problem: &connecting}, "False RemoteConnecting"},
		"no answer yet, of another generation": {
			Observation{Claim: sourceWith(says("RemoteSynced", "True", "RemoteSynced")), Problem: &connecting}, "False RemoteConnecting",
		},
		"no answer yet, and nothing is new":        {Observation{Claim: sourceWith(says("RemoteSynced", "True", "RemoteSynced"), ofNow), Problem: &connecting}, ""},
		"where it is going to be is written first": {Observation{Claim: sourceWith(), Place: place}, "False RemoteConnecting"},
		"created then": {Observation{Claim: sourceWith(pinned("")), Place: place}, create + ", True RemoteSynced"},
		"Secrets come before": {
			Observation{Claim: sourceWith(withUserData, pinned("")), Place: place, Sources: sourcesOf(data)},
			copied + ", " + create + ", True RemoteSynced",
		},
		"metaData tells of the stand-in of a Machine": {
			Observation{Claim: sourceWith(withUserData, pinned(""), annotated("hostclaims.metal3.io/stand-in", "uid-h")), Place: place, Sources: sourcesOf(data)},
			copied + ", creating Secret " + copyName(originOf(data), hostclaim.MetaData) + " in the other cluster, " + create + ", True RemoteSynced",
		},
		"a Secret is missing": {
			Observation{Claim: sourceWith(withUserData, pinned("")), Place: place}, create + ", False UserDataSecretSyncFailure",
		},
		"a Secret of another namespace": {
			Observation{Claim: sourceWith(withUserData, pinned(""), func(c *metal3v1.HostClaim) { c.Spec.UserData.Namespace = "b" }), Place: place, Sources: sourcesOf(data)},
			create + ", False UserDataSecretSyncFailure",
		},
		"in step": {
			Observation{Claim: data, Place: place, Target: targetOf(data), Sources: sourcesOf(data), Copies: copiesOf(data, "uid-s.5", "uid-t")},
			"True RemoteSynced",
		},
		"labels are copied there": {
			Observation{Claim: sourceWith(pinned("uid-t")), RealKind: "baremetal", Place: place, Target: targetOf(sourceWith(), hasCopies)},
			tell + ", True RemoteSynced",
		},
		"labels are copied there and here": {
			Observation{Claim: sourceWith(pinned("uid-t"), hasCopies), RealKind: "baremetal", Place: place, Target: targetOf(sourceWith(), hasCopies)},
			"True RemoteSynced",
		},
		"labels are not copied there any more": {
			Observation{Claim: sourceWith(pinned("uid-t"), hasCopies), RealKind: "baremetal", Place: place, Target: targetOf(sourceWith())},
			tell + ", True RemoteSynced",
		},
		"a copy gets its owner": {
			Observation{Claim: data, Place: place, Target: targetOf(data), Sources: sourcesOf(data), Copies: copiesOf(data, "uid-s.5", "other")},
			copied + ", True RemoteSynced",
		},
		"a Secret has changed": {
			Observation{Claim: data, Place: place, Target: targetOf(data), Sources: sourcesOf(data), Copies: copiesOf(data, "uid-s.4", "uid-t")},
			copied + ", True RemoteSynced",
		},
		"a Secret is not named any more": {
			Observation{Claim: sourceWith(pinned("uid-t")), Place: place, Target: targetOf(sourceWith()), Copies: copiesOf(data, "uid-s.5", "uid-t")},
			removed + ", True RemoteSynced",
		},
		"the spec goes first": {
			Observation{Claim: sourceWith(pinned("uid-t")), Place: place, Target: targetOf(data), Copies: copiesOf(data, "uid-s.5", "uid-t")},
			change + ", True RemoteSynced",
		},
		"edited by others": {
			Observation{Claim: sourceWith(pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })},
			change + ", !RemoteEdited, True RemoteSynced",
		},
		"somebody else's": {
			Observation{Claim: sourceWith(pinned("")), Place: place, Target: targetOf(sourceWith(), func(c *metal3v1.HostClaim) { c.Labels = nil })},
			"False RemoteConflict",
		},
		"found again after a move": {
			Observation{Claim: sourceWith(annotated(metal3v1.OriginUIDAnnotation, "uid-old")), Place: place, Target: targetOf(sourceWith(annotated(metal3v1.OriginUIDAnnotation, "uid-old")))},
			tell + ", True RemoteSynced",
		},
		"elsewhere": {Observation{Claim: sourceWith(pinned("uid-t")), Place: elsewhere}, "False RemoteIdentityChanged"},
		"elsewhere, of which nobody knows whether it was created": {
			Observation{Claim: sourceWith(pinned("")), Place: elsewhere}, "False RemoteIdentityChanged",
		},
		"the same by another name": {
			Observation{Claim: sourceWith(pinned("uid-t")), Place: elsewhere, Target: targetOf(sourceWith())}, tell + ", True RemoteSynced",
		},
		"deleted by others": {
			Observation{Claim: sourceWith(pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), deleted)}, "False RemoteDeleting",
		},
		"gone, without a host": {Observation{Claim: sourceWith(pinned("uid-t")), Place: place}, "False RemoteConnecting"},
		"gone, with a host": {
			Observation{Claim: sourceWith(pinned("uid-t"), bound), Place: place, Copies: copiesOf(data, "x", "y")},
			removed + ", " + loses + ", False HostLost, !HostLost",
		},
		"gone, with a host, and written down": {
			Observation{Claim: sourceWith(pinned("uid-t"), bound, hasLost), Place: place}, "False HostLost, !HostLost",
		},
		"gone, with a host, by a status that somebody has forged": {
			Observation{Claim: sourceWith(pinned("uid-t"), bound, func(c *metal3v1.HostClaim) {
				delete(c.Annotations, metal3v1.TargetAnnotation)
			}), Place: place}, "False RemoteConnecting",
		},
		"still gone": {
			Observation{Claim: sourceWith(pinned("uid-t"), says("Associated", "False", "HostLost"), hasLost), Place: place}, "False HostLost",
		},
		"still gone, and somebody says that it is to have another one": {
			Observation{Claim: sourceWith(pinned("uid-t"), says("Associated", "False", "HostLost")), Place: place}, "False RemoteConnecting",
		},
		"deleted, and marked as unhealthy": {
			Observation{Claim: sourceWith(deleted, pinned("uid-t"), unhealthy), Place: place, Target: targetOf(sourceWith())},
			change + ", False RemoteDeleting",
		},
		"deleted, and its target is marked as well": {
			Observation{Claim: sourceWith(deleted, pinned("uid-t"), unhealthy), Place: place, Target: targetOf(sourceWith(unhealthy))},
			remove + ", False RemoteDeleting",
		},
		"deleted before anything was created": {Observation{Claim: sourceWith(deleted), Problem: unreachable}, drop},
		"deleted after a move, nothing known": {
			Observation{Claim: sourceWith(deleted, annotated(metal3v1.OriginUIDAnnotation, "uid-old")), Problem: unreachable}, "False RemoteUnreachable",
		},
		"deleted":          {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: place, Target: targetOf(sourceWith())}, remove + ", False RemoteDeleting"},
		"deleted, waiting": {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), deleted)}, "False RemoteDeleting"},
		"deleted, left over": {
			Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: place, Copies: copiesOf(data, "x", "y")}, removed,
		},
		"deleted, all gone":        {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: place}, drop},
		"deleted, silence":         {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Problem: unreachable}, "False RemoteUnreachable"},
		"deleted, elsewhere":       {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: elsewhere}, "False RemoteIdentityChanged"},
		"deleted, somebody else's": {Observation{Claim: sourceWith(deleted, pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), func(c *metal3v1.HostClaim) { c.Labels = nil })}, drop},
		"abandoned": {
			Observation{Claim: sourceWith(deleted, pinned("uid-t"), annotated(metal3v1.AbandonAnnotation, "true")), Problem: unreachable}, drop + ", !RemoteAbandoned",
		},
		"another CRD has dropped what it asks for": {
			Observation{Claim: sourceWith(pinned("uid-t"), func(c *metal3v1.HostClaim) { c.Spec.Online = nil }), Place: place, Target: targetOf(sourceWith())},
			"False FieldsDropped, !FieldsDropped",
		},
		"of another kind before": {
			Observation{Claim: sourceWith(func(c *metal3v1.HostClaim) { c.Finalizers = []string{metal3v1.BareMetalFinalizer} }), Place: place},
			"False FieldsDropped, !FieldsDropped",
		},
		"another CRD has dropped where its target was, and that is not there": {
			Observation{Claim: sourceWith(pinned("uid-t"), statusDropped), Place: elsewhere}, "False RemoteIdentityChanged",
		},
		"another CRD has dropped where its target was, and it is gone with its host": {
			Observation{Claim: sourceWith(pinned("uid-t"), statusDropped, bound), Place: place}, loses + ", False HostLost, !HostLost",
		},
		"another CRD has dropped where its target was, which is there": {
			Observation{Claim: sourceWith(pinned("uid-t"), statusDropped), Place: place, Target: targetOf(sourceWith())}, "True RemoteSynced",
		},
		"another CRD has dropped where its target was, and it is deleted": {
			Observation{Claim: sourceWith(deleted, pinned("uid-t"), statusDropped), Place: place, Target: targetOf(sourceWith())},
			remove + ", False RemoteDeleting",
		},
		"deleted, not held": {Observation{Claim: sourceWith(deleted, func(c *metal3v1.HostClaim) { c.Finalizers = nil })}, ""},
	}
}

func TestDecide(t *testing.T) {
	for name, tc := range decideRows() {
		tc.o.RealKind = "baremetal"
		if got := toldOf(Decide(tc.o, now)); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
}

// What is decided on what was decided is the same: nothing is written any more.
func TestDecisionsComeToRest(t *testing.T) {
	for name, o := range map[string]Observation{
		"silence":  {Claim: sourceWith(), Problem: &Problem{"RemoteUnreachable", "silence"}},
		"in step":  {Claim: sourceWith(pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), says("Ready", "True", "Ready"))},
		"lost":     {Claim: sourceWith(pinned("uid-t"), says("Associated", "True", "x"), hasLost), Place: place},
		"leaving":  {Claim: sourceWith(deleted, pinned("uid-t")), Place: place, Target: targetOf(sourceWith(), deleted, says("Ready", "True", "Ready"))},
		"stranger": {Claim: sourceWith(), Place: place, Target: targetOf(sourceWith(), func(c *metal3v1.HostClaim) { c.Labels = nil })},
	} {
		o.RealKind = "baremetal"
		first := Decide(o, now)
		if o.Claim.Status = *first.Status; len(first.Actions) > 0 {
			t.Errorf("%s: it does something: %s", name, toldOf(first))
		}
		second := Decide(o, now.Add(time.Hour))
		if diff := cmp.Diff(first.Status, second.Status); diff != "" {
			t.Errorf("%s: it does not rest:\n%s", name, diff)
		}
		if len(second.Warnings) > 0 {
			t.Errorf("%s: it warns again", name)
		}
	}
}

// The last that was seen of a host stays when the other cluster falls silent, and says that it is old.
func TestWhatIsKnownStays(t *testing.T) {
	seen := metav1.NewTime(now.Add(-time.Hour))
	claim := sourceWith(pinned("uid-t"), says("Ready", "True", "Ready"), says("Associated", "True", "x"))
	claim.Status.Ready, claim.Status.BootMACAddress, claim.Status.LastUpdated = true, "52:54", &seen
	got := Decide(Observation{Claim: claim, RealKind: "baremetal", Problem: &Problem{"RemoteUnreachable", "silence"}}, now).Status
	after := claim.Status.DeepCopy()
	after.Conditions = append(after.Conditions, metav1.Condition{
		Type: "RemoteSynced", Status: "False", Reason: "RemoteUnreachable", Message: "silence", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now),
	}, metav1.Condition{
		Type: "AssociateBMH", Status: "False", Reason: "RemoteUnreachable", Message: "silence", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now),
	})
	if diff := cmp.Diff(after, got); diff != "" {
		t.Error(diff)
	}
}

// What a target says is a stranger's (attack R).
func TestHostileTarget(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	claim := sourceWith(pinned("uid-t"))
	target := targetOf(claim, says("Ready", "Sure", "not a reason"), says("Associated", "True", long), func(c *metal3v1.HostClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: "RemoteSynced", Status: "True", Reason: "Forged"})
		c.Status.Conditions[0].Message = long
		c.Status.BareMetalHost = &metal3v1.ObjectReference{Namespace: "infra", Name: "h"}
		c.Status.BootMACAddress = "x" + strings.Repeat("ä", 200) // Half a character is another text once it is stored.
		c.Status.Remote = &metal3v1.RemoteReference{Server: "https://evil"}
		for range 1000 {
			c.Status.NICs = append(c.Status.NICs, metal3v1.NIC{Name: long})
		}
		c.Finalizers, c.OwnerReferences = []string{"evil"}, []metav1.OwnerReference{{Name: "evil"}}
		c.Labels["cluster.x-k8s.io/cluster-name"] = "evil"
		c.Labels[metal3v1.InfoPrefix+"ok"], c.Labels[metal3v1.InfoPrefix+"bad"] = "yes", "not a label value!"
		for _, key := range []string{
			"hostclaims.metal3.io/abandon-remote", "hostclaims.metal3.io/origin-uid", "cluster.x-k8s.io/paused", metal3v1.InfoPrefix + "big",
			metal3v1.InfoPrefix + "not a name", "reboot.metal3.io",
		} {
			c.Annotations[key] = long
		}
		c.Annotations["hostclaims.metal3.io/copied"] = `{"labels":{"example.com/rack":"r1","cluster.x-k8s.io/cluster-name":"evil","a":"not a label value!"},
			"annotations":{"example.com/room":"blue","hostclaims.metal3.io/abandon-remote":"true","Cluster.x-k8s.io/paused":"","argocd.argoproj.io/tracking-id":"x"}}`
	})
	d := Decide(Observation{Claim: claim, RealKind: "baremetal", Place: place, Target: target}, now)
	var after *metal3v1.HostClaim
	for _, action := range d.Actions {
		if change, ok := action.(changeSource); ok {
			after = change.after
		}
	}
	want := claim.DeepCopy()
	want.Labels[metal3v1.InfoPrefix+"ok"], want.Labels["example.com/rack"] = "yes", "r1"
	want.Annotations["example.com/room"] = "blue"
	want.Annotations["hostclaims.metal3.io/copied"] = `{"labels":{"example.com/rack":"r1"},"annotations":{"example.com/room":"blue"}}`
	for _, all := range []map[string]string{after.Labels, after.Annotations} {
		maps.DeleteFunc(all, func(key, _ string) bool { return strings.Contains(key, " ") }) // It is in no patch.
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
	status := metal3v1.HostClaim{Status: *d.Status}
	ready := hostclaim.ConditionOf(&status, "Ready")
	switch {
	case status.Status.BareMetalHost != nil, status.Status.Remote.Server != place.Server, len(status.Status.NICs) > 64, len(status.Status.NICs[0].Name) > 256:
		t.Errorf("it believes %+v", status.Status)
	case !utf8.ValidString(status.Status.BootMACAddress):
		t.Error("it writes a status that it does not find again")
	case ready.Status != "Unknown", ready.Reason != "Unknown", len(ready.Message) > 1024:
		t.Errorf("it believes %s %s", ready.Status, ready.Reason)
	case hostclaim.ConditionOf(&status, "RemoteSynced").Reason != "RemoteSynced":
		t.Error("it believes what its target says of both")
	}
}

// The cache of sources does not have what was copied. It is taken off them all the same.
func TestCopiesThatACacheLeavesOutGo(t *testing.T) {
	source := sourceWith(pinned("uid-t"), hasCopies)
	d := Decide(Observation{Claim: source, RealKind: "baremetal", Place: place, Target: targetOf(sourceWith())}, now)
	change, ok := d.Actions[0].(changeSource)
	if !ok {
		t.Fatalf("got %v", d.Actions)
	}
	patch, err := client.MergeFrom(change.before).Data(change.after)
	want := `{"metadata":{"annotations":{"hostclaims.metal3.io/copied":null},"labels":{"example.com/rack":null}}}`
	if err != nil || string(patch) != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}

func TestRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*metal3v1.HostClaimSpec)
		want   string
	}{
		"credentials": {func(*metal3v1.HostClaimSpec) {}, "baremetal a/remote "},
		"an argument": {func(s *metal3v1.HostClaimSpec) { s.Credentials, s.Args["credentials"] = "", "other" }, "baremetal a/other "},
		"identityRef": {func(s *metal3v1.HostClaimSpec) {
			s.Credentials, s.IdentityRef = "", &metal3v1.IdentityReference{Name: "i", Context: "x"}
		}, "baremetal a/i x"},
		"all the same":     {func(s *metal3v1.HostClaimSpec) { s.Args["credentials"] = "remote" }, "baremetal a/remote "},
		"contradictions":   {func(s *metal3v1.HostClaimSpec) { s.Args["credentials"] = "other" }, "ConfigurationInvalid"},
		"none":             {func(s *metal3v1.HostClaimSpec) { s.Credentials = "" }, "ConfigurationInvalid"},
		"no kind":          {func(s *metal3v1.HostClaimSpec) { delete(s.Args, "real-kind") }, "ConfigurationInvalid"},
		"a ring":           {func(s *metal3v1.HostClaimSpec) { s.Args["real-kind"] = "remote" }, "ConfigurationInvalid"},
		"no name of kinds": {func(s *metal3v1.HostClaimSpec) { s.Args["real-kind"] = "a b" }, "ConfigurationInvalid"},
		"a path":           {func(s *metal3v1.HostClaimSpec) { s.Credentials = "../b/remote" }, "ConfigurationInvalid"},
		"a namespace":      {func(s *metal3v1.HostClaimSpec) { s.Credentials = "b/remote" }, "ConfigurationInvalid"},
	} {
		claim := sourceWith(func(c *metal3v1.HostClaim) { tc.change(&c.Spec) })
		kind, credentials, problem := requestOf(claim)
		got := fmt.Sprintf("%s %s %s", kind, credentials.Secret, credentials.Context)
		if problem != nil {
			got = problem.Reason
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// A copy of a source is not the source, and a source that has moved is.
func TestOrigins(t *testing.T) {
	first := taken(sourceWith())
	moved := first.DeepCopy()
	moved.UID = "uid-of-another-cluster"
	other := moved.DeepCopy()
	other.Name = "other"
	later := sourceWith(func(c *metal3v1.HostClaim) { c.UID = "uid-of-a-later-one" })
	if originOf(first) != originOf(moved) {
		t.Error("it is not found again after a move")
	}
	names := []string{originOf(first), originOf(other), originOf(later)}
	slices.Sort(names)
	if len(slices.Compact(names)) != 3 {
		t.Error("a copy, or a later one of the same name, has the target of the first")
	}
}

// What the other cluster says is quoted only if it is nothing but a UID.
func TestEarlierProblem(t *testing.T) {
	for uid, want := range map[string]string{
		"uid-1": "of this HostClaim to uid-1.", "": "of this HostClaim to the UID of that HostClaim.", "x\nrm -rf /": "of this HostClaim to the UID of that HostClaim.",
	} {
		earlier := &metav1.PartialObjectMetadata{}
		earlier.Annotations = map[string]string{metal3v1.OriginUIDAnnotation: uid}
		d := Decide(Observation{Claim: sourceWith(), RealKind: "baremetal", Place: place, Earlier: earlier}, now)
		is := hostclaim.ConditionOf(&metal3v1.HostClaim{Status: *d.Status}, "RemoteSynced")
		if len(d.Actions) > 0 || is.Reason != "RemoteConflict" || !strings.Contains(is.Message, want) {
			t.Errorf("%q: got %v, %+v", uid, d.Actions, is)
		}
	}
}
