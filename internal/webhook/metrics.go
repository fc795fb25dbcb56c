package webhook

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what is counted of webhooks, besides what controller-runtime counts.
type Metrics struct {
	requests *prometheus.CounterVec
	expiry   *prometheus.GaugeVec
}

// NewMetrics registers the metrics of webhooks:
//
//	archelon_webhook_requests_total{webhook,allowed}         answers
//	archelon_webhook_certificate_expiry_timestamp_seconds    end of the certificate that is served
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	if registry == nil {
		return nil, errors.New("metrics need a registry")
	}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "archelon_webhook_requests_total",
			Help: "Requests that an admission webhook answered, by its path and by whether they were allowed.",
		}, []string{"webhook", "allowed"}),
		// Without labels, and a vector all the same: there is no series until there is a certificate.
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "archelon_webhook_certificate_expiry_timestamp_seconds",
			Help: "Time at which the certificate ends that this replica serves webhooks with, in seconds since 1970.",
		}, []string{}),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.expiry} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) answered(path string, allowed bool) {
	m.requests.WithLabelValues(path, strconv.FormatBool(allowed)).Inc()
}

func (m *Metrics) served(end time.Time) {
	m.expiry.WithLabelValues().Set(float64(end.Unix()))
}
