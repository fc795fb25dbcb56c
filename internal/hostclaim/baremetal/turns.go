package baremetal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
)

// patience is how long a host is left to the namespaces whose turn it is. They may be unable to take it.
const patience = 2 * time.Second

// Rival is what claims of another namespace wait for which got fewer hosts.
type Rival struct {
	Requester hostclaim.Requester
	Selector  metal3v1.HostSelector
}

// due returns until when a host is left to rivals, the zero time if it is not.
func (o Observation) due(host *bmov1.BareMetalHost, now time.Time) time.Time {
	if since, ok := o.Taken[keyOf(host)]; ok && since.Add(patience).After(now) {
		return since.Add(patience)
	}
	until := now.Add(patience)
	if since, ok := o.Offered[keyOf(host)]; ok {
		until = since.Add(patience)
	}
	if !until.After(now) {
		return time.Time{}
	}
	for _, rival := range o.Rivals {
		if hostclaim.MayHave(host, rival.Selector, o.Policies, rival.Requester) {
			return until
		}
	}
	return time.Time{}
}

// fairly chooses a host that is not left to rivals. If all that fit are, it returns these, and until when.
func fairly(o Observation, now time.Time) (answer hostclaim.Answer, left []types.NamespacedName, until time.Time) {
	q := o.question()
	answer = hostclaim.Select(q)
	if answer.Host == nil || o.due(answer.Host, now).IsZero() {
		return answer, nil, until
	}
	q.Hosts = slices.DeleteFunc(slices.Clone(q.Hosts), func(host *bmov1.BareMetalHost) bool {
		end := o.due(host, now)
		if end.IsZero() {
			return false
		}
		if left = append(left, keyOf(host)); until.IsZero() || end.Before(until) {
			until = end
		}
		return true
	})
	return hostclaim.Select(q), left, until
}

// maxWants is how many different selectors of one namespace are looked at.
const maxWants = 16

// offeredFor is how long it is remembered that a host was left to others and nobody took it.
const offeredFor = time.Minute

// turns remembers which namespaces wait, and how many hosts each of them got while others waited. How long it takes
// depends on namespaces, not on how many claims they have. It is for good manners: only the order depends on it. The
// zero value is ready for use.
type turns struct {
	mu sync.Mutex
	// wants are what the claims of a namespace that wait ask for, with how many ask for it, and asks that of each claim.
	wants map[string]map[digest]*want
	asks  map[types.NamespacedName]digest
	// got counts hosts, and taking are claims that count and have yet to get theirs.
	got    map[string]int
	taking map[types.NamespacedName]bool
	// offered is since when hosts are left to others, and taken since when a claim is about to take one: the cache does
	// not say so yet.
	offered map[types.NamespacedName]time.Time
	taken   map[types.NamespacedName]time.Time
	// takes is which host that is, by claim.
	takes map[types.NamespacedName]types.NamespacedName
}

// digest stands for a selector, which may have some KiB.
type digest [sha256.Size]byte

type want struct {
	selector metal3v1.HostSelector
	claims   int
}

// note takes note of what was decided about a claim.
func (t *turns) note(key types.NamespacedName, o Observation, d Decision, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asks == nil {
		t.wants, t.asks = map[string]map[digest]*want{}, map[types.NamespacedName]digest{}
		t.got, t.taking = map[string]int{}, map[types.NamespacedName]bool{}
		t.takes = map[types.NamespacedName]types.NamespacedName{}
		t.offered, t.taken = map[types.NamespacedName]time.Time{}, map[types.NamespacedName]time.Time{}
	}
	t.leave(key)
	if host, ok := t.takes[key]; ok {
		delete(t.takes, key)
		delete(t.taken, host)
	}
	switch {
	case d.Waits:
		if t.taking[key] {
			t.got[key.Namespace]--
		}
		delete(t.taking, key)
		t.wait(key, o.Claim.Spec.HostSelector)
	case d.Takes != nil:
		delete(t.offered, *d.Takes)
		t.takes[key], t.taken[*d.Takes] = *d.Takes, now
		if !t.taking[key] && len(t.wants) > 0 {
			t.got[key.Namespace]++
			t.taking[key] = true
		}
	case o.Claim == nil || len(o.owned()) > 0:
		delete(t.taking, key)
	}
	if len(t.wants) == 0 {
		clear(t.got)
		clear(t.taking)
	}
	if len(d.Left) > 0 {
		maps.DeleteFunc(t.offered, func(_ types.NamespacedName, since time.Time) bool { return now.Sub(since) > offeredFor })
	}
	for _, host := range d.Left {
		if _, ok := t.offered[host]; !ok {
			t.offered[host] = now
		}
	}
}

// wait has a claim be one that waits. A namespace that begins to wait has no more and no less than others had before.
func (t *turns) wait(key types.NamespacedName, selector metal3v1.HostSelector) {
	of := t.wants[key.Namespace]
	if of == nil {
		least := -1
		for namespace := range t.wants {
			if got := t.got[namespace]; least < 0 || got < least {
				least = got
			}
		}
		t.got[key.Namespace] = max(t.got[key.Namespace], least)
		of = map[digest]*want{}
		t.wants[key.Namespace] = of
	}
	name := digest(sha256.Sum256(fmt.Appendf(nil, "%+v", selector))) // Maps are in the order of their keys there.
	if of[name] == nil {
		of[name] = &want{selector: selector}
	}
	of[name].claims++
	t.asks[key] = name
}

// leave has a claim not wait any more.
func (t *turns) leave(key types.NamespacedName) {
	name, waits := t.asks[key]
	if !waits {
		return
	}
	delete(t.asks, key)
	of := t.wants[key.Namespace]
	if of[name].claims--; of[name].claims == 0 {
		delete(of, name)
	}
	if len(of) == 0 {
		delete(t.wants, key.Namespace)
	}
}

// ahead returns what those namespaces wait for that got fewer hosts than this one.
func (t *turns) ahead(namespace string) []Rival {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rivals []Rival
	for other, wants := range t.wants {
		if other == namespace || t.got[other] >= t.got[namespace] {
			continue
		}
		looked := 0
		for _, each := range wants {
			if looked++; looked > maxWants {
				break
			}
			rivals = append(rivals, Rival{hostclaim.Requester{Name: other}, each.selector})
		}
	}
	return rivals
}

// since returns since when some hosts are left to others, and since when other claims than one are about to take them.
func (t *turns) since(key types.NamespacedName, hosts []*bmov1.BareMetalHost) (offered, taken map[types.NamespacedName]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	offered, taken = map[types.NamespacedName]time.Time{}, map[types.NamespacedName]time.Time{}
	for _, host := range hosts {
		if since, ok := t.offered[keyOf(host)]; ok {
			offered[keyOf(host)] = since
		}
		if since, ok := t.taken[keyOf(host)]; ok && t.takes[key] != keyOf(host) {
			taken[keyOf(host)] = since
		}
	}
	return offered, taken
}

// observeRivals reads who goes first, if there is a host to be had.
func (r *Reconciler) observeRivals(ctx context.Context, o *Observation) error {
	if len(o.Candidates) == 0 {
		return nil
	}
	o.Rivals = r.turns.ahead(o.Claim.Namespace)
	for i := range o.Rivals {
		rival := &o.Rivals[i].Requester
		var err error
		if rival.Labels, err = r.Read.labels(ctx, rival.Name); err != nil {
			return err
		}
	}
	o.Offered, o.Taken = r.turns.since(client.ObjectKeyFromObject(o.Claim), o.Candidates)
	return nil
}
