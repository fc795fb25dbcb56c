package capi

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// step does what is to be done now, and returns when to look again at the latest.
func (m *member) step(ctx context.Context) time.Duration {
	m.mu.Lock()
	reread, suspect := m.reread, m.suspect != nil
	m.reread = false
	m.mu.Unlock()
	due := !m.rereadAfter.IsZero() && !time.Now().Before(m.rereadAfter) || m.untilReread() <= 0
	if conn := m.line.connected(); conn == nil || reread || suspect || due {
		if err := m.renew(ctx, conn); err != nil {
			if wait, kept := m.troubled(ctx, err); !kept {
				return wait
			}
		}
	}
	conn := m.line.connected()
	if conn == nil {
		return m.backoff()
	}
	if wait := m.check(ctx, conn); wait > 0 {
		return wait
	}
	if m.rereadAfter.IsZero() {
		m.attempts = 0
	}
	if wait := m.engage(ctx); wait > 0 {
		return min(wait, m.next())
	}
	m.judge()
	return m.next()
}

// check reports whether a connection still works: it returns zero if it does, and else when to look again.
func (m *member) check(ctx context.Context, conn *session) time.Duration {
	suspected, still := m.doubtful(conn)
	if still {
		return m.provider.opts.Timing.RetryMin
	}
	if suspected {
		defer conn.settle() // Whoever waits for others learns that there are none.
	}
	return m.probe(ctx, conn, suspected)
}

// next returns when a connected cluster is looked at again.
func (m *member) next() time.Duration {
	timing := m.provider.opts.Timing
	every := timing.ProbeEvery
	if m.line.idle(time.Now()) > timing.Idle {
		every = timing.ProbeIdleEvery
		if conn := m.line.connected(); conn != nil {
			conn.transport.CloseIdleConnections()
		}
	}
	every = time.Duration(float64(every) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // it spreads load
	every = min(every, m.untilReread())
	if !m.lateAfter.IsZero() {
		every = min(every, max(0, time.Until(m.lateAfter)))
	}
	if m.rereadAfter.IsZero() {
		return every
	}
	return min(every, time.Until(m.rereadAfter))
}

func (m *member) backoff() time.Duration {
	timing := m.provider.opts.Timing
	wait := min(timing.RetryMin<<min(m.attempts, 16), timing.RetryMax)
	m.attempts++
	return time.Duration(float64(wait) * (0.75 + 0.25*rand.Float64())) //nolint:gosec // it spreads load
}

// renew reads the kubeconfig, and connects with it if it is another one than that of the connection.
func (m *member) renew(ctx context.Context, before *session) error {
	ccl, _ := m.cluster()
	bounded, cancel := context.WithTimeout(ctx, m.provider.opts.Timing.Request)
	config, err := m.provider.opts.GetSecret(bounded, ccl.DeepCopy())
	cancel()
	m.read = time.Now()
	if err == nil {
		err = m.permit(ccl, config)
	}
	if err != nil {
		return &unreadable{explained(err)}
	}
	next, err := newSession(config, m.provider.opts.Timing, m.provider.opts.MaxListBytes)
	if err != nil {
		return &unreadable{err}
	}
	if before != nil && before.fingerprint == next.fingerprint {
		next.cut()
		m.endGrace()
		return nil
	}
	began := time.Now()
	if err := m.provider.turn(ctx, m.attempts == 0, func() error { return next.probe(ctx) }); err != nil {
		next.cut()
		return err
	}
	m.endGrace()
	m.line.connect(next)
	m.probed, m.failures = time.Now(), 0
	m.engageAtOnce()
	m.provider.metrics.connected(time.Since(began), before != nil)
	return nil
}

// permit refuses credentials that a program has to get, unless that is allowed.
func (m *member) permit(ccl *clusterv1.Cluster, config *rest.Config) error {
	allowed := m.provider.opts.AllowExec
	if config.ExecProvider != nil && (allowed == nil || !allowed(ccl, config.ExecProvider)) {
		return refused(kubeconfig.ExecReason, "Programs are not run to get credentials, unless AllowExec of the provider allows it")
	}
	return nil
}

// explained names an error of a GetSecret of others that is one of a missing Secret.
func explained(err error) error {
	if _, known := errors.AsType[*problem.Problem](err); !known && apierrors.IsNotFound(err) {
		return refused(kubeconfig.MissingReason, "The Secret with the kubeconfig does not exist")
	}
	return err
}

// untilReread is how long it takes until the kubeconfig is read again because no event tells of its Secret.
func (m *member) untilReread() time.Duration {
	if !m.provider.opts.UnwatchedSecrets {
		return time.Duration(math.MaxInt64)
	}
	return time.Until(m.read.Add(m.provider.opts.Timing.Reread))
}

// unreadable is that there is no access to a cluster: no kubeconfig, or none that can be used.
type unreadable struct{ cause error }

// Error implements error.
func (u *unreadable) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u *unreadable) Unwrap() error { return u.cause }

// without is the state of a cluster that controllers cannot work with: one that they worked with is disconnected.
func (m *member) without(never State) State {
	if m.worked {
		return Disconnected
	}
	return never
}

// probe asks a connected cluster whether it is there, if that is due. One that does not answer is disconnected, and it
// returns when to try again; zero if all is well.
func (m *member) probe(ctx context.Context, conn *session, now bool) time.Duration {
	timing := m.provider.opts.Timing
	due := timing.ProbeEvery
	if m.line.idle(time.Now()) > timing.Idle {
		due = timing.ProbeIdleEvery
	}
	const early = 8 // what is due in a moment is done at once
	if !now && m.failures == 0 && time.Since(m.probed) < due-due/early {
		return 0
	}
	err := conn.probe(ctx)
	m.probed = time.Now()
	if err == nil {
		m.failures = 0
		return 0
	}
	if ctx.Err() != nil {
		return timing.RetryMax
	}
	m.failures++
	m.provider.metrics.probeFailed()
	found, known := errors.AsType[*problem.Problem](err)
	refused := known && found.Reason == connection.UnauthorizedReason
	if refused && !now {
		m.suspectCredentials(conn)
		return timing.RetryMin
	}
	if m.failures < timing.ProbeFailures && !refused {
		return timing.Probe / time.Duration(timing.ProbeFailures)
	}
	m.failures = 0
	m.disconnect()
	reason, message := connection.UnreachableReason, text(found, err)
	if known {
		reason = found.Reason
	}
	m.become(m.without(Connecting), reason, message)
	return m.backoff()
}
