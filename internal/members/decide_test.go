package members

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/archelon-io/archelon/test/builder"
)

var (
	now     = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	earlier = metav1.NewTime(now.Add(-time.Hour))
	policy  = Policy{Roles: []string{"tenant-dev", "tenant-view"}, Principals: []string{"okta_group://tenant-", "okta_user://"}}
	devs    = Member{Role: "tenant-dev", Group: "okta_group://tenant-a"}
	jane    = Member{Role: "tenant-view", User: "okta_user://jane"}
)

const both = `[{"role": "tenant-dev", "group": "okta_group://tenant-a"}, {"role": "tenant-view", "user": "okta_user://jane"}]`

// asking is a Cluster with an annotation.
func asking(annotation string, change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	cluster := builder.Cluster("team", "prod")
	cluster.UID = "1"
	cluster.Annotations = map[string]string{"archelon.io/members": annotation}
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

// saying gives a Cluster the condition.
func saying(status metav1.ConditionStatus, reason, message string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) {
		c.Status.Conditions = []metav1.Condition{{Type: "RancherMembers", Status: status, Reason: reason, Message: message, LastTransitionTime: earlier}}
	}
}

func bound(members ...Member) []managementv3.ClusterRoleTemplateBinding {
	var all []managementv3.ClusterRoleTemplateBinding
	for _, member := range members {
		all = append(all, *bindingFor(asking(""), "c-abcde", member))
	}
	return all
}

