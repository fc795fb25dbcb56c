package webhook

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

var errNoCertificate = errors.New("there is no certificate for the webhook yet")

// serving holds the certificate that this replica serves.
type serving struct {
	clock   clock.PassiveClock
	metrics *Metrics
	logger  logr.Logger
	current atomic.Pointer[tls.Certificate]
}

// offer serves another certificate from now on, for connections that are made from now on.
func (s *serving) offer(pair *tls.Certificate) {
	if before := s.current.Swap(pair); before != nil && before.Leaf.Equal(pair.Leaf) {
		return
	}
	s.metrics.served(pair.Leaf.NotAfter)
	s.logger.Info("Serving a webhook certificate", "notAfter", pair.Leaf.NotAfter)
}

// get is for tls.Config.
func (s *serving) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := s.current.Load(); current != nil {
		return current, nil
	}
	return nil, errNoCertificate
}

// Ready is a readiness check.
func (s *serving) ready(*http.Request) error {
	current := s.current.Load()
	if current == nil {
		return errNoCertificate
	}
	if !valid(current.Leaf, s.clock.Now()) {
		return errors.New("the certificate of the webhook has expired")
	}
	return nil
}
