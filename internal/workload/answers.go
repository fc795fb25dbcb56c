package workload

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// What a stranger answers is decoded into maps, which take up to a hundred times the memory of the text: an empty object is three bytes of
// JSON. Dozens of clusters are worked on at once, so an answer is bounded to what is plausible, and only a few that are larger than
// usual are decoded at the same time.
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

// answerTransport reads an answer to its end, within its limit and the time of the request, before client-go decodes it.
type answerTransport struct {
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *answerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	turn := turnOf(req.Context())
	// The previous answer of the same call has been decoded by now.
	turn.end()
	resp, err := t.base.RoundTrip(req)
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
	return resp, nil
}

func readAnswer(resp *http.Response) ([]byte, error) {
	defer func() {
		// A failure to close costs a connection, nothing else.
		_ = resp.Body.Close()
	}()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes))
	}
	// What is applied comes back, and more with it.
	return io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswerBytes+2*max(resp.Request.ContentLength, 0)))
}

// turn is the right of a call to decode a large answer. A call takes it when the answer is there, not before, so that a server that is slow
// delays nobody else.
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
