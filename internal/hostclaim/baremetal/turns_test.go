package baremetal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/simulation"
)

// newCrowd returns a fleet without hosts, in which namespaces have some claims that wait.
func newCrowd(t *testing.T, claims map[string]int) *fleet {
	t.Helper()
	f := &fleet{t: t, server: simulation.NewServer(simScheme()), clock: clocktesting.NewFakePassiveClock(time.Now())}
	for namespace, count := range claims {
		f.server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for i := range count {
			f.server.Put(simClaim(namespace, fmt.Sprintf("c-%d", i)))
		}
	}
	f.start()
	f.settle()
	return f
}

// free has hosts be free one after the other, and returns the namespaces that get them.
func (f *fleet) free(prefix, optIn string, count int) string {
	f.t.Helper()
	var got []string
	for i := range count {
		host := simHost(fmt.Sprintf("%s-%d", prefix, i), optIn)
		f.server.Put(host)
		f.settle()
		is, _ := f.server.Get(f.server.KeyOf(host)).(*bmov1.BareMetalHost)
		key, _, _ := consumerOf(is)
		got = append(got, key.Namespace)
	}
	return strings.Join(got, " ")
}

// However many claims a namespace has, and however early it asks, others get hosts in turn with it.
func TestFreedHostsGoRound(t *testing.T) {
	f := newCrowd(t, map[string]int{"a": 200, "b": 3, "refused": 5})
	if got := f.free("h", "a,b", 8); strings.Count(got[:6*len("a ")], "b") != 3 || !strings.HasSuffix(got, " a a") {
		t.Errorf("freed hosts went to %s", got)
	}
	if got := f.free("i", "*", 2); !strings.Contains(got, "refused") {
		t.Errorf("freed hosts went to %s", got)
	}
}

// A namespace that begins to wait makes up for nothing: the others go on in turn with it.
func TestNobodyCatchesUp(t *testing.T) {
	f := newCrowd(t, map[string]int{"a": 50, "b": 50})
	f.free("h", "*", 10)
	for i := range 50 {
		f.server.Put(simClaim("c", fmt.Sprintf("c-%d", i)))
	}
	f.settle()
	got := f.free("i", "*", 9)
	for _, namespace := range []string{"a", "b", "c"} {
		if count := strings.Count(got, namespace); count < 2 || count > 4 {
			t.Errorf("freed hosts went to %s", got)
		}
	}
}

func TestLeavesHostsToOthers(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	selector := simClaim("a", "c").Spec.HostSelector
	rival := Rival{hostclaim.Requester{Name: "b"}, selector}
	elsewhere := rival
	elsewhere.Selector.InNamespace = "other"
	h := types.NamespacedName{Namespace: "infra", Name: "h"}
	since := func(ago time.Duration) map[types.NamespacedName]time.Time {
		return map[types.NamespacedName]time.Time{h: now.Add(-ago)}
	}
	for name, tc := range map[string]struct {
		hosts   []*bmov1.BareMetalHost
		rivals  []Rival
		offered map[types.NamespacedName]time.Time
		want    string
		after   time.Duration
	}{
		"nobody else waits":                 {list(simHost("h", "*")), nil, nil, "takes infra/h", 0},
		"another one goes first":            {list(simHost("h", "*")), []Rival{rival}, nil, "leaves infra/h", patience},
		"another one goes first for a time": {list(simHost("h", "*")), []Rival{rival}, since(patience / 2), "leaves infra/h", patience / 2},
		"another one does not take it":      {list(simHost("h", "*")), []Rival{rival}, since(patience), "takes infra/h", 0},
		"another one must not have it":      {list(simHost("h", "a")), []Rival{rival}, nil, "takes infra/h", 0},
		"another one wants others":          {list(simHost("h", "*")), []Rival{elsewhere}, nil, "takes infra/h", 0},
		"there is one that is left to nobody": {
			list(simHost("h", "*"), simHost("own", "a")), []Rival{rival}, nil, "takes infra/own", 0,
		},
		"nothing is free": {nil, []Rival{rival}, nil, "waits", 0},
	} {
		o := Observation{
			Claim: claimWith(nil), Candidates: tc.hosts, Rivals: tc.rivals, Offered: tc.offered, Requester: hostclaim.Requester{Name: "a"},
		}
		d := Decide(o, now)
		got := "waits"
		switch {
		case d.Takes != nil && !d.Waits && d.Status.PendingHost.Name == d.Takes.Name:
			got = "takes " + d.Takes.String()
		case len(d.Left) > 0 && d.Waits && d.Status == nil && len(d.Actions) == 0:
			got = "leaves " + d.Left[0].String()
		}
		if got != tc.want || d.After != tc.after {
			t.Errorf("%s: it %s, and waits for %s", name, got, d.After)
		}
	}
}

// What is remembered goes with the claims, and does not grow with them.
func TestTurnsForget(t *testing.T) {
	var turns turns
	now := time.Now()
	key := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)} }
	for i := range 1000 {
		turns.note(key(i), Observation{Claim: claimWith(nil)}, Decision{Waits: true}, now)
	}
	if len(turns.wants["a"]) != 1 || len(turns.ahead("b")) != 0 {
		t.Errorf("got %v", turns.wants)
	}
	turns.got["b"] = 1
	if rivals := turns.ahead("b"); len(rivals) != 1 {
		t.Errorf("got %v", rivals)
	}
	for i := range 1000 {
		turns.note(key(i), Observation{}, Decision{}, now)
	}
	if len(turns.wants)+len(turns.asks)+len(turns.taking) > 0 {
		t.Errorf("got %v %v %v", turns.wants, turns.asks, turns.taking)
	}
	various := func(i int) Observation {
		return Observation{Claim: claimWith(func(c *metal3v1.HostClaim) { c.Spec.HostSelector.InNamespace = fmt.Sprint(i) })}
	}
	for i := range 1000 {
		turns.note(key(i), various(i), Decision{Waits: true}, now)
	}
	turns.got["b"] = 1
	if rivals := turns.ahead("b"); len(rivals) != maxWants {
		t.Errorf("%d are looked at", len(rivals))
	}
}