func TestDecide(t *testing.T) {
	t.Parallel()
	in := []string{"c-abcde"}
	name := func(m Member) string { return nameFor("1", m) }
	leaving, changed, elsewhere := bound(devs), bound(devs), bound(devs)
	leaving[0].DeletionTimestamp = &earlier
	changed[0].GroupPrincipalName = "okta_group://other"
	elsewhere[0].Namespace = "c-other"
	creates := func(m Member) string { return "create " + m.Role }
	for title, tc := range map[string]struct {
		reason string
		o      Observation
		// want are the actions by verb and role, else "status reason: message" of the condition, "none" for no
		// write, "gone" if it is removed.
		want  []string
		event string
		again time.Duration
		since metav1.Time
	}{
		"NoCluster": {reason: "there is nothing to do for", o: Observation{Ours: true, Bindings: bound(devs)}, want: []string{"none"}},
		"Foreign":   {reason: "another instance works on it", o: Observation{Cluster: asking(both), Rancher: in}, want: []string{"none"}},
		"Deleted": {
			reason: "the bindings go with the Rancher cluster",
			o:      Observation{Cluster: asking(both, func(c *clusterv1.Cluster) { c.DeletionTimestamp = &earlier }), Ours: true, Rancher: in}, want: []string{"none"},
		},
		"Paused": {
			reason: "nothing is done for one that is paused",
			o:      Observation{Cluster: asking(both, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), Ours: true, Rancher: in}, want: []string{"none"},
		},
		"NotAsked": {reason: "a Cluster that asks for nothing gets no condition", o: Observation{Cluster: asking(""), Ours: true, Rancher: in}, want: []string{"none"}},
		"Create": {
			reason: "what is missing is created, in the order of the annotation",
			o:      Observation{Cluster: asking(both), Ours: true, Rancher: in}, want: []string{creates(devs), creates(jane)},
		},
		"CreateTheOther": {
			reason: "one that went comes back, and the others are left alone",
			o:      Observation{Cluster: asking(both), Ours: true, Rancher: in, Bindings: bound(devs)}, want: []string{creates(jane)},
		},
		"Twice": {
			reason: "two entries that say the same are one binding",
			o:      Observation{Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}, {role: tenant-dev, group: "okta_group://tenant-a"}]`), Ours: true, Rancher: in},
			want:   []string{creates(devs)},
		},
		"Bound": {
			reason: "all are there", o: Observation{Cluster: asking(both), Ours: true, Rancher: in, Bindings: bound(devs, jane)},
			want: []string{"True MembersBound: "}, event: "Normal MembersBound", since: metav1.NewTime(now),
		},
		"Settled": {
			reason: "a settled Cluster costs no write",
			o:      Observation{Cluster: asking(both, saying("True", "MembersBound", "")), Ours: true, Rancher: in, Bindings: bound(devs, jane)}, want: []string{"none"},
		},
		"TakenOut": {
			reason: "who is not asked for any more loses the role",
			o: Observation{
				Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}]`, saying("True", "MembersBound", "")), Ours: true, Rancher: in, Bindings: bound(devs, jane),
			},
			want: []string{"delete tenant-view"},
		},
		"AnnotationGone": {
			reason: "without the annotation nobody has a role",
			o:      Observation{Cluster: asking("", saying("True", "MembersBound", "")), Ours: true, Rancher: in, Bindings: bound(devs)}, want: []string{"delete tenant-dev"},
		},
		"AllGone": {
			reason: "then the condition goes too",
			o:      Observation{Cluster: asking(" ", saying("True", "MembersBound", "")), Ours: true, Rancher: in}, want: []string{"gone"},
		},
		"NotAllowed": {
			reason: "an entry that the administrator does not allow is told by its number, and the others count",
			o: Observation{
				Cluster: asking(`[{role: cluster-owner, group: "okta_group://tenant-a"}, {role: tenant-dev, group: "okta_group://tenant-a"}, {role: tenant-dev, group: "okta_group://admins"}]`),
				Ours:    true, Rancher: in, Bindings: bound(devs),
			},
			want: []string{"False MemberNotAllowed: Member 1 has no role: its role template is not allowed. Use another one, or ask your administrator to allow it. " +
				"Member 3 has no role: its group or user is not allowed. Use another one, or ask your administrator to allow it"},
			event: "Warning MemberNotAllowed", since: metav1.NewTime(now),
		},
		"NoMoreAllowed": {
			reason: "what an administrator takes off the list is taken away",
			o: Observation{
				Cluster: asking(`[{role: cluster-owner, group: "okta_group://tenant-a"}]`), Ours: true, Rancher: in,
				Bindings: bound(Member{Role: "cluster-owner", Group: "okta_group://tenant-a"}),
			},
			want: []string{"delete cluster-owner"},
		},
		"Malformed": {
			reason: "a slip takes nobody's role away",
			o:      Observation{Cluster: asking("[", saying("True", "MembersBound", "")), Ours: true, Rancher: in, Bindings: bound(devs)},
			want: []string{"False InvalidMembers: Annotation archelon.io/members cannot be used: it must be a list in YAML or JSON, " +
				`for example [{"role": "cluster-member", "group": "okta_group://team-a"}]. Roles stay as they are until it is corrected`},
			event: "Warning InvalidMembers", since: metav1.NewTime(now),
		},
		"NoRancherCluster": {
			reason: "the import comes first", o: Observation{Cluster: asking(both), Ours: true},
			want: []string{"False WaitingForRancherCluster: Waiting for the import of this Cluster. See condition RancherImported"}, since: metav1.NewTime(now),
		},
		"TwoRancherClusters": {
			reason: "one of them is about to go", o: Observation{Cluster: asking(both), Ours: true, Rancher: []string{"c-abcde", "c-m-abcdefgh"}},
			want: []string{"False WaitingForRancherCluster: Waiting for the import of this Cluster. See condition RancherImported"}, since: metav1.NewTime(now),
		},
		"Pending": {
			reason: "Rancher has yet to create the namespace",
			o: Observation{
				Cluster: asking(both, saying("False", "InvalidMembers", "m")), Ours: true, Rancher: in, Bindings: bound(jane), Pending: map[string]bool{name(devs): true},
			},
			want:  []string{"False WaitingForRancherCluster: Waiting for Rancher to prepare the Rancher cluster, or to remove an earlier binding, usually less than a minute"},
			again: 5 * time.Second, since: earlier,
		},
		"Leaving": {
			reason: "its name is taken until it is gone",
			o:      Observation{Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}]`), Ours: true, Rancher: in, Bindings: leaving},
			want:   []string{"False WaitingForRancherCluster: Waiting for Rancher to prepare the Rancher cluster, or to remove an earlier binding, usually less than a minute"},
			again:  5 * time.Second, since: metav1.NewTime(now),
		},
		"Changed": {
			reason: "one of its name that is for somebody else is not what was asked for",
			o:      Observation{Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}]`), Ours: true, Rancher: in, Bindings: changed},
			want:   []string{"delete tenant-dev"},
		},
		"Elsewhere": {
			reason: "the Rancher cluster is another one now",
			o:      Observation{Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}]`), Ours: true, Rancher: in, Bindings: elsewhere},
			want:   []string{"delete tenant-dev", creates(devs)},
		},
		"Refused": {
			reason: "what Rancher refuses is told, before what an administrator does not allow, and tried again",
			o: Observation{
				Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}, {role: nope, user: "okta_user://jane"}]`), Ours: true, Rancher: in,
				Refused: map[string]string{name(devs): "no"},
			},
			want: []string{"False MemberRefused: Rancher refused role template tenant-dev: no"}, event: "Warning MemberRefused", again: time.Minute, since: metav1.NewTime(now),
		},
		"RefusedStill": {
			reason: "it is not told again",
			o: Observation{
				Cluster: asking(`[{role: tenant-dev, group: "okta_group://tenant-a"}]`, saying("False", "MemberRefused", "Rancher refused role template tenant-dev: no")),
				Ours:    true, Rancher: in, Refused: map[string]string{name(devs): "no"},
			},
			want: []string{"none"}, again: time.Hour,
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if tc.o.Cluster != nil {
				tc.o.Before = conditions.Get(tc.o.Cluster, "RancherMembers")
			}
			d := Decide(tc.o, policy, now)
			if diff := cmp.Diff(tc.want, does(d)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			event := ""
			if d.Event != nil {
				event = d.Event.Type + " " + d.Event.Reason
			}
			if event != tc.event || d.Again != tc.again {
				t.Errorf("%s: got Event %q and another look after %s, want %q and %s", tc.reason, event, d.Again, tc.event, tc.again)
			}
			if p, ok := d.Publish.(publish); ok && p.condition != nil && !p.condition.LastTransitionTime.Equal(&tc.since) {
				t.Errorf("%s: the transition was at %s, want %s", tc.reason, p.condition.LastTransitionTime, tc.since)
			}
		})
	}
}

