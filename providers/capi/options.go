package capi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// Options adapt the provider. The zero value holds the defaults.
type Options struct {
	// ClusterOptions are passed to the cluster constructor. A cache that is narrow, of metadata, and with a transform is
	// what keeps a large fleet small.
	ClusterOptions []cluster.Option

	// Source says where the kubeconfig of a CAPI Cluster is, by default in Secret NAME-kubeconfig under key "value". The
	// default of GetSecret reads that Secret, and each event of it has the kubeconfig read again: a rotation or deletion
	// is noticed. It is called often, and must not change the Cluster.
	Source func(ccl *clusterv1.Cluster) (kubeconfig.Source, error)

	// GetSecret returns a *rest.Config for a CAPI Cluster, by default from the Secret of Source: DefaultGetSecret. It is
	// asked again when an event of ClustersOf names the Cluster, when the Cluster itself has changed, and when credentials
	// are refused. That it wraps ErrAccessEnded ends the connection at once. An error of a Secret that was not found, or a
	// problem.Problem, ends it after Timing.Rotation. With any other error the connection stays: the management cluster
	// did not answer.
	GetSecret func(ctx context.Context, ccl *clusterv1.Cluster) (*rest.Config, error)

	// AllowExec, if set, says whether a program may be run to get credentials for a CAPI Cluster. By default none is: who
	// may write the kubeconfig Secret of a Cluster would run programs in this process. Compare the command with those that
	// are meant. Auth-providers, which Kubernetes has removed, are always refused.
	AllowExec func(ccl *clusterv1.Cluster, program *clientcmdapi.ExecConfig) bool

	// UnwatchedSecrets has no Secret listed or watched, for a user that may only get them. A kubeconfig is then read again
	// every Timing.Reread, and a rotation or deletion noticed by that.
	UnwatchedSecrets bool

	// KubeconfigAnnotations has the default of Source follow annotations archelon.io/kubeconfig-secret, NAME or
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

	// IsReady says whether a Cluster can be connected to, by default whether its phase is Provisioned. It is asked with
	// each event of a Cluster until the first yes: a Cluster that was ready stays engaged until it is deleted or not
	// selected.
	IsReady func(ctx context.Context, ccl *clusterv1.Cluster) bool

	// Select limits what is engaged; by default all Clusters are. A Cluster that is not selected any more is disengaged.
	Select func(*clusterv1.Cluster) bool

	// Predicates limit the events of Clusters that are looked at. One that keeps the event back with which a Cluster
	// leaves keeps it engaged: to leave Clusters out, use Select.
	Predicates []predicate.Predicate

	// ClustersOf returns the Clusters whose kubeconfig an object of kind Secret may hold, of which only metadata is known.
	// By default these are the Clusters for which Source names the Secret.
	ClustersOf func(secret client.Object) []types.NamespacedName

	// Name is that of the controller of Clusters on the local manager, "fleet" by default. Several providers in a process
	// need a name each, because controller-runtime counts by names of controllers.
	Name string

	// Concurrency is how many clusters are connected for the first time at once, 64 by default. As many retries as a
	// quarter of it run besides.
	Concurrency int

	// QPS and Burst limit the requests to each cluster, 20 and 30 by default.
	QPS   float32
	Burst int

	// MaxListBytes bounds the list of all objects of a kind that an informer receives, and each answer to a request: 64
	// MiB. A list that is larger is not asked for again for half an hour, and Status says so.
	MaxListBytes int64

	// Timing bounds what is waited for.
	Timing Timing

	// Metrics, if set, is where metrics are registered. For several providers in a process, wrap the registry for each of
	// them: prometheus.WrapRegistererWith(prometheus.Labels{"provider": "a"}, registry).
	Metrics prometheus.Registerer

	// Changed, if set, is called when the status of a Cluster has changed. It must not block.
	Changed func(types.NamespacedName)

	// readyByOthers is whether IsReady is not the default.
	readyByOthers bool
	// moved reports whether the kubeconfig of a Cluster may be another one than before, by the Cluster.
	moved func(before, after *clusterv1.Cluster) bool
}

// Timing bounds what is waited for. The zero value holds the defaults.
type Timing struct {
	// Dial bounds a TCP connection, and the TLS handshake after it: 5s.
	Dial time.Duration
	// Request bounds a request and its answer, and how long a server may take to begin the answer to a watch: 30s.
	// Watches last as long as they ask for.
	Request time.Duration
	// Sync is how long it may take until all objects of a kind were received. After that the kind is reported: 1m.
	Sync time.Duration
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
	// Reread is how often a kubeconfig is read again whose Secret is not watched: 1m.
	Reread time.Duration
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
		{&t.Sync, time.Minute},
		{&t.Engage, 30 * time.Second}, {&t.Probe, 5 * time.Second}, {&t.ProbeEvery, 10 * time.Second},
		{&t.RetryMin, 500 * time.Millisecond}, {&t.RetryMax, 30 * time.Second}, {&t.Rotation, 5 * time.Minute},
		{&t.Reread, time.Minute}, {&t.Idle, 2 * time.Minute}, {&t.ProbeIdleEvery, 2 * time.Minute},
	} {
		*field.value = cmp.Or(*field.value, field.is)
	}
	t.ProbeFailures = cmp.Or(t.ProbeFailures, 3)
}

// complete fills in defaults.
func (o *Options) complete(secrets client.Reader) error {
	if o.Concurrency < 0 || o.QPS < 0 || o.Burst < 0 || o.MaxListBytes < 0 {
		return errors.New("concurrency, rates and sizes cannot be negative")
	}
	o.completeKubeconfigs(secrets)
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
	o.readyByOthers = o.IsReady != nil
	if !o.readyByOthers {
		o.IsReady = func(_ context.Context, ccl *clusterv1.Cluster) bool { return provisioned(ccl) }
	}
	if o.Changed == nil {
		o.Changed = func(types.NamespacedName) {}
	}
	o.Name = cmp.Or(o.Name, "fleet")
	o.Concurrency, o.QPS, o.Burst = cmp.Or(o.Concurrency, 64), cmp.Or(o.QPS, 20), cmp.Or(o.Burst, 30)
	o.MaxListBytes = cmp.Or(o.MaxListBytes, 64<<20)
	o.Timing.complete()
	return nil
}
