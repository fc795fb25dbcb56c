package hostclaim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// Metrics are the counts of claims.
type Metrics struct {
	latency *prometheus.HistogramVec
	claims  *prometheus.Desc

	mu   sync.Mutex
	read []client.Reader
}

// NewMetrics registers the metrics of claims:
//
//	archelon_hostclaim_claims{kind,namespace,state}    claims by what became of them
//	archelon_hostclaim_bind_seconds{kind}              time from the creation of a claim until it has a host
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "archelon_hostclaim_bind_seconds",
			Help:    "Time from the creation of a HostClaim until it has a host.",
			Buckets: []float64{0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 21600, 86400},
		}, []string{"kind"}),
		claims: prometheus.NewDesc("archelon_hostclaim_claims",
			"HostClaims by state: new, waiting, invalid, binding, bound, lost, apart, dropped or deleting. Each replica counts.",
			[]string{"kind", "namespace", "state"}, nil),
	}
	for _, collector := range []prometheus.Collector{m.latency, m} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// readTimeout bounds a read from a cache that has yet to be filled.
const readTimeout = time.Second

// Bound is told how long it took until a claim had a host.
func (m *Metrics) Bound(kind string, after time.Duration) {
	if m != nil {
		m.latency.WithLabelValues(kind).Observe(after.Seconds())
	}
}

// Count has the claims counted that are in caches.
func (m *Metrics) Count(claims ...client.Reader) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.read = append(m.read, claims...)
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) { descs <- m.claims }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	read := slices.Clone(m.read)
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	type key struct{ kind, namespace, state string }
	counts := map[key]int{}
	for _, claims := range read {
		list := &metal3v1.HostClaimList{}
		if claims.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
			return // The cache has stopped, or has yet to start.
		}
		for i := range list.Items {
			claim := &list.Items[i]
			counts[key{spelled(claim.Spec.Kind), claim.Namespace, stateOf(claim)}]++
		}
	}
	for k, count := range counts {
		metrics <- prometheus.MustNewConstMetric(m.claims, prometheus.GaugeValue, float64(count), k.kind, k.namespace, k.state)
	}
}

// stateOf returns what became of a claim.
func stateOf(claim *metal3v1.HostClaim) string {
	if claim.DeletionTimestamp != nil {
		return "deleting"
	}
	if ConditionOf(claim, metal3v1.ReadyCondition).Reason == metal3v1.FieldsDroppedReason {
		return "dropped"
	}
	if ConditionOf(claim, metal3v1.RemoteSyncedCondition).Status == metav1.ConditionFalse {
		return "apart"
	}
	state, ok := map[string]string{
		"":                                     "new",
		metal3v1.NoBareMetalHostReason:         "waiting",
		metal3v1.SelectorInvalidReason:         "invalid",
		metal3v1.BindingReason:                 "binding",
		metal3v1.BareMetalHostAssociatedReason: "bound",
		metal3v1.PermissionWithdrawnReason:     "bound",
		metal3v1.HostDeletingReason:            "bound",
		metal3v1.HostLostReason:                "lost",
	}[ConditionOf(claim, metal3v1.AssociatedCondition).Reason]
	if !ok {
		return "new"
	}
	return state
}
