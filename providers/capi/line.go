package capi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// knownAs is the host of every workload cluster for client-go, which counts requests by host in metrics that nothing
	// ever removes.
	knownAs = "workload"
	// watchLasts bounds a watch that does not say how long it lasts; watchGrace is added to what others say.
	watchLasts = 30 * time.Minute
	watchGrace = 30 * time.Second
	// renewal is how long a request that was refused waits for other credentials.
	renewal = 10 * time.Second
)

// line is the way to a cluster, below all clients and informers of it. It outlasts connections: one takes the place of
// another without those above knowing of it.
type line struct {
	// refusedBy is called when a server does not accept the credentials of a connection, and troubled when what is wrong
	// with a kind has changed. They must not block.
	refusedBy func(*session)
	troubled  func()
	// most is how many bytes a list of all objects of a kind may have.
	most int64

	mu        sync.Mutex
	conn      *session
	authority [sha256.Size]byte // of the last connection
	changed   chan struct{}     // closed with the next change of conn
	// watching counts the requests of informers that are under way.
	watching int
	// stale has what informers ask for, and whether they have to begin anew, because their versions are of another server.
	stale map[string]bool
	// wrong is what is wrong with a kind, by its resource.
	wrong map[string]string
	// tooLarge is what cannot be taken whole, and when it was found out.
	tooLarge map[string]time.Time
	used     time.Time
	since    time.Time // of the connection
}

func newLine(refusedBy func(*session), troubled func(), most int64) *line {
	return &line{
		refusedBy: refusedBy, troubled: troubled, most: most, changed: make(chan struct{}),
		stale: map[string]bool{}, wrong: map[string]string{}, tooLarge: map[string]time.Time{}, used: time.Now(),
	}
}

// connected returns the connection, nil if there is none.
func (l *line) connected() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// connect puts a connection in the place of the one before, if any, or none in its place.
func (l *line) connect(conn *session) {
	l.replace(func(*session) bool { return true }, conn)
}

// replace does as connect if the connection before is the one that is meant.
func (l *line) replace(meant func(before *session) bool, conn *session) {
	l.mu.Lock()
	before := l.conn
	if !meant(before) {
		l.mu.Unlock()
		return
	}
	l.conn = conn
	if conn != nil && conn.authority != l.authority {
		for what := range l.stale {
			l.stale[what] = true
		}
		l.authority = conn.authority
		clear(l.tooLarge)
	}
	l.since = time.Now()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	switch {
	case before == nil:
	case conn == nil:
		before.cut()
	default:
		before.withdraw()
	}
}

// cut ends a connection, unless another one has taken its place.
func (l *line) cut(conn *session) {
	l.replace(func(before *session) bool { return before == conn }, nil)
}

