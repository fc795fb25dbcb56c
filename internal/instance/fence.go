package instance

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// Fence keeps a process from writing that does not know whether it may: one that has just begun, one that was frozen,
// and one whose watch is silent. Its own Lease is what it knows that by. It is renewed all the time, on the same watch
// that shows the Leases of others: as long as a process sees its own renewals there, it has seen what others wrote
// before. The zero value is not usable.
type Fence struct {
	identity string
	// fresh is how long ago the last renewal that was seen may have been sent; lasts is when others take the process
	// for dead.
	fresh, lasts time.Duration

	mu sync.Mutex
	// sent is when the last renewals were sent, by their resource versions.
	sent map[string]time.Time
	// last is when the last of them was sent.
	last time.Time
	// shown is the resource version that the watch showed last, and seen when that was sent; zero if this process did
	// not send it.
	shown string
	seen  time.Time
	// blocked is why the process must not write although it sees.
	blocked string
	over    string
	isOpen  bool
	opened  chan struct{} // closed when the process may write for the first time
	lost    chan struct{} // closed when it never may again
}

// NewFence returns a closed fence for a replica. Its Lease lasts a duration, and is renewed within the deadline, which
// is shorter. It fails if anything is missing.
func NewFence(identity string, duration, deadline time.Duration) (*Fence, error) {
	if identity == "" || deadline <= 0 || duration <= deadline {
		return nil, errors.New("a fence needs the name of the replica, and a deadline that is shorter than the duration of the Lease")
	}
	return &Fence{identity: identity, fresh: deadline, lasts: duration, sent: map[string]time.Time{}, opened: make(chan struct{}), lost: make(chan struct{})}, nil
}

// ErrBlind is why a write is refused.
var ErrBlind = errors.New("nothing is written until this instance sees its own Lease renewed")

// Check returns nil if the process may write, and else why not.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.check()
}

func (f *Fence) check() error {
	switch {
	case f.over != "":
		return fmt.Errorf("%w: %s", ErrBlind, f.over)
	case f.seen.IsZero():
		return fmt.Errorf("%w: it has not been seen yet", ErrBlind)
	case time.Since(f.seen) >= f.fresh:
		return fmt.Errorf("%w: the last time was %v ago", ErrBlind, time.Since(f.seen).Round(time.Second))
	case f.blocked != "":
		return fmt.Errorf("%w: %s", ErrBlind, f.blocked)
	}
	return nil
}

// renewing is called before the Lease is written, and returns the time. It fails for good if others may have taken this
// process for dead: it was frozen, or cut off. Nobody can say what they have done since.
func (f *Fence) renewing() (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.lapsed(now) {
		return now, fmt.Errorf("%w: %s", ErrBlind, f.over)
	}
	return now, nil
}

// lapsed reports whether others may have taken this process for dead. The lock is held.
func (f *Fence) lapsed(now time.Time) bool {
	if gap := now.Sub(f.last); !f.last.IsZero() && gap >= f.lasts && f.over == "" {
		f.end(fmt.Sprintf("This process did not renew its Lease for %v, and others may have taken over", gap.Round(time.Second)))
	}
	return f.over != ""
}

// end closes the fence for good. The lock is held.
func (f *Fence) end(why string) {
	f.over = why
	close(f.lost)
}

// holds reports whether the replica of the fence holds the Lease.
func (f *Fence) holds(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == f.identity
}

// mostRenewals is how many renewals are remembered that the watch has yet to show.
const mostRenewals = 32

// renewed is told of a Lease that was written at a time.
func (f *Fence) renewed(lease *coordinationv1.Lease, sent time.Time) {
	if !f.holds(lease) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// It may have been accepted when others had taken this process for dead already.
	if f.lapsed(time.Now()) {
		return
	}
	f.last = sent
	for version, at := range f.sent {
		if len(f.sent) >= mostRenewals && sent.Sub(at) >= f.fresh {
			delete(f.sent, version)
		}
	}
	f.sent[lease.ResourceVersion] = sent
	if f.shown == lease.ResourceVersion {
		f.seen = sent
		f.open()
	}
}

// observe is told of each version of the own Lease that the watch shows.
func (f *Fence) observe(lease *coordinationv1.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown = lease.ResourceVersion
	if !f.holds(lease) {
		f.seen = time.Time{} // Another replica leads, or none does.
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); f.isOpen && holder != "" && f.over == "" {
			f.end(fmt.Sprintf("Process %s has taken over the Lease of this instance", holder))
		}
		return
	}
	if sent, ok := f.sent[lease.ResourceVersion]; ok {
		f.seen = sent
		delete(f.sent, lease.ResourceVersion)
	}
	f.open()
}

// block says why the process must not write although it sees; empty if it may.
func (f *Fence) block(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocked = why
	f.open()
}

// open lets those go on that waited for the first time. The lock is held.
func (f *Fence) open() {
	if !f.isOpen && f.check() == nil {
		f.isOpen = true
		close(f.opened)
	}
}

// Opened is closed when the process may write for the first time.
func (f *Fence) Opened() <-chan struct{} { return f.opened }

// Lapsed returns why the process may not write any more, in a sentence: others may have taken it for dead, or another
// one has its Lease. It is empty if neither is so.
func (f *Fence) Lapsed() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lapsed(time.Now())
	return f.over
}

// ended returns why the process has to end; empty if it has not to.
func (f *Fence) ended() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// Wrap guards a client: what would write waits until the process may write for the first time, and is refused when it
// may not any more. Reviews of access and tokens write nothing, and Events and Leases belong to nobody else.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if !writes(request) {
			return next.RoundTrip(request)
		}
		select {
		case <-f.opened:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		if err := f.Check(); err != nil {
			return nil, err
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func writes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, group := range []string{"authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"} {
		if strings.Contains(request.URL.Path, "/apis/"+group+"/") {
			return false
		}
	}
	return true
}
