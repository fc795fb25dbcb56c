package capi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// grace is the time for which a connection is kept although the kubeconfig in the Secret does not connect. The zero
// value is that there is none.
type grace struct {
	until time.Time
	// problem is what is wrong with the kubeconfig in the Secret.
	problem string
	// timer cuts the connection at that time, whatever the member does at the moment.
	timer *time.Timer
}

func (g *grace) given() bool { return g.timer != nil }

// message says what is wrong, until when the connection is kept, and what to do.
func (g *grace) message() string {
	return fmt.Sprintf("The kubeconfig cannot be used: %s. The connection with the earlier kubeconfig is kept until %s. "+
		"Correct the kubeconfig before then. To end the connection now, revoke the earlier credentials in the workload "+
		"cluster",
		g.problem, g.until.UTC().Format(time.RFC3339))
}

// keep gives a connection its grace, which begins with the first problem and does not begin anew with the next one.
func (m *member) keep(conn *session, cause string) {
	m.grace.problem = cause
	if m.grace.given() {
		return
	}
	rotation := m.provider.opts.Timing.Rotation
	m.grace.until = time.Now().Add(rotation)
	m.grace.timer = time.AfterFunc(rotation, func() {
		m.line.cut(conn)
		m.awake()
	})
}

// endGrace forgets the grace: the connection was replaced, or is no more.
func (m *member) endGrace() {
	if m.grace.given() {
		m.grace.timer.Stop()
	}
	m.grace, m.rereadAfter = grace{}, time.Time{}
}

// disconnect ends the connection.
func (m *member) disconnect() {
	m.endGrace()
	m.line.connect(nil)
}

// troubled says why the kubeconfig in the Secret does not connect. It reports whether there is a connection that is
// kept, and else when to try again.
func (m *member) troubled(ctx context.Context, err error) (wait time.Duration, kept bool) {
	if ctx.Err() != nil {
		return m.provider.opts.Timing.RetryMax, false
	}
	conn := m.line.connected()
	var none *unreadable
	unusable := errors.As(err, &none)
	found, known := errors.AsType[*problem.Problem](err)
	if unusable && known {
		// What comes next is told by its Secret. A GetSecret of others may read something else, which is looked at now and
		// then.
		m.attempts = max(m.attempts, 6)
	}
	wait = m.backoff()
	switch {
	case errors.Is(err, ErrAccessEnded):
		m.attempts = max(m.attempts, 6)
		m.disconnect()
		m.become(m.without(Pending), AccessEndedReason, "GetSecret of the provider says that the access to the cluster has ended")
		return wait, false
	case unusable && !known:
		// The management cluster did not answer: what there is stays, for as long as it may.
		m.log.Error(err, "Reading the kubeconfig failed")
		if conn == nil {
			m.endGrace()
			m.become(m.without(Connecting), KubeconfigUnreadableReason, "the kubeconfig could not be read: see the log")
		}
	case conn != nil && (!known || !kubeconfig.IsRefusal(found.Reason)):
		m.keep(conn, text(found, err))
	default:
		m.disconnect()
		never, reason := Connecting, connection.UnreachableReason
		if known {
			reason = found.Reason
		}
		if unusable {
			never = Pending
		}
		m.become(m.without(never), reason, text(found, err))
		return wait, false
	}
	m.rereadAfter = time.Now().Add(wait)
	return wait, conn != nil
}

func text(found *problem.Problem, err error) string {
	if found != nil {
		return found.Message
	}
	return err.Error()
}