// take returns the connection, which is not closed for a successor until it is released. Without one,
// who is patient waits for it.
func (l *line) take(ctx context.Context, patient bool) (*session, error) {
	for {
		l.mu.Lock()
		conn, changed := l.conn, l.changed
		if conn != nil {
			conn.inflight.Add(1)
		}
		l.mu.Unlock()
		switch {
		case conn != nil:
			return conn, nil
		case !patient:
			return nil, ErrNotConnected
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// successor waits until other credentials are there than those that were refused, and reports whether they are.
func (l *line) successor(ctx context.Context, refused *session) bool {
	if refused.denied.Load() {
		return false
	}
	l.refusedBy(refused)
	timer := time.NewTimer(renewal)
	defer timer.Stop()
	for {
		l.mu.Lock()
		conn, changed := l.conn, l.changed
		l.mu.Unlock()
		if conn != refused {
			return conn != nil
		}
		select {
		case <-changed:
		case <-refused.settled:
			return false
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// idle is how long nobody has used the line; informers use it all the time.
func (l *line) idle(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watching > 0 {
		return 0
	}
	return now.Sub(l.used)
}

// note keeps what is wrong with a kind; nothing, if it is empty.
func (l *line) note(kind, reason string) {
	l.mu.Lock()
	before := l.wrong[kind]
	if reason == "" {
		delete(l.wrong, kind)
	} else {
		l.wrong[kind] = reason
	}
	l.mu.Unlock()
	if before != reason {
		l.troubled()
	}
}

// troubles returns what is wrong with kinds.
func (l *line) troubles() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.wrong)
}

// Clients of a cluster fail while it is not connected; informers wait.
type (
	clients   struct{ *line }
	informers struct{ *line }
)

// RoundTrip implements http.RoundTripper.
func (l clients) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.used = time.Now()
	l.mu.Unlock()
	resp, err := l.exchange(req, "")
	if err != nil && req.Context().Err() == nil {
		// client-go would repeat a read that broke off for ten seconds and more.
		return nil, &exchangeError{cause: err}
	}
	return resp, err
}

// begin counts a request of an informer.
func (l *line) begin(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching++
	if _, known := l.stale[what]; !known {
		l.stale[what] = false
	}
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching--
	l.used = time.Now()
}

// outdated reports, once, whether an informer would go on with versions of another server.
func (l *line) outdated(what string, req *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stale[what] {
		return false
	}
	l.stale[what] = false
	query := req.URL.Query()
	return isWatch(req) && query.Get("sendInitialEvents") != "true" && query.Get("resourceVersion") != ""
}

// exchange sends a request over the connection that there is. It is sent again if that was replaced meanwhile, before
// an answer came or because its credentials were refused. What an informer asks for is named.
func (l *line) exchange(req *http.Request, what string) (*http.Response, error) {
	if req.URL.Host != knownAs {
		return nil, errors.New("the workload cluster redirects to another host, which is not followed")
	}
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		conn, err := l.take(req.Context(), what != "")
		if err != nil {
			return nil, err
		}
		if what != "" && l.outdated(what, req) {
			conn.release()
			return expired(req)
		}
		resp, err := conn.exchange(body(req))
		conn.release()
		const most = 3
		switch {
		case tries == most || req.Context().Err() != nil:
			return resp, err
		case err != nil:
			// A watch ends with its connection. For anything else the answer is lost.
			if isWatch(req) && conn.watches.Err() != nil {
				continue
			}
			return nil, err
		case resp.StatusCode != http.StatusUnauthorized || !l.successor(req.Context(), conn):
			return resp, nil
		}
		_ = resp.Body.Close() // it is sent again
	}
}

func (c *session) exchange(req *http.Request) (*http.Response, error) {
	if !isWatch(req) {
		return c.request(req)
	}
	lasts := watchLasts
	if seconds, err := strconv.Atoi(req.URL.Query().Get("timeoutSeconds")); err == nil && seconds > 0 {
		lasts = time.Duration(seconds)*time.Second + watchGrace
	}
	return c.watch(req, lasts)
}

// bodyOf returns a function that gives a request its body, each time anew.
func bodyOf(req *http.Request) (func(*http.Request) *http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return func(req *http.Request) *http.Request { return req }, nil
	}
	content, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := req.Body.Close(); err != nil {
		return nil, err
	}
	return func(req *http.Request) *http.Request {
		again := req.WithContext(req.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
		return again
	}, nil
}

func isWatch(req *http.Request) bool {
	watch := req.URL.Query().Get("watch")
	return req.Method == http.MethodGet && (watch == "true" || watch == "1")
}

// expired is what an API server answers to a watch whose version it does not know any more. The informer lists then,
// and what has gone is seen to have gone.
func expired(req *http.Request) (*http.Response, error) {
	raw, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonExpired, Code: http.StatusGone, Message: "The cluster has another address or authority",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)),
	}, nil
}

// exchangeError is a request without an answer. Whether to try again is for the caller.
type exchangeError struct{ cause error }

// Error implements error.
func (e *exchangeError) Error() string {
	return "the exchange with the workload cluster broke off: " + e.cause.Error()
}

// Is has it found what it is.
func (e *exchangeError) Is(target error) bool {
	return target == ErrNotConnected && e.cause == ErrNotConnected
}

// Timeout is what an error that wraps it asks for, without knowing the cause.
func (e *exchangeError) Timeout() bool {
	timeout, ok := e.cause.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}
