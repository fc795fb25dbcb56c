package identity

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Bounds of what OCI is asked about clusters.
const (
	// checkers is how many questions are asked at the same time, and perSecond how many begin in a second.
	checkers, perSecond = 2, 5
	// maxTargets is how many compartments OCI is asked about with one Secret.
	maxTargets = 64
	// patience is how long a question waits for its turn. What waits longer is taken for unknown, and asked again later.
	patience = 15 * time.Second
)

// asker is a cluster with whose principal OCI is asked.
type asker struct {
	identity  types.NamespacedName
	namespace string
	ref       corev1.ObjectReference
}

// asked is what is remembered of one target.
type asked struct {
	finding finding
	at      time.Time
	// lasts is how long the finding counts; the times of clusters that were asked about together differ.
	lasts time.Duration
	// by is the cluster to ask with, and users the identities that it is asked for.
	by      asker
	users   map[types.NamespacedName]bool
	waiting bool
	since   time.Time
}

type downKey struct {
	secret   types.NamespacedName
	endpoint string
}

// Checker asks OCI about clusters beside the controller, so that an OCI that does not answer holds up nothing: few
// questions at the same time, some in a second, and one for all clusters with the same target.
type Checker struct {
	// Verifier asks OCI.
	Verifier *Verifier
	// Resolver builds principals.
	Resolver *Resolver
	// Hosts are those that clientOverrides of clusters may name, in lower case, with a port if it is not 443.
	Hosts []string
	// Metrics are optional.
	Metrics *Metrics
	// Clock is optional.
	Clock clock.PassiveClock

	limit  *rate.Limiter
	events chan event.GenericEvent
	wake   chan struct{}

	mu      sync.Mutex
	targets map[target]*asked
	// wanted are the targets of each identity, so that a run looks at those of its own alone.
	wanted map[types.NamespacedName]map[target]bool
	count  map[types.NamespacedName]int
	queue  []target
	// down is since when OCI does not answer about a Secret at an endpoint. A tenant chooses both, so that says nothing of
	// the Secrets of others.
	down map[downKey]time.Time
}

// complete fills in what the Checker needs.
func (c *Checker) complete() error {
	if c.Verifier == nil || c.Resolver == nil {
		return errors.New("the checks of clusters need a verifier and a resolver")
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	c.limit = rate.NewLimiter(perSecond, checkers)
	c.events, c.wake = make(chan event.GenericEvent), make(chan struct{}, checkers)
	c.targets, c.wanted = map[target]*asked{}, map[types.NamespacedName]map[target]bool{}
	c.count, c.down = map[types.NamespacedName]int{}, map[downKey]time.Time{}
	return nil
}

// Start implements manager.Runnable.
func (c *Checker) Start(ctx context.Context) error {
	var all sync.WaitGroup
	for range checkers {
		all.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	all.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Checker) NeedLeaderElection() bool { return true }

// next asks the next question, and reports false at the end.
func (c *Checker) next(ctx context.Context) bool {
	to, is, ok := c.take()
	if !ok {
		select {
		case <-ctx.Done():
			return false
		case <-c.wake:
			return true
		}
	}
	found, ok := c.answer(ctx, to, is)
	if !ok {
		return false
	}
	for _, identity := range c.note(to, found) {
		object := &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: identity.Namespace, Name: identity.Name}}
		select {
		case <-ctx.Done():
			return false
		case c.events <- event.GenericEvent{Object: object}:
		}
	}
	return ctx.Err() == nil
}

// answer finds out about a target, and reports false at the end of the process.
func (c *Checker) answer(ctx context.Context, to target, is asked) (finding, bool) {
	now := c.Clock.Now()
	switch {
	case now.Sub(is.since) > patience:
		return unknown(infrav1.VerificationPendingReason, "Archelon has not asked OCI, because other questions took too long"), true
	case c.isDown(to, now):
		return unknown(infrav1.OCIUnreachableReason, "OCI's Identity API does not answer"), true
	case c.limit.Wait(ctx) != nil:
		return finding{}, false
	}
	found, ok := c.ask(ctx, to, is.by)
	if !ok {
		return finding{}, true // Something has changed meanwhile, and the next run asks about that.
	}
	c.noteDown(to, found.reason == infrav1.OCIUnreachableReason)
	return found, true
}

// isDown reports whether OCI did not answer a short time ago, so that one timeout is enough for all questions.
func (c *Checker) isDown(to target, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.down[downKey{to.secret, to.endpoint}]
	return ok && now.Sub(since) < unreachableFor/2
}

func (c *Checker) noteDown(to target, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.down, downKey{to.secret, to.endpoint})
	if _, ok := c.targets[to]; ok && down {
		c.down[downKey{to.secret, to.endpoint}] = c.Clock.Now()
	}
}

// ask asks OCI as the principal of a cluster. It reports false if that is not of the target any more.
func (c *Checker) ask(ctx context.Context, to target, by asker) (finding, bool) {
	provider, err := c.Resolver.rules().ConfigurationProvider(ctx, by.namespace, &by.ref)
	if refused, ok := errors.AsType[*oci.RefusedError](err); ok {
		if refused.Reason != identityv1.SecretNotFoundReason && refused.Reason != identityv1.CredentialInvalidReason {
			return finding{}, false
		}
		return finding{rejected, refused.Reason, refused.Message}, true
	}
	if err != nil {
		return unknown(infrav1.OCIUnreachableReason, "The Secret of the OCI principal cannot be read"), true
	}
	authorities, err := c.readAuthorities(ctx, to)
	if err != nil {
		return unknown(infrav1.OCIUnreachableReason, "The certificates of certOverride cannot be read"), true
	}
	within, cancel := context.WithTimeout(ctx, 2*c.Verifier.client.Timeout)
	defer cancel()
	found := c.Verifier.look(within, provider, to, authorities)
	c.Metrics.verified(found.result)
	secret, version, err := c.Resolver.secretNow(ctx, by.identity)
	return found, err == nil && secret == to.secret && version == to.version
}

// readAuthorities reads the certificates of certOverride.
func (c *Checker) readAuthorities(ctx context.Context, to target) ([]byte, error) {
	if to.authorities == (types.NamespacedName{}) {
		return nil, nil
	}
	secret, err := c.Resolver.readers().Secret(ctx, to.authorities)
	if err != nil {
		return nil, err
	}
	authorities := secret.Data["cert"]
	if len(authorities) == 0 || len(authorities) > maxAnswer {
		return nil, errors.New("key cert of the Secret is missing, or is too large")
	}
	return authorities, nil
}
