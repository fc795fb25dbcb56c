package hub

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// site is a management cluster that the provider has connected to. It has goroutines of its own, and waits for nobody.
type site struct {
	hub    *Hub
	name   string
	config *rest.Config
	// changed has an entry when something may be decided anew.
	changed chan struct{}

	mu     sync.Mutex
	seen   types.UID
	lost   error
	failed error
	served string
	synced bool
}

func newSite(h *Hub, name string, config *rest.Config) *site {
	return &site{hub: h, name: name, config: config, changed: make(chan struct{}, 1)}
}

// wake has it decided anew. It never waits.
func (s *site) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// note remembers a fact, and has it decided anew.
func (s *site) note(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.wake()
}

// Pauses between two tries of an import that fails.
const (
	retryBase = time.Second
	retryMax  = 2 * time.Minute
)

func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: retryBase, Factor: 2, Jitter: 0.1, Steps: 100, Cap: retryMax}
}

// work imports from the management cluster, as long as that is decided, until the context ends. Nothing of it
// runs any more when it returns.
func (s *site) work(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		err := follow(ctx, s.config, answerWithin, func(uid types.UID) { s.note(func() { s.seen, s.lost = uid, nil }) },
			func(err error) { s.note(func() { s.lost = err }) })
		if err != nil {
			s.note(func() { s.lost = err })
		}
	})
	late := time.AfterFunc(answerWithin, func() {
		s.note(func() {
			if s.seen == "" && s.lost == nil {
				s.lost = errNoAnswer
			}
		})
	})
	defer func() { late.Stop(); end(); following.Wait() }()
	s.decideUntil(ctx)
}

// decideUntil begins and ends the import as is decided, until the context ends.
func (s *site) decideUntil(ctx context.Context) {
	var importing *importing
	var again <-chan time.Time
	backoff := newBackoff()
	for {
		from, runs := s.decided(ctx)
		switch {
		case importing == nil && runs && again == nil:
			importing = s.begin(ctx, from)
		case importing != nil && (!runs || importing.from != from):
			_ = importing.end() // It was to end.
			importing = nil
			s.note(func() { s.synced, s.served = false, "" })
			continue
		}
		select {
		case <-ctx.Done():
			if importing != nil {
				_ = importing.end() // It was to end.
			}
			return
		case <-s.changed:
		case <-again:
			again = nil
		case <-importing.ended():
			failed := importing.end()
			importing = nil
			if s.wasSynced() {
				backoff = newBackoff()
			}
			again = time.After(backoff.Step())
			s.note(func() { s.synced, s.served, s.failed = false, "", failed })
		}
	}
}

func (s *site) wasSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// decided returns what is to be imported from, and whether it is. It says what is so.
func (s *site) decided(ctx context.Context) (Target, bool) {
	all, secret, err := s.hub.registrations(ctx, s.name)
	if err != nil || secret == nil || ctx.Err() != nil {
		return Target{}, false // The provider ends this in a moment.
	}
	s.mu.Lock()
	o := observation{
		registration: registrationOf(secret), others: all, own: s.hub.Own, seen: s.seen, lost: s.lost, failed: s.failed, served: s.served, synced: s.synced,
	}
	s.mu.Unlock()
	d := o.decide()
	if d.pin != "" {
		s.pin(ctx, secret, d.pin)
	}
	if d.reason != "" {
		s.hub.say(ctx, s.name, d.state)
	}
	return Target{Name: s.name, Display: o.display, UID: o.seen, Config: s.config}, d.run
}

// pin writes on the Secret which management cluster it leads to. The cache shows it in a
// moment, and has it decided anew.
func (s *site) pin(ctx context.Context, secret *corev1.Secret, uid types.UID) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:%q}}}`,
		secret.UID, secret.ResourceVersion, archelonv1.ManagementClusterUIDAnnotation, uid)
	written := &corev1.Secret{}
	written.Namespace, written.Name = secret.Namespace, secret.Name
	err := s.hub.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return // What others have written comes by the watch.
	}
	s.hub.logger.Error(err, "Writing the UID of the management cluster on its Secret failed; trying again", "managementCluster", s.name)
	time.AfterFunc(retryBase, s.wake)
}

// importing is an import under way.
type importing struct {
	from   Target
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// begin imports until the context ends, once nobody else imports from the same management cluster.
func (s *site) begin(ctx context.Context, from Target) *importing {
	ctx, cancel := context.WithCancel(ctx)
	i := &importing{from: from, cancel: cancel, done: make(chan struct{})}
	turn := s.hub.turn(from.UID)
	go func() {
		defer close(i.done)
		select {
		case <-ctx.Done():
			return
		case turn <- struct{}{}:
		}
		defer func() { <-turn }()
		i.err = s.hub.Import(ctx, from, Progress{
			Synced: func() { s.note(func() { s.synced, s.failed = true, nil }) },
			Served: func(why string) { s.note(func() { s.served = why }) },
		})
	}()
	return i
}

// ended is closed when the import has ended by itself; nil where there is none.
func (i *importing) ended() <-chan struct{} {
	if i == nil {
		return nil
	}
	return i.done
}

// end ends the import, and returns why it had ended before.
func (i *importing) end() error {
	i.cancel()
	<-i.done
	return i.err
}
