package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

const day = 24 * time.Hour

var testNames = []string{"hook", "hook.system", "hook.system.svc", "hook.system.svc.cluster.local"}

// world is a Secret and a caBundle over time, with everything that was ever in them.
type world struct {
	t      *testing.T
	clock  *clocktesting.FakePassiveClock
	secret map[string][]byte
	bundle []byte
	since  map[fingerprint]time.Time

	// served are the certificates that a replica may have seen, and serve until they end.
	served []*tls.Certificate
	// changed is when the bundle changed, and before is what it was: API servers may still have it for a while.
	changed time.Time
	before  []byte
	// lenient is set where somebody has broken something, until it is repaired.
	lenient bool

	authorities, certificates, writes int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0)), since: map[fingerprint]time.Time{}}
}

// step does what one reconcile does, and returns when the next one is due.
func (w *world) step() time.Time {
	w.t.Helper()
	now := w.clock.Now()
	observe(w.since, [][]byte{w.bundle}, now)
	p, err := decide(situation{secret: w.secret, bundles: [][]byte{w.bundle}, since: w.since, names: testNames, now: now})
	if err != nil {
		w.t.Fatal(err)
	}
	if p.authority {
		w.authorities++
	}
	if p.certificate {
		w.certificates++
	}
	if !maps.EqualFunc(w.secret, p.secret, bytes.Equal) {
		w.writes++
		w.secret = p.secret
		if pair := servable(w.secret, testNames, now); pair != nil {
			w.served = append(w.served, pair)
		}
		w.check("after the Secret was written")
	}
	if !bytes.Equal(w.bundle, p.bundle) {
		w.writes++
		if w.before, w.changed = w.bundle, now; w.lenient || !w.trusting() {
			w.before = nil
		}
		w.bundle = p.bundle
		w.check("after the CA was published")
	}
	observe(w.since, [][]byte{w.bundle}, now)
	if !p.next.After(now) {
		w.t.Fatalf("the next look is at %s, and it is %s", p.next, now)
	}
	return p.next
}

// check asserts that no client is turned away: whatever a replica may still serve is trusted by what is published, and what is in the Secret
// also by what was published a moment ago.
func (w *world) check(when string) {
	w.t.Helper()
	now := w.clock.Now()
	if w.lenient || !w.trusting() {
		return // Nobody is turned away who was not before.
	}
	for _, pair := range w.served {
		if valid(pair.Leaf, now) && !verifies(pair, parseAuthorities(w.bundle), testNames, now) {
			w.t.Fatalf("%s, %s: a certificate of %s that a replica may serve is not trusted", now, when, pair.Leaf.NotBefore)
		}
	}
	pair := servable(w.secret, testNames, now)
	if pair != nil && len(parseAuthorities(w.before)) > 0 && now.Sub(w.changed) < settle && !verifies(pair, parseAuthorities(w.before), testNames, now) {
		w.t.Fatalf("%s, %s: an API server that has not seen the new CA does not trust what is served", now, when)
	}
}

// trusting reports whether any certificate at all would be accepted.
func (w *world) trusting() bool {
	return slices.ContainsFunc(parseAuthorities(w.bundle), func(c *x509.Certificate) bool { return valid(c, w.clock.Now()) })
}

// settled asserts that there is nothing more to do now.
func (w *world) settled() {
	w.t.Helper()
	before := w.writes
	w.step()
	if w.writes != before {
		w.t.Fatal("a settled state was written again")
	}
	if servable(w.secret, testNames, w.clock.Now()) == nil || !bytes.Equal(w.secret[caCert], w.bundle) {
		w.t.Fatal("what is served is not what is trusted")
	}
}

// until takes steps at the times that they ask for, and at none other.
func (w *world) until(end time.Time) {
	w.t.Helper()
	for next := w.step(); !next.After(end); next = w.step() {
		w.clock.SetTime(next)
	}
	w.clock.SetTime(end)
	w.check("in the end")
}

func (w *world) leaf() *x509.Certificate {
	w.t.Helper()
	pair := servable(w.secret, testNames, w.clock.Now())
	if pair == nil {
		w.t.Fatal("the Secret holds no certificate that can be served")
	}
	return pair.Leaf
}