// does says what a decision does.
func does(d Decision) []string {
	var all []string
	for _, action := range d.Actions {
		verb, _, _ := strings.Cut(action.String(), " ")
		words := strings.Fields(action.String())
		all = append(all, verb+" "+words[len(words)-1])
	}
	if p, ok := d.Publish.(publish); ok {
		text := "gone"
		if p.condition != nil {
			text = fmt.Sprintf("%s %s: %s", p.condition.Status, p.condition.Reason, p.condition.Message)
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return []string{"none"}
	}
	return all
}

func TestParse(t *testing.T) {
	t.Parallel()
	one := func(role, key, principal string) string {
		return fmt.Sprintf(`[{"role": %q, %q: %q}]`, role, key, principal)
	}
	many := "[" + strings.TrimSuffix(strings.Repeat(`{"role":"a","user":"a://b"},`, 51), ",") + "]"
	for name, tc := range map[string]struct{ reason, raw, flaw string }{
		"Empty":      {"nothing is asked for", " \n", ""},
		"Both":       {"JSON", both, ""},
		"YAML":       {"as people write it", "- role: tenant-dev\n  group: okta_group://tenant-a\n", ""},
		"Spaces":     {"LDAP has names with spaces", one("a", "user", "openldap_user://cn=Jane Doé,ou=people"), ""},
		"Map":        {"no list", `{"role": "a"}`, "it must be a list"},
		"Scalar":     {"no list", "cluster-owner", "it must be a list"},
		"Unknown":    {"a slip in a key must not be dropped", one("a", "grup", "a://b"), "it must be a list"},
		"Documents":  {"two documents", "[]\n---\n[]", "it must be a list"},
		"Anchors":    {"a few bytes must not become gigabytes", "- &a {role: a, user: 'a://b'}\n- *a", "anchors"},
		"Null":       {"an entry that says nothing", "[null]", "member 1: role must be"},
		"NoRole":     {"no role", one("", "user", "a://b"), "member 1: role must be"},
		"HostileRef": {"a role with a path", one("../x", "user", "a://b"), "member 1: role must be"},
		"NoOne":      {"nobody", `[{"role": "a"}]`, "either a group or a user"},
		"TwoOfThem":  {"two people", `[{"role": "a", "group": "a://b", "user": "a://b"}]`, "either a group or a user"},
		"Kubernetes": {"groups of Kubernetes are none of Rancher's", one("a", "group", "system:masters"), "must be a principal"},
		"NoProvider": {"no provider", one("a", "group", "://x"), "must be a principal"},
		"Newline":    {"what does not print", one("a", "group", "okta_group://a\nb"), "must be a principal"},
		"Direction":  {"what prints as something else", one("a", "group", "okta_group://a\u202eb"), "must be a principal"},
		"LongName":   {"a long principal", one("a", "group", "okta_group://"+strings.Repeat("a", 256)), "must be a principal"},
		"Many":       {"51 members", many, "at most 50 members"},
		"Large":      {"more than is read", strings.Repeat(" ", 9<<10), "at most 8 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(tc.raw)
			if (err == nil) != (tc.flaw == "") || err != nil && !strings.Contains(err.Error(), tc.flaw) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.flaw)
			}
		})
	}
}

