package capi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tooLargeAgain is how long it takes until a list is asked for again that was too large.
const tooLargeAgain = 30 * time.Minute

// errTooLarge is what an informer gets in place of a list that was too large a while ago.
var errTooLarge = errors.New("the list has more bytes than are received of one kind, and is not asked for again for a while")

// RoundTrip implements http.RoundTripper.
func (l informers) RoundTrip(req *http.Request) (*http.Response, error) {
	what, kind := whatOf(req), resourceOf(req.URL.Path)
	if l.wasTooLarge(what) {
		return nil, errTooLarge
	}
	l.begin(what)
	resp, err := l.exchange(req, what)
	if err != nil {
		l.end()
		if late(err) && req.Context().Err() == nil {
			l.note(kind, KindTimeoutReason)
		}
		return nil, err
	}
	body := &received{ReadCloser: resp.Body, line: l.line, what: what, kind: kind, end: sync.OnceFunc(l.end)}
	switch code := resp.StatusCode; {
	case code == http.StatusForbidden:
		l.note(kind, ForbiddenReason)
	case code == http.StatusNotFound:
		l.note(kind, KindMissingReason)
	case code >= http.StatusInternalServerError && code != http.StatusGatewayTimeout:
		l.note(kind, KindFailingReason)
	case code >= http.StatusMultipleChoices:
	case !isWatch(req):
		body.complete = func(err error) bool { return errors.Is(err, io.EOF) }
	case req.URL.Query().Get("sendInitialEvents") == "true":
		body.left = l.most
	default:
		l.note(kind, "")
	}
	resp.Body = body
	return resp, nil
}

// whatOf names what an informer asks for: objects of a kind, in a form.
func whatOf(req *http.Request) string {
	query := req.URL.Query()
	return req.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector") + " " + req.Header.Get("Accept")
}

// resourceOf names what a list or watch asks for, "deployments.apps".
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return parts[0] + group
}

// late reports whether a server did not answer, or did not send all of its answer, in time.
func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errNoHeader)
}

// received is the body of an answer to an informer. It notes whether all objects of the kind arrived.
type received struct {
	io.ReadCloser
	line       *line
	what, kind string
	// complete reports whether a list is complete that ends with an error. It is nil for a watch.
	complete func(error) bool
	// left is how many bytes there may be before the end of the objects that a watch begins with, zero for a watch that
	// begins with none; tail is what was read last.
	left int64
	tail []byte
	end  func()
}

// Read implements io.Reader.
func (r *received) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.left > 0 {
		n, err = r.initial(p[:n], err)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		r.line.large(r.what, r.kind)
	case err != nil && r.complete != nil && r.complete(err):
		r.line.note(r.kind, "")
	case err != nil && r.complete != nil && late(err):
		r.line.note(r.kind, KindTimeoutReason)
	}
	return n, err
}

// initial looks for the end of the objects that a watch begins with, and counts the bytes before it.
func (r *received) initial(read []byte, err error) (int, error) {
	mark := []byte(metav1.InitialEventsAnnotationKey)
	window := slices.Concat(r.tail, read)
	if bytes.Contains(window, mark) {
		r.left, r.tail = 0, nil
		r.line.note(r.kind, "")
		return len(read), err
	}
	r.tail = bytes.Clone(window[max(0, len(window)-len(mark)+1):])
	if r.left -= int64(len(read)); r.left <= 0 {
		r.left = 0
		return 0, &http.MaxBytesError{Limit: r.line.most}
	}
	return len(read), err
}

// Close implements io.Closer.
func (r *received) Close() error {
	r.end()
	return r.ReadCloser.Close()
}

// large keeps that a list is too large.
func (l *line) large(what, kind string) {
	l.mu.Lock()
	l.tooLarge[what] = time.Now()
	l.mu.Unlock()
	l.note(kind, KindTooLargeReason)
}

func (l *line) wasTooLarge(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.tooLarge[what]
	return ok && time.Since(found) < tooLargeAgain
}

// connectedSince is when the connection was made.
func (l *line) connectedSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}