func TestFirstIssue(t *testing.T) {
	w := newWorld(t)
	next := w.step()
	w.settled()
	now := w.clock.Now()
	leaf := w.leaf()
	if diff := cmp.Diff(testNames, leaf.DNSNames); diff != "" {
		t.Errorf("the names of the Service: (-want +got)\n%s", diff)
	}
	if got := leaf.NotAfter.Sub(now); got != 90*day {
		t.Errorf("the certificate lasts %s, want 90 days", got)
	}
	if early, late := now.Add(59*day), now.Add(61*day); next.Before(early) || next.After(late) {
		t.Errorf("the next look is at %s, want after two thirds of 90 days", next)
	}
	if w.authorities != 1 || w.certificates != 1 || w.writes != 2 {
		t.Errorf("got %d CAs, %d certificates and %d writes, want 1, 1 and 2", w.authorities, w.certificates, w.writes)
	}
}

func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.step()
	first, bundle := w.leaf(), w.bundle
	w.until(w.clock.Now().Add(59 * day))
	if !w.leaf().Equal(first) {
		t.Fatal("it was renewed before two thirds of its life were over")
	}
	w.until(w.clock.Now().Add(2 * day))
	if w.leaf().Equal(first) || !bytes.Equal(w.bundle, bundle) {
		t.Fatal("want a new certificate from the same CA")
	}
	w.settled()
}

// Ten years, in which every replica may be as late as a certificate lasts.
func TestYears(t *testing.T) {
	for name, restart := range map[string]bool{"OneLeader": false, "ANewLeaderForEachStep": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			end := w.clock.Now().Add(3650 * day)
			steps := 0
			for next := w.step(); next.Before(end); next = w.step() {
				w.clock.SetTime(next)
				if steps++; restart && steps%2 == 0 {
					clear(w.since)
				}
				if steps > 400 {
					t.Fatal("it looks again and again")
				}
			}
			if w.authorities < 14 || w.authorities > 16 {
				t.Errorf("got %d CAs, want one in about 243 days", w.authorities)
			}
			if trusted := parseAuthorities(w.bundle); len(trusted) > 2 {
				t.Errorf("%d CAs are trusted in the end", len(trusted))
			}
		})
	}
}

func TestChangeOfAuthority(t *testing.T) {
	w := newWorld(t)
	w.step()
	begin := w.clock.Now()
	w.until(begin.Add(243 * day))
	old, oldLeaf := parseAuthorities(w.bundle), w.leaf()
	if len(old) != 1 {
		t.Fatalf("got %d CAs before the change, want 1", len(old))
	}

	w.clock.SetTime(begin.Add(244 * day))
	next := w.step()
	both := parseAuthorities(w.bundle)
	if len(both) != 2 || !both[1].Equal(old[0]) {
		t.Fatalf("got %d CAs, want the new one and the old", len(both))
	}
	if !w.leaf().Equal(oldLeaf) {
		t.Fatal("a certificate of the new CA is served before API servers had time to trust it")
	}
	if got := next.Sub(w.clock.Now()); got != 10*time.Second {
		t.Errorf("the certificate is to follow in %s, want 10 s", got)
	}

	w.clock.SetTime(next)
	w.step()
	if err := w.leaf().CheckSignatureFrom(both[0]); err != nil {
		t.Errorf("the new CA did not sign: %v", err)
	}
	w.settled()

	w.until(begin.Add(244*day + 89*day))
	if len(parseAuthorities(w.bundle)) != 2 {
		t.Error("the old CA was dropped while a certificate of it may be served")
	}
	w.until(begin.Add(244*day + 91*day))
	if remaining := parseAuthorities(w.bundle); len(remaining) != 1 || !remaining[0].Equal(both[0]) {
		t.Errorf("got %d CAs, want the new one alone", len(remaining))
	}
}

// What stays away for longer than everything lasts begins anew, without a pause.
func TestAfterALongTime(t *testing.T) {
	w := newWorld(t)
	w.step()
	w.clock.SetTime(w.clock.Now().Add(1000 * day))
	w.step()
	w.settled()
	if len(parseAuthorities(w.bundle)) != 1 {
		t.Error("an expired CA is trusted")
	}
}

