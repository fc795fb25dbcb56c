package capi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// Options adapt the provider. The zero value holds the defaults.
type Options struct {
	// ClusterOptions are passed to the cluster constructor. A cache that is narrow, of metadata, and with a transform is
	// what keeps a large fleet small.
	ClusterOptions []cluster.Option

	// GetSecret returns a *rest.Config for a CAPI Cluster, by default from its kubeconfig Secret: DefaultGetSecret. It is
	// asked again when the Secret changes and when credentials are refused. Exec and auth-provider plugins are
	// refused: get the token here.
	GetSecret func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error)

	// KubeconfigAnnotations has the default of GetSecret follow annotations archelon.io/kubeconfig-secret, NAME or
	// NAME/KEY, and archelon.io/kubeconfig-context of a Cluster. Another Secret than NAME-kubeconfig has to name the
	// Cluster by label cluster.x-k8s.io/cluster-name: who may write a Cluster may not be allowed to use the credentials
	// of others.
	KubeconfigAnnotations bool

	// AllowLocalProxies has the default of GetSecret accept a proxy-url that leads to a loopback, link-local, unspecified
	// or multicast address.
	AllowLocalProxies bool

	// NewCluster creates a cluster.Cluster from a *rest.Config, by default with cluster.New. The provider starts it. The
	// config leads to the cluster by its Transport, which outlasts a change of the kubeconfig, and has neither its address
	// nor credentials. It and the options have to be passed on.
	NewCluster func(
		ctx context.Context, ccl *clusterv1.Cluster, cfg *rest.Config, opts ...cluster.Option,
	) (cluster.Cluster, error)

	// Select limits what is engaged; by default all Clusters are. A Cluster that is not selected any more is disengaged.
	Select func(*clusterv1.Cluster) bool

	// ClustersOf returns the Clusters whose kubeconfig an object of kind Secret may hold, of which only metadata is known.
	// By default that is NAME for a Secret called NAME-kubeconfig, and with KubeconfigAnnotations the one of label
	// cluster.x-k8s.io/cluster-name besides.
	ClustersOf func(secret client.Object) []types.NamespacedName

	// Name is that of the controller of Clusters on the local manager, "fleet" by default.
	Name string

	// Concurrency is how many clusters are connected for the first time at once, 64 by default. As many retries as a
	// quarter of it run besides.
	Concurrency int

	// QPS and Burst limit the requests to each cluster, 20 and 30 by default.
	QPS   float32
	Burst int

	// Timing bounds what is waited for.
	Timing Timing

	// Metrics, if set, is where metrics are registered.
	Metrics prometheus.Registerer

	// Changed, if set, is called when the status of a Cluster has changed. It must not block.
	Changed func(types.NamespacedName)
}

// Timing bounds what is waited for. The zero value holds the defaults.
type Timing struct {
	// Dial bounds a TCP connection, and the TLS handshake after it: 5s.
	Dial time.Duration
	// Request bounds a request and its answer; watches are bounded by the time that they ask for: 30s.
	Request time.Duration
	// Read bounds how long a read from a cache waits for the first list of a kind: 10s.
	Read time.Duration
	// Engage bounds how long controllers may take to be started for a cluster: 30s.
	Engage time.Duration
	// Probe bounds a probe: 5s. ProbeEvery is how often a cluster is probed: 10s. After ProbeFailures in a row it is
	// disconnected: 3.
	Probe, ProbeEvery time.Duration
	ProbeFailures     int
	// RetryMin and RetryMax are how long it takes until a connection, or an engagement that failed, is tried again:
	// 500ms and 30s.
	RetryMin, RetryMax time.Duration
	// Rotation is how long a connection is used after its kubeconfig was deleted, or replaced by one that cannot be read
	// or does not connect: 5m. A kubeconfig that is refused for the sake of security ends it at once.
	Rotation time.Duration
	// Idle is how long a cluster is unused, by informers or requests, until it is probed less often, and its connections
	// are closed in between: 2m. ProbeIdleEvery is how often then: 2m.
	Idle, ProbeIdleEvery time.Duration
}

func (t *Timing) complete() {
	for _, field := range []struct {
		value *time.Duration
		is    time.Duration
	}{
		{&t.Dial, 5 * time.Second}, {&t.Request, 30 * time.Second}, {&t.Read, 10 * time.Second},
		{&t.Engage, 30 * time.Second}, {&t.Probe, 5 * time.Second}, {&t.ProbeEvery, 10 * time.Second},
		{&t.RetryMin, 500 * time.Millisecond}, {&t.RetryMax, 30 * time.Second}, {&t.Rotation, 5 * time.Minute},
		{&t.Idle, 2 * time.Minute}, {&t.ProbeIdleEvery, 2 * time.Minute},
	} {
		*field.value = cmp.Or(*field.value, field.is)
	}
	t.ProbeFailures = cmp.Or(t.ProbeFailures, 3)
}

// complete fills in defaults.
func (o *Options) complete(secrets client.Reader) error {
	if o.Concurrency < 0 || o.QPS < 0 || o.Burst < 0 {
		return errors.New("concurrency and rates cannot be negative")
	}
	if o.GetSecret == nil {
		o.GetSecret = getSecret(secrets, o.where(), kubeconfig.Allow{LocalProxies: o.AllowLocalProxies})
	}
	if o.NewCluster == nil {
		o.NewCluster = func(
			_ context.Context, _ *clusterv1.Cluster, cfg *rest.Config, opts ...cluster.Option,
		) (cluster.Cluster, error) {
			return cluster.New(cfg, opts...)
		}
	}
	if o.Select == nil {
		o.Select = func(*clusterv1.Cluster) bool { return true }
	}
	if o.ClustersOf == nil {
		o.ClustersOf = o.clustersOf
	}
	if o.Changed == nil {
		o.Changed = func(types.NamespacedName) {}
	}
	o.Name = cmp.Or(o.Name, "fleet")
	o.Concurrency, o.QPS, o.Burst = cmp.Or(o.Concurrency, 64), cmp.Or(o.QPS, 20), cmp.Or(o.Burst, 30)
	o.Timing.complete()
	return nil
}

func (o *Options) where() locate {
	if o.KubeconfigAnnotations {
		return annotated
	}
	return located
}

// clustersOf is the default of ClustersOf.
func (o *Options) clustersOf(secret client.Object) []types.NamespacedName {
	switch {
	case !o.KubeconfigAnnotations:
	case kubeconfig.Lacks(secret):
		return nil
	default:
		return kubeconfig.ClustersOf(secret)
	}
	return kubeconfig.ClustersOf(&metav1.ObjectMeta{Namespace: secret.GetNamespace(), Name: secret.GetName()})
}
