package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// kubeconfigKey is where a Secret has the kubeconfig.
const kubeconfigKey = "kubeconfig"

// Connections are those to other clusters: one for each kubeconfig that sources use. Each follows the claims and
// Secrets of its sources in the other cluster, and so knows whether it answers.
type Connections struct {
	clients *workload.Clients
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	ctx     context.Context //nolint:containedctx // connections live until the process ends, not until a run does
	end     context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	wake func(types.NamespacedName, time.Duration)
	to   map[Credentials]*connection
	used map[types.NamespacedName]Credentials
	// refused are sources that get no connection because their namespace has the most that it may have.
	refused map[types.NamespacedName]bool
}

// maxConnections is how many connections the sources of one namespace have at most. Each costs some goroutines and
// watches, and tenants write Secrets with as many contexts as they like.
const maxConnections = 16

// NewConnections returns Connections that have no users yet.
func NewConnections(clients *workload.Clients, scheme *runtime.Scheme) *Connections {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, suffix := range []string{"", "List"} {
		mapper.AddSpecific(
			metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind+suffix), claims(), claims(), meta.RESTScopeNamespace,
		)
		mapper.AddSpecific(corev1.SchemeGroupVersion.WithKind("Secret"+suffix), secrets(), secrets(), meta.RESTScopeNamespace)
	}
	c := &Connections{
		clients: clients, scheme: scheme, mapper: mapper, wake: func(types.NamespacedName, time.Duration) {},
		to: map[Credentials]*connection{}, used: map[types.NamespacedName]Credentials{}, refused: map[types.NamespacedName]bool{},
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

func claims() schema.GroupVersionResource { return metal3v1.GroupVersion.WithResource("hostclaims") }

func secrets() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("secrets") }

// Start implements manager.Runnable. It returns when no connection is left.
func (c *Connections) Start(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// wakes says how sources are woken.
func (c *Connections) wakes(wake func(source types.NamespacedName, after time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake = wake
}

var errEnding = errors.New("the process ends")

// Use implements Remotes.
func (c *Connections) Use(
	ctx context.Context, source types.NamespacedName, origin string, credentials Credentials,
) (*Remote, error) {
	client, err := c.clients.Get(ctx, kubeconfigOf(credentials))
	if err != nil {
		if problemOf(err) != nil {
			c.Leave(source)
		}
		return nil, err
	}
	if client.Place().Namespace == "" {
		c.Leave(source)
		return nil, refuse(
			metal3v1.CredentialsInvalidReason, "The context of the kubeconfig names no namespace. Set the namespace for HostClaims in the remote cluster",
		)
	}
	to, err := c.connect(source, origin, credentials, client) //nolint:contextcheck // it lives longer than the run
	if err != nil {
		return nil, err
	}
	if err := to.mayAsk(origin); err != nil {
		return nil, err
	}
	if err := to.ready(); err != nil {
		return nil, err
	}
	return &Remote{Cluster: to.cluster, Place: client.Place(), Release: to.leave}, nil
}

func kubeconfigOf(credentials Credentials) kubeconfig.Source {
	return kubeconfig.Source{
		Secret: credentials.Secret, Key: kubeconfigKey, Author: "spec.credentials of this HostClaim", Context: credentials.Context,
	}
}

// connect returns the connection of a source. Another kubeconfig takes the place of the one before.
func (c *Connections) connect(
	source types.NamespacedName, origin string, credentials Credentials, client *workload.Client,
) (*connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errEnding
	}
	if before, ok := c.used[source]; ok && before != credentials {
		c.drop(source)
	}
	delete(c.refused, source)
	to := c.to[credentials]
	if to == nil && c.ofNamespace(source.Namespace) >= maxConnections {
		c.refused[source] = true
		c.clients.Forget(kubeconfigOf(credentials))
		return nil, refuse(metal3v1.CredentialsInvalidReason, fmt.Sprintf(
			"The HostClaims of this namespace use %d kubeconfigs, which is the maximum. Use one of these for this HostClaim, too", maxConnections))
	}
	if to == nil || to.client != client {
		cluster, err := client.Typed(c.scheme, c.mapper)
		if err != nil {
			return nil, err
		}
		next := &connection{
			all: c, client: client, cluster: cluster, users: map[string]user{},
			heard: map[schema.GroupVersionResource]error{},
		}
		if to != nil {
			to.stop()
			next.users = to.takeUsers()
		}
		var ctx context.Context
		ctx, next.stop = context.WithCancel(c.ctx)
		c.running.Go(func() { next.run(ctx) })
		to = next
		c.to[credentials] = to
	}
	c.used[source] = credentials
	to.mu.Lock()
	if to.users[origin].source != source {
		to.users[origin] = newUser(source)
	}
	to.mu.Unlock()
	return to, nil
}

// Leave implements Remotes. A connection without users is closed.
func (c *Connections) Leave(source types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.refused, source)
	c.drop(source)
}

// drop is called with the lock held.
func (c *Connections) drop(source types.NamespacedName) {
	credentials, ok := c.used[source]
	if !ok {
		return
	}
	delete(c.used, source)
	to := c.to[credentials]
	to.mu.Lock()
	for origin, user := range to.users {
		if user.source == source {
			delete(to.users, origin)
		}
	}
	left := len(to.users)
	to.mu.Unlock()
	if left > 0 {
		return
	}
	to.stop()
	delete(c.to, credentials)
	c.clients.Forget(kubeconfigOf(credentials))
	for other := range c.refused {
		if other.Namespace == source.Namespace {
			c.wake(other, 0)
		}
	}
}

// ofNamespace is how many connections the sources of a namespace have. It is called with the lock held.
func (c *Connections) ofNamespace(namespace string) int {
	count := 0
	for credentials := range c.to {
		if credentials.Secret.Namespace == namespace {
			count++
		}
	}
	return count
}

func (c *Connections) waken(after time.Duration, sources ...types.NamespacedName) {
	c.mu.Lock()
	wake := c.wake
	c.mu.Unlock()
	for _, source := range sources {
		wake(source, after)
	}
}
