package rancher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Standin plays Rancher in one management cluster, and its agents in any number of workload
// clusters. Its methods may be called from several goroutines.
type Standin struct {
	opts     Options
	config   *rest.Config
	scheme   *runtime.Scheme
	api      client.Client // without a cache
	tokens   *tokenIndex
	sessions *sessions
	delays   *delays
	fleet    *fleet // the workload clusters
	faults   *faultTable
	server   *importServer
	hook     *webhook
	emptier  *emptier

	clusters trigger // queue of the v3 Clusters
	crts     trigger // queue of the ClusterRegistrationTokens

	mu      sync.Mutex // serializes Start, Stop, Down and Up
	ctx     context.Context
	cancel  context.CancelFunc
	reactor *reactor // nil while Rancher is down

	state state
}

// state is what switches and counters hold.
type state struct {
	mu          sync.RWMutex
	holdTokens  bool
	holdConnect bool
	agentEnv    string
	down        bool
	reapplies   map[string]int
	minted      map[string]string // UID of a v1 Cluster -> name of its v3 Cluster
	cleanups    map[string]int    // cluster -> attempts to create its clean-up Job
}

// New returns a stand-in that is not started yet. The options are checked here.
func New(opts Options) (*Standin, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("options of the Rancher stand-in: %w", err)
	}
	config := unlimited(opts.Config)
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client for the management cluster: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a dynamic client for the management cluster: %w", err)
	}
	s := &Standin{
		opts:     opts,
		config:   config,
		scheme:   scheme,
		api:      api,
		tokens:   newTokenIndex(),
		sessions: newSessions(),
		delays:   newDelays(),
		faults:   newFaultTable(),
		emptier:  newEmptier(dyn, true),
		state: state{
			reapplies: map[string]int{},
			minted:    map[string]string{},
			cleanups:  map[string]int{},
		},
	}
	s.fleet = newFleet(s)
	return s, nil
}

// unlimited returns a copy of the configuration without a client-side rate limit.
func unlimited(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.QPS = -1
	out.RateLimiter = nil
	return out
}

// Start creates Rancher's settings and namespaces, serves the import endpoint, installs the
// admission webhook and starts to react. It returns when all of that works; ctx bounds the
// start only. The caller has to call Stop, also after an error.
func (s *Standin) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return errors.New("the Rancher stand-in was started before")
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.recall(ctx); err != nil {
		return err
	}
	server, err := newImportServer(ctx, s)
	if err != nil {
		return err
	}
	s.server = server
	if err := s.server.up(ctx); err != nil {
		return err
	}
	if err := s.installSettings(ctx); err != nil {
		return err
	}
	if s.hook, err = startWebhook(ctx, s); err != nil {
		return err
	}
	s.fleet.start(s.ctx)
	if s.reactor, err = startReactor(ctx, s); err != nil {
		return err
	}
	s.opts.Logger.Info("Rancher is up", "url", s.server.url())
	return nil
}

// Stop ends everything that Start began, removes the admission webhook and returns when the
// last goroutine has ended. Rancher's objects stay.
func (s *Standin) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return
	}
	s.cancel()
	if s.reactor != nil {
		s.reactor.stop()
		s.reactor = nil
	}
	s.fleet.stop()
	if s.hook != nil {
		s.hook.stop()
		s.hook = nil
	}
	s.sessions.clear()
	if s.server != nil {
		s.server.down()
	}
}

// Down takes Rancher down: connections are refused, agents lose their sessions and nothing is
// reacted to. The admission webhook stays, since it is a Deployment of its own in Rancher.
func (s *Standin) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reactor == nil {
		return
	}
	s.setDown(true)
	s.server.down()
	s.reactor.stop()
	s.reactor = nil
	s.sessions.clear()
	s.opts.Logger.Info("Rancher is down")
}

// Up ends Down: Rancher starts again under the same address, and agents come back.
func (s *Standin) Up(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil || s.reactor != nil {
		return nil
	}
	if err := s.server.up(ctx); err != nil {
		return err
	}
	var err error
	if s.reactor, err = startReactor(ctx, s); err != nil {
		return err
	}
	s.setDown(false)
	s.fleet.wakeAll()
	s.opts.Logger.Info("Rancher is up again", "url", s.server.url())
	return nil
}

// URL is the address of Rancher, also the first value of setting server-url. It is known from
// Start on.
func (s *Standin) URL() string { return s.server.url() }

// CACert is the PEM of the CA that signed Rancher's certificate, the value of setting cacerts. It
// is known from Start on.
func (s *Standin) CACert() []byte { return s.server.caCert() }

func (s *Standin) setDown(down bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.down = down
}

func (s *Standin) isDown() bool {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.down
}
