package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultDialTimeout = 5 * time.Second
)

// Options configure the clients of workload clusters. The zero value holds the defaults.
type Options struct {
	// Timeout bounds one request, from the connection to the last byte of the answer; 10 seconds when zero.
	Timeout time.Duration
	// DialTimeout bounds the TCP connection, and the TLS handshake after it; 5 seconds when zero.
	DialTimeout time.Duration
	// UserAgent is sent to workload clusters; "archelon" when empty.
	UserAgent string
	// Allow says what else kubeconfigs may ask for.
	Allow kubeconfig.Allow
}

// Clients hands out clients of workload clusters. A client is made when it is asked for and kept until
// the kubeconfig changes or the cluster is forgotten; it costs no goroutine and holds no
// connection for long while it is not used. Clients may be used concurrently.
type Clients struct {
	secrets client.Reader
	options Options
	mapper  meta.RESTMapper
	turns   chan struct{}
	// reads holds an element for each Secret that is being read.
	reads chan struct{}
	// refused has the Problems of kubeconfigs that were parsed and refused, by their fingerprint.
	refused *lru.Cache

	mu        sync.Mutex
	byCluster map[kubeconfig.Source]*Client
}

// NewClients returns Clients that read kubeconfig Secrets through secrets, at each use; it should
// not be cached, so that no cache holds the credentials of workload clusters.
func NewClients(secrets client.Reader, o Options) (*Clients, error) {
	if secrets == nil {
		return nil, errors.New("clients of workload clusters need a reader of Secrets")
	}
	if o.Timeout < 0 || o.DialTimeout < 0 {
		return nil, errors.New("timeouts of clients of workload clusters cannot be negative")
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.UserAgent == "" {
		o.UserAgent = "archelon"
	}
	return &Clients{
		secrets:   secrets,
		options:   o,
		mapper:    newMapper(),
		turns:     make(chan struct{}, largeAnswers),
		reads:     make(chan struct{}, secretsAtOnce),
		refused:   lru.New(refusalsKept),
		byCluster: map[kubeconfig.Source]*Client{},
	}, nil
}

// Get returns the client of a cluster. It reads the kubeconfig Secret and makes a new client only when the
// kubeconfig is not the one that it knows. It sends nothing to the workload cluster. A missing Secret and a
// refused kubeconfig are Problems.
func (c *Clients) Get(ctx context.Context, from kubeconfig.Source) (*Client, error) {
	raw, err := c.read(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := kubeconfig.CheckSize(raw); err != nil {
		return nil, err
	}
	fingerprint := fingerprintOf(raw)
	if from.Context != "" {
		fingerprint += "/" + from.Context
	}
	if known := c.known(from, fingerprint); known != nil {
		return known, nil
	}
	if refusal, ok := c.refused.Get(fingerprint); ok {
		problem, _ := refusal.(error)
		return nil, problem
	}
	created, err := c.parse(ctx, raw, from, fingerprint)
	if err != nil {
		return nil, err
	}
	return c.keep(from, created), nil
}

// read returns the kubeconfig of a cluster. A few Secrets are read at the same time, whatever else they hold.
func (c *Clients) read(ctx context.Context, from kubeconfig.Source) ([]byte, error) {
	done, err := take(ctx, c.reads)
	if err != nil {
		return nil, fmt.Errorf("waiting to read a kubeconfig Secret: %w", err)
	}
	defer done()
	raw, err := from.Read(ctx, c.secrets)
	if _, missing := errors.AsType[*outcome.Problem](err); missing {
		c.Forget(from)
	}
	return raw, err
}

// parse makes a client of a kubeconfig, in a turn with what workload clusters answer: both are strangers' texts. It
// remembers a refusal: the watch of the Secret wakes the cluster for each write of it, and other things do.
func (c *Clients) parse(ctx context.Context, raw []byte, from kubeconfig.Source, fingerprint string) (*Client, error) {
	done, err := take(ctx, c.turns)
	if err != nil {
		return nil, fmt.Errorf("waiting to parse a kubeconfig: %w", err)
	}
	defer done()
	created, err := c.newClient(raw, from, fingerprint)
	if _, refused := errors.AsType[*outcome.Problem](err); refused {
		c.refused.Add(fingerprint, err)
	}
	return created, err
}

// Forget drops the client of a cluster and closes its idle connections. A request under way ends as usual.
func (c *Clients) Forget(from kubeconfig.Source) {
	c.mu.Lock()
	forgotten := c.byCluster[from]
	delete(c.byCluster, from)
	c.mu.Unlock()
	if forgotten != nil {
		forgotten.close()
	}
}

func (c *Clients) known(from kubeconfig.Source, fingerprint string) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byCluster[from]; known != nil && known.fingerprint == fingerprint {
		return known
	}
	return nil
}

// keep stores a new client and returns the one to use: another worker may have been faster.
func (c *Clients) keep(from kubeconfig.Source, created *Client) *Client {
	c.mu.Lock()
	previous := c.byCluster[from]
	if previous != nil && previous.fingerprint == created.fingerprint {
		c.mu.Unlock()
		return previous
	}
	c.byCluster[from] = created
	c.mu.Unlock()
	if previous != nil {
		previous.close()
	}
	return created
}

func fingerprintOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
