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
		return fmt.Errorf("%w: this process is not registered", ErrNotHeld)
	case s.age() >= s.Timing.Fresh:
		return fmt.Errorf("%w: the registration could not be renewed for %v", ErrNotHeld, s.Timing.Fresh)
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
		return fmt.Sprintf("Another Archelon, %s, is registered for this management cluster, so this one writes nothing to Rancher. Stop one of them. To have this one take over, "+
			"stop the other one, then restart this one", shown(v.holder))
	case v.holder == "":
		return fmt.Sprintf("No other Archelon is registered for this management cluster. Taking over after %v without activity", s.Timing.Quiet)
	case v.remembered:
		return fmt.Sprintf("The last process of this Archelon did not end its registration for this management cluster. Taking over after %v without activity", s.Timing.Quiet)
	default:
		return fmt.Sprintf("Archelon %s is registered for this management cluster. Taking over after %v without activity, as after a restore from a backup", shown(v.holder), s.Timing.Expire)
	}
}

// refused says why the seat cannot be asked for, and what to do.
func (s *Seat) refused(err error) string {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Sprintf("A Lease cannot be used: %v. In Rancher's cluster, install the chart of this version with the Helm value role=rancher-side and the UID of this management "+
			"cluster, %s, in the namespace that the Helm value rancher.namespace names here. Then upgrade this release", err, s.Origin)
	}
	return fmt.Sprintf("A Lease cannot be used: %v", err)
}

// shown is a name that somebody else has written, fit for a message.
func shown(holder string) string { return fmt.Sprintf("%.120q", holder) }
