package importer

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// waiting plays clusters that wait for Rancher, each of which asks again when it was told to.
type waiting struct {
	patience *patience
	now      time.Time
	due      map[types.NamespacedName]time.Time
	// looks are when each was looked at.
	looks map[types.NamespacedName][]time.Time
}

func newWaiting() *waiting {
	return &waiting{
		patience: newPatience(30 * time.Second), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		due: map[types.NamespacedName]time.Time{}, looks: map[types.NamespacedName][]time.Time{},
	}
}

// installed has an agent wait from now on.
func (w *waiting) installed(name string) types.NamespacedName {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	w.patience.begin(key, w.now)
	w.due[key] = w.now.Add(30 * time.Second)
	return key
}

// pass has time pass, and returns how many looks were made in the second with most of them.
func (w *waiting) pass(seconds int) (most int) {
	for range seconds {
		w.now = w.now.Add(time.Second)
		looks := 0
		for key, due := range w.due {
			if w.now.Before(due) {
				continue
			}
			if left := w.patience.postpone(key, w.now); left > 0 {
				w.due[key] = w.now.Add(left)
				continue
			}
			looks++
			w.looks[key] = append(w.looks[key], w.now)
			w.patience.looks(key)
			w.due[key] = w.now.Add(min(30*time.Second<<min(len(w.looks[key]), 4), 5*time.Minute))
		}
		most = max(most, looks)
	}
	return most
}

func (w *waiting) total() (total int) {
	for _, looks := range w.looks {
		total += len(looks)
	}
	return total
}

// However many wait, whether some come through or none, and for however long.
func TestLooksAreAtMostTwoASecond(t *testing.T) {
	for _, clusters := range []int{300, 3000, 10000} {
		for name, each := range map[string]int{"stands still": 0, "moves": clusters / 1200} {
			w := newWaiting()
			var keys []types.NamespacedName
			for i := range clusters {
				keys = append(keys, w.installed(strconv.Itoa(i)))
			}
			const minutes = 20
			most := 0
			for range minutes * 60 {
				most = max(most, w.pass(1))
				for range min(each, len(keys)) {
					w.patience.arrive(keys[0], w.now)
					delete(w.due, keys[0])
					keys = keys[1:]
				}
			}
			if most > 2 {
				t.Errorf("%d that wait, which %s: %d looks in a second", clusters, name, most)
			}
			bound := 2 * minutes * 60 * min(lookMany, clusters) / clusters
			if total := w.total(); total > bound || total == 0 {
				t.Errorf("%d that wait, which %s: %d looks in %d minutes, want some and at most %d", clusters, name, total, minutes, bound)
			}
		}
	}
}

// Thousands whose agents never connect are one thing, a new one whose agent does not is another.
func TestANewOneIsLookedAtBesideThousandsThatNeverConnect(t *testing.T) {
	w := newWaiting()
	for i := range 3000 {
		w.installed(strconv.Itoa(i))
	}
	w.pass(4 * 60 * 60)
	if len(w.looks) != 3000 {
		t.Fatalf("%d were looked at, want all", len(w.looks))
	}
	began := w.now
	key := w.installed("new")
	w.pass(60)
	if looks := w.looks[key]; len(looks) == 0 || looks[0].Sub(began) > 35*time.Second {
		t.Errorf("it was looked at %v, want after half a minute", looks)
	}
}

// A turn in a backlog that has gone is none to wait for.
func TestABacklogThatHasGoneHoldsUpNobody(t *testing.T) {
	w := newWaiting()
	var keys []types.NamespacedName
	for i := range 3000 {
		keys = append(keys, w.installed(strconv.Itoa(i)))
	}
	w.pass(10 * 60)
	for _, key := range keys[20:] {
		w.patience.forget(key)
		delete(w.due, key)
	}
	clear(w.looks)
	w.pass(6 * 60)
	for _, key := range keys[:20] {
		if len(w.looks[key]) == 0 {
			t.Errorf("%s is not looked at for six minutes after the others have gone", key)
		}
		w.patience.forget(key)
	}
	if left := leftOf(w.patience); left != 0 {
		t.Errorf("%d things are remembered of clusters that wait no more", left)
	}
}

func leftOf(p *patience) int {
	left := p.young.Len() + len(p.places) + len(p.since) + len(p.looked)
	for _, half := range []lane{p.budget.first, p.budget.again} {
		left += len(half.turns) + len(half.of)
	}
	return left
}

// After a restart all are new to the process. Those whose agents were there already were looked at when that was found.
func TestANewOneIsLookedAtAfterARestart(t *testing.T) {
	w := newWaiting()
	for i := range 3000 {
		w.patience.looks(w.installed(strconv.Itoa(i)))
	}
	w.pass(10)
	began := w.now
	key := w.installed("new")
	w.pass(6 * 60)
	if looks := w.looks[key]; len(looks) == 0 || looks[0].Sub(began) > patienceMax+5*time.Second {
		t.Errorf("it was looked at %v, want after %s", looks, patienceMax)
	}
}

// A tenant's clusters that were paused while they had turns ask for no look any more.
func TestWhoDoesNotComeAgainHoldsUpNobody(t *testing.T) {
	w := newWaiting()
	for i := range 3000 {
		w.installed(strconv.Itoa(i))
	}
	w.pass(6 * 60)
	clear(w.due) // They are paused.
	w.pass(7 * 60)
	began := w.now
	key := w.installed("new")
	w.pass(60)
	if looks := w.looks[key]; len(looks) == 0 || looks[0].Sub(began) > 35*time.Second {
		t.Errorf("it was looked at %v, want after half a minute", looks)
	}
}

// A namespace with thousands that do not connect delays one in another namespace by a few looks.
func TestNamespacesShareTheLooks(t *testing.T) {
	w := newWaiting()
	for i := range 900 {
		w.installed(strconv.Itoa(i))
	}
	w.pass(10 * 60) // None counts as lately begun any more.
	key := types.NamespacedName{Namespace: "other", Name: "new"}
	began := w.now
	w.patience.begin(key, began)
	w.due[key] = began.Add(30 * time.Second)
	w.pass(60)
	if looks := w.looks[key]; len(looks) == 0 || looks[0].Sub(began) > 40*time.Second {
		t.Errorf("it was looked at %v, want after half a minute", looks)
	}
}

// Those whose time has come are looked at in the order in which they came then, whoever is faster in a second. One that
// does not come holds them up for a moment.
func TestThoseWhoseTimeHasComeStandInLine(t *testing.T) { //nolint:gocognit // one story
	for name, tc := range map[string]struct {
		gone string
		want []string
	}{
		"AllCome":  {want: []string{"a/1", "a/2", "b/1", "a/3", "a/4"}},
		"OneStays": {gone: "a/2", want: []string{"a/1", "b/1", "a/3", "a/4"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, now := newBudget(), time.Now()
			b.again.free = now.Add(time.Second)
			var looked []string
			come := []string{"a/1", "a/2", "a/3", "a/4", "b/1"}
			for second := range 12 {
				now = now.Add(time.Second)
				for _, who := range come {
					namespace, cluster, _ := strings.Cut(who, "/")
					if b.wait(types.NamespacedName{Namespace: namespace, Name: cluster}, true, now) == 0 {
						looked = append(looked, who)
					}
				}
				if second == 0 {
					slices.Reverse(come)
				}
				come = slices.DeleteFunc(come, func(who string) bool { return slices.Contains(looked, who) || who == tc.gone })
			}
			if diff := cmp.Diff(tc.want, looked); diff != "" {
				t.Errorf("looked at (-want +got):\n%s", diff)
			}
		})
	}
}
