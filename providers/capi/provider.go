package capi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

var (
	_ multicluster.Provider         = &Provider{}
	_ multicluster.ProviderRunnable = &Provider{}
)

// lastStop bounds how long Start waits for clusters to end when it is stopped.
const lastStop = 10 * time.Second

// Provider engages CAPI Clusters with a multi-cluster manager. New makes one.
type Provider struct {
	opts    Options
	log     logr.Logger
	reader  client.Reader
	metrics *metrics
	// first and again bound how many clusters are connected at once: those that are new, and those that are tried again.
	first, again chan struct{}
	// failed says how long engagements pause that failed.
	failed workqueue.TypedRateLimiter[*member]

	mu      sync.RWMutex
	members map[multicluster.ClusterName]*member
	indexes []index
	// ctx and aware are those of Start.
	ctx     context.Context //nolint:containedctx // clusters are discovered by a controller whose contexts are shorter
	aware   multicluster.Aware
	stopped bool
}

// New returns a provider that discovers Clusters through a local manager, which has their types (v1beta2) in its
// scheme. It adds a controller of them to the manager. The multi-cluster manager starts the provider itself.
func New(localMgr manager.Manager, opts Options) (*Provider, error) {
	if localMgr == nil {
		return nil, errors.New("the provider needs a local manager")
	}
	if err := opts.complete(localMgr.GetAPIReader()); err != nil {
		return nil, fmt.Errorf("reading the options of the provider: %w", err)
	}
	p, err := newProvider(localMgr.GetClient(), localMgr.GetLogger().WithName(opts.Name), opts)
	if err != nil {
		return nil, err
	}
	return p, p.setUp(localMgr)
}

func newProvider(reader client.Reader, log logr.Logger, opts Options) (*Provider, error) {
	p := &Provider{
		opts: opts, log: log, reader: reader, members: map[multicluster.ClusterName]*member{},
		first: make(chan struct{}, opts.Concurrency), again: make(chan struct{}, max(1, opts.Concurrency/4)),
		failed: workqueue.NewTypedItemExponentialFailureRateLimiter[*member](opts.Timing.RetryMin, opts.Timing.RetryMax),
	}
	var err error
	p.metrics, err = newMetrics(opts.Metrics, p)
	return p, err
}

// Get implements multicluster.Provider.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	m := p.member(name)
	if m == nil {
		return nil, fmt.Errorf("cluster %q is not engaged: %w", name, multicluster.ErrClusterNotFound)
	}
	_, engaged := m.cluster()
	switch {
	case engaged == nil:
		return nil, fmt.Errorf("cluster %q is not engaged yet: %w", name, multicluster.ErrClusterNotFound)
	case m.line.connected() == nil:
		return nil, fmt.Errorf("cluster %q: %w", name, ErrNotConnected)
	}
	return engaged.cluster, nil
}

// Start implements multicluster.ProviderRunnable: it engages clusters until the context ends. Then it disengages all of
// them, and returns when nothing runs any more. A provider is started once.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	p.mu.Lock()
	if p.aware != nil {
		p.mu.Unlock()
		return errors.New("the provider was started already")
	}
	p.ctx, p.aware = ctx, aware
	for _, m := range p.members {
		p.startReady(m)
	}
	p.mu.Unlock()

	<-ctx.Done()
	p.mu.Lock()
	p.stopped = true
	last := p.members
	p.members = map[multicluster.ClusterName]*member{}
	p.mu.Unlock()
	late := time.NewTimer(lastStop)
	defer late.Stop()
	for _, m := range last {
		m.stop()
		select {
		case <-m.done:
		case <-late.C:
			p.log.Info("Clusters have not ended in time and are left behind")
			return nil
		}
	}
	return nil
}

// ListClusters returns the names of all clusters that controllers were started for, whether they are connected at the
// moment or not.
func (p *Provider) ListClusters() []multicluster.ClusterName {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var names []multicluster.ClusterName
	for name, m := range p.members {
		if _, engaged := m.cluster(); engaged != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *Provider) member(name multicluster.ClusterName) *member {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.members[name]
}

// ensure has a Cluster engaged, as soon as it is ready.
func (p *Provider) ensure(ctx context.Context, ccl *clusterv1.Cluster) {
	ready := p.opts.IsReady(ctx, ccl)
	name := NameOf(client.ObjectKeyFromObject(ccl))
	if m := p.member(name); m != nil && m.uid != ccl.UID {
		p.forget(name) // It is another Cluster of the same name.
	}
	p.mu.Lock()
	m, ok := p.members[name]
	if p.stopped {
		p.mu.Unlock()
		return
	}
	if !ok {
		m = newMember(p, ccl)
		p.members[name] = m
	}
	m.observe(ccl, ready)
	if p.aware != nil {
		p.startReady(m)
	}
	p.mu.Unlock()
	if !ok {
		p.opts.Changed(m.key)
	}
}

// startReady starts a member whose Cluster is ready. One that was keeps running, whatever the phase becomes later,
// until the Cluster leaves.
func (p *Provider) startReady(m *member) {
	if m.isReady() {
		m.start(p.ctx)
	}
}

// forget disengages a cluster.
func (p *Provider) forget(name multicluster.ClusterName) {
	p.mu.Lock()
	m, ok := p.members[name]
	delete(p.members, name)
	p.mu.Unlock()
	if ok {
		m.stop()
		p.opts.Changed(m.key)
	}
}

// turn runs what costs something in a turn, so that not all clusters do at once. Retries have turns of their own.
func (p *Provider) turn(ctx context.Context, first bool, run func() error) error {
	turns := p.again
	if first {
		turns = p.first
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return run()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// config is what a cluster is built with: the line to it, whatever its address and credentials are.
func (m *member) config() *rest.Config {
	opts := m.provider.opts
	return &rest.Config{
		Host: "https://" + knownAs, Transport: clients{m.line}, QPS: opts.QPS, Burst: opts.Burst,
		RateLimiter: flowcontrol.NewTokenBucketRateLimiter(opts.QPS, opts.Burst),
		// Warnings are a stranger's text and would end up in the log.
		WarningHandlerWithContext: rest.NoWarnings{},
		UserAgent:                 rest.DefaultKubernetesUserAgent(),
	}
}

var _ http.RoundTripper = clients{}
