package workload

import (
	"context"

	"k8s.io/utils/lru"
)

// What a tenant writes is parsed into hundreds of times its size, and as many tenants write it at once as they
// like. So what is parsed is limited in size first, a few texts are parsed at the same time, and a text that
// cannot be used is parsed once.
const (
	// parsedAtOnce is how many texts of one kind are parsed at the same time.
	parsedAtOnce = 2
	// secretsAtOnce is how many kubeconfig Secrets are read at the same time. A tenant's may have 1 MiB, which takes four
	// times that until it is decoded, and its size is not known before.
	secretsAtOnce = 8
	// refusalsKept is how many kubeconfigs are remembered as refused. Each takes some hundred bytes.
	refusalsKept = 4096
)

// take waits for one of a few places. The returned function gives it back.
func take(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Texts parses texts of tenants, a few at the same time. It keeps what the last ones said by their digest, so that what
// is parsed in each reconcile costs nothing: whoever gets a result must not change it.
type Texts[T any] struct {
	parse   func(text string) (T, error)
	places  chan struct{}
	results *lru.Cache
}

type parsed[T any] struct {
	result T
	err    error
}

// NewTexts returns Texts that keep as many results as it is told.
func NewTexts[T any](kept int, parse func(text string) (T, error)) *Texts[T] {
	return &Texts[T]{parse: parse, places: make(chan struct{}, parsedAtOnce), results: lru.New(kept)}
}

// Parse returns what the text says. It waits for others that are being parsed, which takes milliseconds: texts are
// limited in size by the caller.
func (t *Texts[T]) Parse(text string) (T, error) {
	digest := fingerprintOf([]byte(text))
	if known, ok := t.results.Get(digest); ok {
		p, _ := known.(parsed[T])
		return p.result, p.err
	}
	t.places <- struct{}{}
	defer func() { <-t.places }()
	var p parsed[T]
	p.result, p.err = t.parse(text)
	t.results.Add(digest, p)
	return p.result, p.err
}
