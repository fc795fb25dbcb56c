package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/edge/seat"
	"github.com/archelon-io/archelon/internal/hub"
)

// Limits of what a management cluster that does not answer may cost.
const (
	// askWithin bounds the question who it is, where there is time for several.
	askWithin = 10 * time.Second
	// answerWithin bounds each other request.
	answerWithin = 20 * time.Second
)

// findPlaces connects to the management clusters that are registered, if the manager imports from many. All of them
// have to answer: what is held in one that does not would be held for ever.
func (u *uninstaller) findPlaces(ctx context.Context) error {
	if u.management == nil {
		return nil
	}
	return u.until(ctx, func(ctx context.Context) (bool, error) {
		seen, err := hub.Ask(ctx, u.management, u.opts.ManagementClustersNamespace, min(askWithin, u.opts.Timeout/4))
		if err != nil {
			return false, err
		}
		u.places = nil
		var errs []error
		for i := range seen {
			switch s := &seen[i]; {
			case s.Works():
				errs = append(errs, u.addPlace(s))
			case !s.Pinned || s.Reason == hub.SameClusterReason:
				// Nothing was imported by way of this Secret.
			default:
				errs = append(errs, fmt.Errorf("management cluster %s: %s: %s. To uninstall without it, delete its Secret: what is held there stays held",
					s.Name, s.Reason, s.Message))
			}
		}
		err = errors.Join(errs...)
		return err == nil, err
	})
}

func (u *uninstaller) addPlace(s *hub.Seen) error {
	s.Config.Timeout = answerWithin
	there, err := client.New(s.Config, client.Options{Scheme: u.home.Scheme(), Mapper: mapper()})
	if err != nil {
		return fmt.Errorf("building a client of management cluster %s: %w", s.Name, err)
	}
	leaver, err := seat.NewLeaver(
		seat.Many(u.management, u.opts.ManagementClustersNamespace, u.self.Name, s.UID), seat.DefaultTiming(), clock.RealClock{},
	)
	if err != nil {
		return err
	}
	u.places = append(u.places, &place{uninstaller: u, client: edge.Route(there, u.home), name: s.Name, origin: s.UID, seat: leaver})
	return nil
}
