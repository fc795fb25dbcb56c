package importer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

func TestOwnership(t *testing.T) {
	const uid types.UID = "u-1"
	rancher := map[string]*managementv3.Cluster{}
	for name, change := range map[string]func(*managementv3.Cluster){
		"c-alive": func(*managementv3.Cluster) {},
		"c-going": func(c *managementv3.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"c-older": func(c *managementv3.Cluster) {
			c.Labels = map[string]string{"archelon.io/capi-cluster-uid": string(uid)}
		},
		"c-other": func(c *managementv3.Cluster) { c.Labels = map[string]string{"archelon.io/capi-cluster-uid": "u-2"} },
	} {
		rancher[name] = &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(rancher[name])
	}
	tests := map[string]struct {
		reason string
		agent  evidence
		want   verdict
		asks   bool
	}{
		"Token": {
			reason: "a token of ours decides, whatever the agent says besides", agent: evidence{accepted: true, cluster: "c-alive", url: true, host: "old.example.com"},
			want: verdict{standing: agentOurs},
		},
		"Name": {
			reason: "our name decides too: the token may have run out, and server-url have changed",
			agent:  evidence{cluster: "c-mine", url: true, host: "old.example.com"}, want: verdict{standing: agentOurs},
		},
		"Gone":  {reason: "its cluster was deleted", agent: evidence{cluster: "c-gone", url: true, here: true}, want: verdict{standing: agentLeftBehind}, asks: true},
		"Going": {reason: "its cluster is being deleted", agent: evidence{cluster: "c-going", url: true, here: true}, want: verdict{standing: agentLeftBehind}, asks: true},
		"Older": {
			reason: "its cluster is an earlier one of this import", agent: evidence{cluster: "c-older", url: true, here: true},
			want: verdict{standing: agentLeftBehind}, asks: true,
		},
		"Alive": {
			reason: "its cluster lives", agent: evidence{cluster: "c-alive", url: true, here: true},
			want: verdict{standing: agentOfCluster, from: "c-alive"}, asks: true,
		},
		"Import": {
			reason: "its cluster is that of another import", agent: evidence{cluster: "c-other", url: true, here: true},
			want: verdict{standing: agentOfCluster, from: "c-other"}, asks: true,
		},
		"OldURL": {
			reason: "its cluster is of this Rancher, whose URL has changed since", agent: evidence{cluster: "c-alive", url: true, host: "old.example.com"},
			want: verdict{standing: agentOfCluster, from: "c-alive"}, asks: true,
		},
		"NeverConnected": {reason: "nobody is served by an agent that Rancher has not applied itself", agent: evidence{url: true, here: true}, want: verdict{standing: agentLeftBehind}},
		"OtherRancher": {
			reason: "it connects elsewhere", agent: evidence{url: true, host: "rancher.example.org"},
			want: verdict{standing: agentOfRancher, from: "rancher.example.org"},
		},
		"OtherRanchersCluster": {
			reason: "its cluster is unknown here, and it connects elsewhere", agent: evidence{cluster: "c-there", url: true, host: "rancher.example.org"},
			want: verdict{standing: agentOfRancher, from: "rancher.example.org"}, asks: true,
		},
		"StrangeURL": {reason: "its URL names no host that may be quoted", agent: evidence{url: true}, want: verdict{standing: agentOfRancher, from: "another-rancher"}},
		"Nothing":    {reason: "it says nothing", agent: evidence{}, want: verdict{standing: agentUnclaimed}},
		"NoURL":      {reason: "without a URL it serves nobody", agent: evidence{cluster: "c-there"}, want: verdict{standing: agentUnclaimed}, asks: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := false
			got, err := ownership(test.agent, "c-mine", uid, func(name string) (*managementv3.Cluster, error) {
				asked = true
				return rancher[name], nil
			})
			if err != nil || got != test.want || asked != test.asks {
				t.Errorf("%s: got %+v, asked Rancher %t, %v; want %+v, %t", test.reason, got, asked, err, test.want, test.asks)
			}
		})
	}
	broken := errors.New("etcd is down")
	_, err := ownership(evidence{cluster: "c-alive"}, "c-mine", uid, func(string) (*managementv3.Cluster, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("a v3 Cluster that cannot be read does not count as gone: %v", err)
	}
}

func TestRefusal(t *testing.T) {
	tests := map[string]struct {
		reason   string
		found    verdict
		approved string
		want     string
	}{
		"Ours":       {reason: "nobody is asked", found: verdict{standing: agentOurs}},
		"LeftBehind": {reason: "it serves nobody", found: verdict{standing: agentLeftBehind}},
		"Unclaimed":  {reason: "conflicts of fields are reported", found: verdict{standing: agentUnclaimed}},
		"Cluster":    {reason: "it serves another cluster", found: verdict{agentOfCluster, "c-alive"}, want: "AgentOfAnotherCluster"},
		"Approved":   {reason: "its owner wants it", found: verdict{agentOfCluster, "c-alive"}, approved: "c-alive"},
		"Older":      {reason: "the annotation was meant for another cluster", found: verdict{agentOfCluster, "c-alive"}, approved: "c-older", want: "AgentOfAnotherCluster"},
		"Rancher":    {reason: "it serves another Rancher", found: verdict{agentOfRancher, "rancher.example.org"}, want: "AgentOfAnotherRancher"},
		"Confused":   {reason: "a name is no host", found: verdict{agentOfRancher, "rancher.example.org"}, approved: "c-alive", want: "AgentOfAnotherRancher"},
		"Allowed":    {reason: "its owner wants it", found: verdict{agentOfRancher, "another-rancher"}, approved: "another-rancher"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := outcome.FromError(test.found.refusal(test.approved), "")
			if out.Reason != test.want {
				t.Errorf("%s: got reason %q, want %q", test.reason, out.Reason, test.want)
			}
			if test.want != "" && (!strings.Contains(out.Message, `annotation archelon.io/take-over-agent to "`+test.found.from+`" on this Cluster`) || out.Kind != outcome.KindPoll) {
				t.Errorf("the message does not say what to do, or it is not looked at again: %s %q", out.Kind, out.Message)
			}
		})
	}
}

