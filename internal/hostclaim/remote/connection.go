package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
)

// Pauses before a cluster is followed again that did not answer a request, although it could be followed.
const (
	pauseBase = time.Second
	pauseMax  = 5 * time.Minute
)

// What changes in another cluster wakes a source so often, and after that once in a while: it costs writes here.
const (
	wakesPerSecond = 2
	wakesAtOnce    = 20
	wakeLater      = time.Second
)

// What another cluster answers has a source written to, and a write has it asked again. So a source has it asked so
// often, and after that once in a while, whatever wakes the source: a server that answers something else each time has
// few writes made.
const (
	asksAtOnce = 40
	askPause   = 2 * time.Second
)

// connection is one to another cluster.
type connection struct {
	all     *Connections
	client  *workload.Client
	cluster *workload.Typed
	stop    context.CancelFunc

	mu sync.Mutex
	// users are the sources that use it, by their origins.
	users map[string]user
	// heard has what the other cluster said of each resource when it was last asked: nil, or a Problem.
	heard map[schema.GroupVersionResource]error
	// broken is a Problem that a request had. It stands until the cluster was followed again.
	broken   error
	failures int
	restart  context.CancelFunc
}

// user is a source, how often it may be woken, and how often it may ask.
type user struct {
	source types.NamespacedName
	wakes  flowcontrol.PassiveRateLimiter
	asks   *rate.Limiter
}

func newUser(source types.NamespacedName) user {
	return user{
		source, flowcontrol.NewTokenBucketPassiveRateLimiter(wakesPerSecond, wakesAtOnce), rate.NewLimiter(rate.Every(askPause), asksAtOnce),
	}
}

// tooSoonError is that a source has asked too often.
type tooSoonError struct{ wait time.Duration }

// Error implements error.
func (e *tooSoonError) Error() string { return "the next request is allowed in " + e.wait.String() }

// mayAsk fails if the source of an origin has asked too often.
func (c *connection) mayAsk(origin string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	asks := c.users[origin].asks
	if asks == nil {
		return nil // It has left in the meantime.
	}
	turn := asks.Reserve()
	if wait := turn.Delay(); wait > 0 {
		turn.Cancel()
		return &tooSoonError{wait}
	}
	return nil
}

func (c *connection) takeUsers() map[string]user {
	c.mu.Lock()
	defer c.mu.Unlock()
	users := c.users
	c.users = map[string]user{}
	return users
}

// run follows the other cluster until the connection is closed.
func (c *connection) run(ctx context.Context) {
	for ctx.Err() == nil {
		following, restart := context.WithCancel(ctx)
		c.mu.Lock()
		c.restart, c.broken = restart, nil
		clear(c.heard)
		c.mu.Unlock()
		err := c.client.Follow(following, workload.Following{
			Resources: []schema.GroupVersionResource{claims(), secrets()},
			Namespace: c.client.Place().Namespace, Label: metal3v1.OriginLabel,
			Changed: c.changed, Answered: c.answered,
		})
		restart()
		pause, again := c.ended(err)
		if !again {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// ended says whether the cluster is followed again, and after which pause, when following it has ended. What was wrong
// stands until then: a server with too many objects answers, and sources that began to work whenever it did would be
// written to all the time. A kubeconfig that cannot be used waits for another one to take its place.
func (c *connection) ended(err error) (pause time.Duration, again bool) {
	if err != nil {
		c.answered(claims(), err)
	}
	switch {
	case err == nil:
		return c.pause(), true
	case errors.Is(err, workload.ErrFollowsTooMuch):
		return pauseMax, true
	default:
		return 0, false
	}
}

// pause is how long it takes until the cluster is followed again, more after each failure.
func (c *connection) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := pauseBase << min(max(c.failures-1, 0), 16)
	return min(pause, pauseMax)
}

// changed wakes the source of something that has changed.
func (c *connection) changed(origin string) {
	c.mu.Lock()
	user, ok := c.users[origin]
	c.mu.Unlock()
	switch {
	case !ok:
	case user.wakes.TryAccept():
		c.all.waken(0, user.source)
	default:
		c.all.waken(wakeLater, user.source)
	}
}

// answered notes what the other cluster said. Its sources are woken if that is news.
func (c *connection) answered(of schema.GroupVersionResource, err error) {
	c.mu.Lock()
	before := c.state()
	c.heard[of] = err
	news := fmt.Sprint(before) != fmt.Sprint(c.state())
	c.mu.Unlock()
	if news {
		c.wakeAll()
	}
}

func (c *connection) wakeAll() {
	c.mu.Lock()
	users := make([]types.NamespacedName, 0, len(c.users))
	for _, user := range c.users {
		users = append(users, user.source)
	}
	c.mu.Unlock()
	c.all.waken(0, users...)
}

// state is why nobody can be asked, nil if somebody can. It is called with the lock held.
func (c *connection) state() error {
	if c.broken != nil {
		return c.broken
	}
	for _, resource := range []schema.GroupVersionResource{claims(), secrets()} {
		switch err, asked := c.heard[resource]; {
		case !asked:
			return &problemError{yetToAnswer()}
		case err != nil:
			return err
		}
	}
	return nil
}

// ready returns why the other cluster cannot be asked, nil if it can.
func (c *connection) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state()
}

// leave ends the work on a source. A request that failed has the cluster followed anew: what follows it may not have
// noticed.
func (c *connection) leave(err error) {
	c.mu.Lock()
	broken := ofConnection(err)
	news := broken && c.broken == nil
	switch {
	case news:
		c.broken = err
		c.failures++
		c.restart()
	case err == nil:
		c.failures = 0
	}
	c.mu.Unlock()
	if news {
		c.wakeAll()
	}
}