func TestDamage(t *testing.T) {
	foreign := newWorld(t)
	foreign.step()
	limited := func() map[string][]byte {
		ca, err := newAuthority(time.Unix(1_800_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		ca.certificate.PermittedDNSDomainsCritical, ca.certificate.PermittedDNSDomains = true, []string{"elsewhere"}
		constrained, err := sign(ca.certificate, ca.certificate, ca.key.Public(), ca.key)
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{caCert: encode(constrained), caKey: keyOf(t, ca)}
	}()
	tests := map[string]struct {
		reason string
		damage func(w *world)
		// authorities is how many new CAs it takes.
		authorities int
		// pause says that a new certificate has to wait until its CA is known.
		pause bool
	}{
		"SecretDeleted": {reason: "what replicas serve from memory stays trusted", damage: func(w *world) { w.secret = nil }, authorities: 1, pause: true},
		"SecretEmptied": {reason: "the same", damage: func(w *world) { w.secret = map[string][]byte{} }, authorities: 1, pause: true},
		"KeyLost":       {reason: "nobody can sign for that CA any more", damage: func(w *world) { delete(w.secret, caKey) }, authorities: 1, pause: true},
		"KeyGarbled":    {reason: "nobody can sign for that CA any more", damage: func(w *world) { w.secret[caKey] = []byte("x") }, authorities: 1, pause: true},
		"OtherKey":      {reason: "it is not the key of this CA", damage: func(w *world) { w.secret[caKey] = foreign.secret[caKey] }, authorities: 1, pause: true},
		"CALost":        {reason: "the bundle still has it", damage: func(w *world) { delete(w.secret, caCert) }},
		"CAGarbled": {reason: "the bundle still has it", damage: func(w *world) {
			w.secret[caCert] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}},
		"CertificateGone": {reason: "how to renew it by hand", damage: func(w *world) {
			delete(w.secret, tlsCert)
			delete(w.secret, tlsKey)
		}},
		"CertificateGarbled": {reason: "the CA is good", damage: func(w *world) { w.secret[tlsCert] = []byte("garbage") }},
		"CertificateForeign": {reason: "nobody trusts its CA", damage: func(w *world) {
			w.secret[tlsCert], w.secret[tlsKey] = foreign.secret[tlsCert], foreign.secret[tlsKey]
		}},
		"AllForeign": {reason: "a Secret that was copied from elsewhere is as good, once its CA is published", damage: func(w *world) { w.secret = maps.Clone(foreign.secret) }},
		"UselessCA":  {reason: "a CA that may not sign for these names", damage: func(w *world) { w.secret = maps.Clone(limited) }, authorities: 1, pause: true},
		"BundleLost": {reason: "it is published again", damage: func(w *world) { w.bundle = nil }},
		"BundleGarbled": {reason: "it is published again", damage: func(w *world) {
			w.bundle = []byte("garbage")
		}},
		"BundleForeign": {reason: "only what the Secret says is trusted", damage: func(w *world) { w.bundle = foreign.bundle }},
		"BundleWider":   {reason: "only what the Secret says is trusted", damage: func(w *world) { w.bundle = append(bytes.Clone(w.bundle), foreign.bundle...) }},
		"BothLost":      {reason: "it begins anew", damage: func(w *world) { w.secret, w.bundle = nil, nil }, authorities: 1},
		"MoreKeys":      {reason: "what is not ours stays", damage: func(w *world) { w.secret["other"] = []byte("x") }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.step()
			w.clock.SetTime(w.clock.Now().Add(day))
			w.step()
			w.secret = maps.Clone(w.secret)
			tc.damage(w)
			_, extra := w.secret["other"]
			w.lenient = bytes.Equal(w.secret[tlsCert], foreign.secret[tlsCert]) || w.bundle == nil || strings.HasPrefix(name, "Bundle")
			w.repair(tc.pause)
			if name != "AllForeign" && name != "BothLost" {
				w.check("in the end") // what replicas served before the damage
			}
			if w.authorities-1 != tc.authorities {
				t.Errorf("%s: got %d new CAs, want %d", tc.reason, w.authorities-1, tc.authorities)
			}
			if _, still := w.secret["other"]; still != extra {
				t.Errorf("%s: a key of somebody else was removed", tc.reason)
			}
		})
	}
}

// repair takes the steps after a damage, with a pause between them or without.
func (w *world) repair(pause bool) {
	w.t.Helper()
	next := w.step()
	w.lenient = false
	if pause {
		if got := next.Sub(w.clock.Now()); got != settle {
			w.t.Errorf("the next step is in %s, want %s", got, settle)
		}
		w.clock.SetTime(next)
		w.step()
	}
	w.settled()
}

// The Service was renamed.
func TestOtherNames(t *testing.T) {
	w := newWorld(t)
	w.step()
	p, err := decide(situation{secret: w.secret, bundles: [][]byte{w.bundle}, since: w.since, names: []string{"new.system.svc"}, now: w.clock.Now().Add(time.Minute)})
	if err != nil || !p.certificate || p.authority {
		t.Errorf("got %+v, %v, want a new certificate from the same CA", p, err)
	}
}

// A replica goes on with what it has rather than serve what nobody accepts.
func TestServable(t *testing.T) {
	own, foreign := newWorld(t), newWorld(t)
	own.step()
	foreign.step()
	now := own.clock.Now()
	mixed := maps.Clone(own.secret)
	mixed[tlsCert], mixed[tlsKey] = foreign.secret[tlsCert], foreign.secret[tlsKey]
	for name, tc := range map[string]struct {
		secret map[string][]byte
		names  []string
		now    time.Time
		want   bool
	}{
		"Good":       {own.secret, testNames, now, true},
		"ForeignCA":  {mixed, testNames, now, false},
		"OtherNames": {own.secret, []string{"other"}, now, false},
		"Expired":    {own.secret, testNames, now.Add(91 * day), false},
		"Empty":      {nil, testNames, now, false},
	} {
		if got := servable(tc.secret, tc.names, tc.now) != nil; got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A CA counts as published when each webhook of the configuration has it.
func TestObserve(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	a.step()
	b.step()
	id := fingerprintOf(parseAuthorities(a.bundle)[0])
	now := time.Unix(1, 0)
	since := map[fingerprint]time.Time{}
	observe(since, [][]byte{a.bundle, b.bundle}, now)
	if len(since) != 0 {
		t.Error("one of two webhooks has the CA, and it counts as published")
	}
	observe(since, [][]byte{a.bundle, append(bytes.Clone(b.bundle), a.bundle...)}, now)
	observe(since, [][]byte{a.bundle, a.bundle}, now.Add(time.Hour))
	if got := since[id]; !got.Equal(now) {
		t.Errorf("published since %s, want since it was first seen", got)
	}
	observe(since, [][]byte{a.bundle, nil}, now)
	if len(since) != 0 {
		t.Error("what is no longer published counts as published")
	}
}

// Whatever bytes are damaged, it is repaired in two steps, and stays so.
func TestDamagedBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		w := newWorld(t)
		w.step()
		w.lenient = true
		w.secret = maps.Clone(w.secret)
		for _, key := range []string{caCert, caKey, tlsCert, tlsKey} {
			w.secret[key] = damaged(random, w.secret[key])
		}
		w.bundle = damaged(random, w.bundle)
		w.step()
		w.clock.SetTime(w.clock.Now().Add(settle))
		w.step()
		w.settled()
	}
}

// damaged changes, drops or keeps some bytes.
func damaged(random *rand.Rand, content []byte) []byte {
	content = bytes.Clone(content)
	switch at := random.IntN(len(content)); random.IntN(4) {
	case 0:
		content[at] ^= byte(1 + random.IntN(255))
	case 1:
		content = content[:at]
	case 2:
		content = content[at:]
	}
	return content
}

// FuzzParse looks for a Secret that a replica stumbles over, or that it takes for more than it is. Making and checking signatures is left out:
// it is random, and a fuzzer takes that for news.
func FuzzParse(f *testing.F) {
	p, err := decide(situation{names: testNames, now: time.Unix(1_800_000_000, 0)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.secret[caCert])
	f.Add(p.secret[tlsKey])
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, certificate := range parseAuthorities(text) {
			if !certificate.IsCA {
				t.Error("it is no CA")
			}
		}
		parseKey(text)
		if pair := parsePair(text, []byte("x")); pair != nil {
			t.Error("it is a pair without a key")
		}
	})
}

func encode(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func keyOf(t *testing.T, a *authority) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