func TestPolicyIsValidated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		policy Policy
		flaw   string
	}{
		"Good":         {"roles and principals", policy, ""},
		"NoRoles":      {"nothing could be asked for", Policy{Principals: policy.Principals}, "at least one"},
		"NoPrincipals": {"nobody could be asked for", Policy{Roles: policy.Roles}, "at least one"},
		"Role":         {"no name", Policy{Roles: []string{"*"}, Principals: policy.Principals}, `"*" must be the name`},
		"Everybody":    {"all providers at once", Policy{Roles: policy.Roles, Principals: []string{""}}, `"" must be what principals`},
		"NoProvider":   {"half a provider, and so all groups of Kubernetes", Policy{Roles: policy.Roles, Principals: []string{"system:"}}, "must be what principals"},
		"System":       {"Rancher itself", Policy{Roles: policy.Roles, Principals: []string{"system://"}}, "must be what principals"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.policy.Validate()
			if (err == nil) != (tc.flaw == "") || err != nil && !strings.Contains(err.Error(), tc.flaw) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.flaw)
			}
		})
	}
}

func TestNamesTellMembersApart(t *testing.T) {
	t.Parallel()
	seen := map[string]Member{}
	for _, member := range []Member{devs, jane, {Role: devs.Role, User: devs.Group}, {Role: "tenant-view", Group: devs.Group}} {
		name := nameFor("1", member)
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %v have one name", member, other)
		}
		seen[name] = member
		if nameFor("2", member) == name {
			t.Errorf("%v of another incarnation of the Cluster has the same name", member)
		}
	}
}

func TestRefusedAgain(t *testing.T) {
	t.Parallel()
	for title, tc := range map[string]struct {
		reason string
		before *metav1.Condition
		want   time.Duration
	}{
		"First":  {reason: "who asks may be about to be allowed to", want: time.Minute},
		"Other":  {reason: "how long it has waited says nothing of a refusal", before: &metav1.Condition{Reason: WaitingReason, LastTransitionTime: earlier}, want: time.Minute},
		"Soon":   {reason: "another event is no reason to hurry", before: &metav1.Condition{Reason: RefusedReason, LastTransitionTime: metav1.NewTime(now)}, want: time.Minute},
		"Double": {reason: "each time it is twice as long", before: &metav1.Condition{Reason: RefusedReason, LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Minute))}, want: 4 * time.Minute},
		"Days":   {reason: "it is not forgotten", before: &metav1.Condition{Reason: RefusedReason, LastTransitionTime: metav1.NewTime(now.Add(-48 * time.Hour))}, want: time.Hour},
	} {
		if got := refusedAgain(tc.before, now); got != tc.want {
			t.Errorf("%s: %s: %s, want %s", title, tc.reason, got, tc.want)
		}
	}
}
