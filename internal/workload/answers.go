package workload

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// What a stranger answers is decoded into maps, which take up to a hundred times the memory of the text: an empty
// object is three bytes of JSON. Dozens of clusters are worked on at once, so an answer is bounded to what is
// plausible, and only a few that are larger than usual are decoded at the same time.
const (
	// maxAnswerBytes bounds an object, or one page of a list. That of an agent has some ten kilobytes.
	maxAnswerBytes = 512 << 10
	// maxRefusalBytes is what is read of the reasons of a refusal; what follows is cut off.
	maxRefusalBytes = 32 << 10
	// usualAnswerBytes is the largest answer that waits for no turn.
	usualAnswerBytes = 16 << 10
	// largeAnswers is how many larger ones are decoded at the same time.
	largeAnswers = 2
)

// knownAs is the host of every workload cluster for client-go, which counts requests by host and code in metrics that
// nothing ever removes: tenants choose hosts, and could choose any number of them.
const knownAs = "workload"

// answerTransport sends requests to the host of a workload cluster. It reads an answer to its end, within its limit and
// the time of the request, before client-go decodes it.
type answerTransport struct {
	base http.RoundTripper
	host string
}

// RoundTrip implements http.RoundTripper.
func (t *answerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	turn := turnOf(req.Context())
	// The previous answer of the same call has been decoded by now.
	turn.end()
	resp, err := t.base.RoundTrip(t.address(req))
	if err != nil {
		return nil, &exchangeError{cause: err}
	}
	body, err := readAnswer(resp)
	if err == nil && resp.StatusCode < http.StatusMultipleChoices && len(body) > usualAnswerBytes {
		// Not for a refusal: client-go may pause after it, and would keep its turn.
		err = turn.take(req.Context())
	}
	if err != nil {
		return nil, &exchangeError{cause: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.StatusCode = knownCode(resp.StatusCode)
	return resp, nil
}

// address returns a request that is addressed to the host of the workload cluster.
func (t *answerTransport) address(req *http.Request) *http.Request {
	addressed := req.WithContext(req.Context())
	target := *req.URL
	target.Host = t.host
	addressed.URL, addressed.Host = &target, t.host
	return addressed
}

// knownCode folds codes that are not known into the first of their class, and those without a class into 500, as RFC
// 9110 (15) asks for. A server has as many codes to choose from as three digits make.
func knownCode(code int) int {
	switch {
	case code < http.StatusOK || code > 599:
		return http.StatusInternalServerError
	case http.StatusText(code) == "":
		return code / 100 * 100
	default:
		return code
	}
}

func readAnswer(resp *http.Response) ([]byte, error) {
	defer func() {
		// A failure to close costs a connection, nothing else.
		_ = resp.Body.Close()
	}()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// Nobody asked for that, and the time of the request does not bound what follows.
		return nil, nil
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes))
	}
	// What is applied comes back, and more with it.
	return io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswerBytes+2*max(resp.Request.ContentLength, 0)))
}

// turn is the right of a call to decode a large answer. A call takes it when the answer is there, not before, so that a
// server that is slow delays nobody else.
type turn struct {
	// turns holds an element for each turn that is taken.
	turns chan struct{}
	taken bool
}

// turnKey is the key of a call's turn in its context, the only way from a call to its transport.
type turnKey struct{}

func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

func (t *turn) take(ctx context.Context) error {
	if t == nil || t.taken {
		return nil
	}
	select {
	case t.turns <- struct{}{}:
		t.taken = true
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) end() {
	if t != nil && t.taken {
		t.taken = false
		<-t.turns
	}
}
