package seat

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrNotHeld is why a write is refused.
var ErrNotHeld = errors.New("nothing is written to Rancher's cluster while another Archelon may serve this management cluster")

// Held is closed when the seat is held for the first time.
func (s *Seat) Held() <-chan struct{} { return s.held }

// Check returns nil if the process may write to Rancher's cluster, and else why not.
func (s *Seat) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return fmt.Errorf("%w: this process ends", ErrNotHeld)
	case s.fresh.IsZero():
		return fmt.Errorf("%w: this process does not hold the seat", ErrNotHeld)
	case s.age() >= s.Timing.Fresh:
		return fmt.Errorf("%w: the seat could not be renewed for %v", ErrNotHeld, s.Timing.Fresh)
	}
	return nil
}

// age is for how long the seat was not renewed. The clock that never goes back stands still while a machine sleeps, so
// both are asked. The lock is held.
func (s *Seat) age() time.Duration {
	now := s.Clock.Now()
	return max(now.Sub(s.fresh), now.Round(0).Sub(s.fresh.Round(0)))
}

// Ready is a readiness check: it fails while the seat is asked for in vain. A replica that does not lead does not ask.
func (s *Seat) Ready(*http.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits != "" {
		return errors.New(s.waits)
	}
	return nil
}

// Wrap has a client of Rancher's cluster write only while the seat is held and was renewed a moment ago.
func (s *Seat) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		switch request.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			return next.RoundTrip(request)
		}
		s.writing.RLock()
		defer s.writing.RUnlock()
		if err := s.Check(); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// waitFor says why the seat is not held, when that has changed.
func (s *Seat) waitFor(why string) {
	s.mu.Lock()
	former := s.waits
	s.waits = why
	s.mu.Unlock()
	switch why {
	case former:
	case "":
		s.Logger.Info("This Archelon serves its management cluster in Rancher's cluster", "seat", s.RancherNamespace+"/"+LeaseName(s.Origin), "holder", s.name)
	default:
		s.Logger.Info("Nothing is written to Rancher's cluster yet", "cause", why, "seat", s.RancherNamespace+"/"+LeaseName(s.Origin))
	}
}

// explain says what is waited for, and what to do.
func (s *Seat) explain(v view, next step) string {
	switch {
	case next == standBy || next == forget:
		return fmt.Sprintf("another Archelon, %s, serves this management cluster, and this one does nothing in Rancher: stop one of them; to have this one take over, "+
			"stop the other one, then restart this one", shown(v.holder))
	case v.holder == "":
		return fmt.Sprintf("the seat has no holder: it is taken when that stays so for %v", s.Timing.Quiet)
	case v.remembered:
		return fmt.Sprintf("the last process here has not given the seat back: it is taken if nobody renews it for %v", s.Timing.Quiet)
	default:
		return fmt.Sprintf("the seat is that of %s: it is taken if that is silent for %v, as after a restore from a backup", shown(v.holder), s.Timing.Expire)
	}
}

// refused says why the seat cannot be asked for, and what to do.
func (s *Seat) refused(err error) string {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Sprintf("a Lease cannot be used: %v: in Rancher's cluster, install the chart of this version with role=rancher-side and the UID of this management "+
			"cluster, %s, in the namespace that --rancher-namespace names; here, upgrade the release", err, s.Origin)
	}
	return fmt.Sprintf("a Lease cannot be used: %v", err)
}

// shown is a name that somebody else has written, fit for a message.
func shown(holder string) string { return fmt.Sprintf("%.120q", holder) }