// Two owners that ask for the same agent take it once each, and not for ever.
func TestTakeOverIsUsedUp(t *testing.T) {
	management := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-mine", UID: "m"}}
	b := newBench(t, instance.Claim{}, management)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Annotations: map[string]string{}}}
	run := func(connected bool, value string) string {
		t.Helper()
		if cluster.Annotations["archelon.io/take-over-agent"] = value; value == "" {
			delete(cluster.Annotations, "archelon.io/take-over-agent")
		}
		live := &managementv3.Cluster{}
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(management), live); err != nil {
			t.Fatal(err)
		}
		live.Status = withConditions(map[string]corev1.ConditionStatus{"Connected": conditionStatus(connected)}).Status
		o := seen(cluster).withManagement(live)
		if out := b.obey(t.Context(), o, (*deciding).noteTakeOver).Outcome; !out.IsDone() {
			t.Fatal(out)
		}
		return approvedTakeOver(cluster, o.managements["c-mine"].object)
	}
	for i, step := range []struct {
		reason    string
		connected bool
		value     string
		want      string
	}{
		{"nothing is asked for", true, "", ""},
		{"it is asked for", false, "c-alive", "c-alive"},
		{"and counts until it has led to a connection", false, "c-alive", "c-alive"},
		{"then it is used up", true, "c-alive", ""},
		{"also after the connection is lost", false, "c-alive", ""},
		{"another one counts", false, "c-other", "c-other"},
		{"and the first one does not again", false, "c-alive", ""},
		{"it was removed", false, "", ""},
		{"and set again", false, "c-alive", "c-alive"},
	} {
		if got := run(step.connected, step.value); got != step.want {
			t.Errorf("step %d: %s: got %q, want %q", i, step.reason, got, step.want)
		}
	}
}

