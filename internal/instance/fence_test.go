package instance

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fenceBench is a fence in fake time.
type fenceBench struct {
	*Fence
	t *testing.T
}

func newFence(t *testing.T) *fenceBench {
	t.Helper()
	fence, err := NewFence("me", 15*time.Second, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return &fenceBench{fence, t}
}

// pass lets time pass in a bubble, where that takes no time.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // fake time

func leaseOf(holder, version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
}

// renew sends a renewal, which takes a time.
func (f *fenceBench) renew(version string, takes time.Duration) {
	f.t.Helper()
	sent, err := f.renewing()
	if err != nil {
		f.t.Fatal(err)
	}
	pass(takes)
	f.renewed(leaseOf("me", version), sent)
}

func TestFenceFollowsItsOwnLease(t *testing.T) {
	for name, tc := range map[string]struct {
		do func(f *fenceBench)
		// says is why it is closed, empty if it is open.
		says string
	}{
		"Nothing":             {do: func(*fenceBench) {}, says: "not been seen yet"},
		"RenewedAndNotSeen":   {do: func(f *fenceBench) { f.renew("1", 0) }, says: "not been seen yet"},
		"Seen":                {do: func(f *fenceBench) { f.renew("1", 0); f.observe(leaseOf("me", "1")) }},
		"SeenBeforeTheAnswer": {do: func(f *fenceBench) { f.observe(leaseOf("me", "1")); f.renew("1", 0) }},
		"OfAProcessBefore":    {do: func(f *fenceBench) { f.observe(leaseOf("me", "1")) }, says: "not been seen yet"},
		"OfAnotherReplica":    {do: func(f *fenceBench) { f.renew("1", 0); f.observe(leaseOf("you", "1")) }, says: "not been seen yet"},
		"TakenByAnotherReplica": {do: func(f *fenceBench) {
			f.renew("1", 0)
			f.observe(leaseOf("me", "1"))
			f.observe(leaseOf("you", "2"))
		}, says: "Process you has taken over the Lease of this instance"},
		"GivenBack": {do: func(f *fenceBench) {
			f.renew("1", 0)
			f.observe(leaseOf("me", "1"))
			f.observe(leaseOf("", "2"))
		}, says: "not been seen yet"},
		"SeenLongAgo": {do: func(f *fenceBench) {
			f.renew("1", 0)
			f.observe(leaseOf("me", "1"))
			pass(10 * time.Second)
		}, says: "10s ago"},
		"SentLongAgo": {do: func(f *fenceBench) { f.renew("1", 10*time.Second); f.observe(leaseOf("me", "1")) }, says: "10s ago"},
		"RenewedAndOnlyTheFirstSeen": {do: func(f *fenceBench) {
			for _, version := range []string{"1", "2", "3", "4", "5", "6"} {
				f.renew(version, 2*time.Second)
			}
			f.observe(leaseOf("me", "1"))
		}, says: "12s ago"},
		"Blocked": {do: func(f *fenceBench) { f.block("because"); f.renew("1", 0); f.observe(leaseOf("me", "1")) }, says: "because"},
		"Unblocked": {do: func(f *fenceBench) {
			f.block("because")
			f.renew("1", 0)
			f.observe(leaseOf("me", "1"))
			f.block("")
		}},
		"Frozen": {do: func(f *fenceBench) {
			f.renew("1", 0)
			pass(15 * time.Second)
			if _, err := f.renewing(); !errors.Is(err, ErrBlind) {
				f.t.Errorf("got %v, want that it cannot renew", err)
			}
			f.observe(leaseOf("me", "1"))
		}, says: "did not renew its Lease for 15s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFence(t)
				tc.do(f)
				switch err := f.Check(); {
				case tc.says == "" && err != nil:
					t.Errorf("closed: %v", err)
				case tc.says != "" && (!errors.Is(err, ErrBlind) || !strings.Contains(err.Error(), tc.says)):
					t.Errorf("got %v, want it to say %q", err, tc.says)
				}
			})
		})
	}
}

// guarded is a client behind a fence.
type guarded struct {
	*fenceBench
	client http.RoundTripper
	sent   int
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{fenceBench: newFence(t)}
	g.client = g.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		g.sent++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	return g
}

func (g *guarded) send(ctx context.Context, method, path string) error {
	g.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "https://cluster"+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	response, err := g.client.RoundTrip(request)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

const guardedPath = "/apis/cluster.x-k8s.io/v1beta2/namespaces/x/clusters/y"

// expectWrites wants all kinds of writes to end with an error.
func (g *guarded) expectWrites(reason string, want error) {
	g.t.Helper()
	for _, method := range []string{http.MethodPatch, http.MethodPut, http.MethodPost, http.MethodDelete} {
		if err := g.send(g.t.Context(), method, guardedPath); !errors.Is(err, want) {
			g.t.Errorf("%s: %s: got %v, want %v", reason, method, err, want)
		}
	}
}

func TestFenceGuardsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		for _, free := range [][2]string{
			{http.MethodGet, guardedPath}, {http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
			{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/x/events"}, {http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews"},
		} {
			if err := g.send(t.Context(), free[0], free[1]); err != nil {
				t.Errorf("%v: %v", free, err)
			}
		}
		before := g.sent
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.send(short, http.MethodPatch, guardedPath); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want to wait until the fence opens", err)
		}
		go func() {
			pass(time.Second)
			g.renew("1", 0)
			g.observe(leaseOf("me", "1"))
		}()
		g.expectWrites("it opens", nil)
		pass(10 * time.Second)
		g.expectWrites("nothing was seen for long", ErrBlind)
		if g.sent != before+4 {
			t.Errorf("%d writes were sent, want 4", g.sent-before)
		}
	})
}
