package main

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// delaying has what watches tell come later, as from an API server that is slow: caches are as old as that.
func delaying(by time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.URL.Query().Has("watch") {
				response.Body = newLate(response.Body, by)
			}
			return response, err
		})
	}
}

// late is a body that is read at once, and handed on after a while.
type late struct {
	body   io.ReadCloser
	chunks chan chunk
	closed chan struct{}
	close  sync.Once
	rest   chunk
}

// chunk is a part of a body, or how it ended.
type chunk struct {
	data []byte
	err  error
	due  time.Time
}

func newLate(body io.ReadCloser, by time.Duration) *late {
	l := &late{body: body, chunks: make(chan chunk, 1024), closed: make(chan struct{})}
	go func() {
		for {
			buffer := make([]byte, 32<<10)
			n, err := body.Read(buffer)
			select {
			case l.chunks <- chunk{buffer[:n], err, time.Now().Add(by)}:
			case <-l.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// Read implements io.Reader.
func (l *late) Read(into []byte) (int, error) {
	for len(l.rest.data) == 0 {
		if l.rest.err != nil {
			return 0, l.rest.err
		}
		select {
		case l.rest = <-l.chunks:
		case <-l.closed:
			return 0, http.ErrBodyReadAfterClose
		}
		select {
		case <-time.After(time.Until(l.rest.due)):
		case <-l.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	n := copy(into, l.rest.data)
	l.rest.data = l.rest.data[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *late) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.body.Close()
}