func TestReplacementsArePaced(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key, other := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	r := newReplacements()
	done := 0
	for range 24 * 60 {
		if r.check(key, now) == nil {
			r.note(key, now)
			done++
		}
		now = now.Add(time.Minute)
	}
	if limit := replacementBurst + 24*12; done > limit || done < limit-1 {
		t.Errorf("an agent that others install all the time was replaced %d times in a day, want %d", done, limit)
	}
	if out := outcome.FromError(r.check(key, now), ""); out.Reason != "" && out.Reason != "AgentContested" {
		t.Errorf("got %s", out.Reason)
	}
	if err := r.check(other, now); err != nil {
		t.Errorf("another cluster waits as well: %v", err)
	}
	r.forget(key)
	if err := r.check(key, now); err != nil {
		t.Errorf("a cluster of the same name inherits the pause: %v", err)
	}
}

func TestContests(t *testing.T) {
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	c := newContests()
	c.note(a, verdict{agentOfCluster, "c-x"})
	c.note(a, verdict{agentOfCluster, "c-x"})
	c.note(b, verdict{agentOfCluster, "c-x"})
	if got := c.of("c-x"); !slices.Equal(got, []types.NamespacedName{a, b}) {
		t.Errorf("who waits: %v", got)
	}
	c.note(a, verdict{agentOfCluster, "c-y"})
	c.note(b, verdict{standing: agentOurs})
	if len(c.of("c-x")) != 0 || !slices.Equal(c.of("c-y"), []types.NamespacedName{a}) {
		t.Errorf("who waits: %v", c.waiting)
	}
	c.forget(a)
	if len(c.owner)+len(c.waiting) != 0 {
		t.Errorf("something is left: %v, %v", c.owner, c.waiting)
	}
}

// An import that waits for another Rancher cluster is looked at again when that goes, whatever its pause.
func TestClustersWaitingFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reconciler{jobs: startJobs(t, 1), memory: newMemory()}
		looks := 0
		look := func() bool {
			_, ended := r.jobs.Do(jobKey, "input", func(context.Context) outcome.Outcome {
				looks++
				r.contests.note(jobKey, verdict{agentOfCluster, "c-x"})
				return outcome.Poll("AgentOfAnotherCluster", "", time.Hour)
			})
			return ended
		}
		look()
		settle(t, r.jobs)
		if !look() || looks != 1 {
			t.Fatalf("%d looks, want one and its result", looks)
		}
		object := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-y"}}
		if got := r.clustersWaitingFor(t.Context(), object); len(got) != 0 {
			t.Errorf("%v waits for a cluster that it has nothing to do with", got)
		}
		object.Name = "c-x"
		if got := r.clustersWaitingFor(t.Context(), object); len(got) != 1 || got[0].NamespacedName != jobKey {
			t.Errorf("who waits: %v", got)
		}
		if look() {
			t.Error("the pause goes on")
		}
		settle(t, r.jobs)
	})
	stays, goes := &managementv3.Cluster{}, &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
	admits := going()
	for name, got := range map[string]bool{
		"the beginning of its deletion": admits.Update(event.UpdateEvent{ObjectOld: stays, ObjectNew: goes}),
		"its end":                       admits.Delete(event.DeleteEvent{Object: goes}),
		"no other change":               !admits.Update(event.UpdateEvent{ObjectOld: stays, ObjectNew: stays}),
		"no progress of a deletion":     !admits.Update(event.UpdateEvent{ObjectOld: goes, ObjectNew: goes}),
		"nothing new":                   !admits.Create(event.CreateEvent{Object: stays}),
	} {
		if !got {
			t.Errorf("who waits is not woken by %s", name)
		}
	}
}
