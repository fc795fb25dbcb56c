package workload

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/outcome"
)

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Nine of ten looks at a cluster with a kubeconfig that is refused are no news of that.
func TestARefusedKubeconfigIsParsedOnce(t *testing.T) {
	raw := []byte("apiVersion: v1\nkind: Config\nusers: [" + strings.Repeat("{name: a},", 6000) + "]")
	clients, _ := clientsOf(t, Options{}, kubeconfigSecret(map[string][]byte{"value": raw}))
	look := func() {
		_, err := clients.Get(t.Context(), testKubeconfig)
		wantProblem(t, err, outcome.KindWait, "KubeconfigInvalid")
	}
	first := allocated(look)
	clients.Forget(testKubeconfig)
	if again := allocated(look); again > first/10 {
		t.Errorf("it takes %d KiB to refuse it again, and took %d the first time", again>>10, first>>10)
	}
}

func TestFewSecretsAreReadAtTheSameTime(t *testing.T) {
	var reading, most atomic.Int32
	begun, proceed := make(chan struct{}, 100), make(chan struct{})
	clients, err := NewClients(interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			if now := reading.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer reading.Add(-1)
			begun <- struct{}{}
			<-proceed
			return errors.New("no Secret")
		},
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	for range 3 * secretsAtOnce {
		go func() { _, _ = clients.Get(t.Context(), testKubeconfig); done <- struct{}{} }()
	}
	for range secretsAtOnce {
		<-begun
	}
	close(proceed)
	for range 3 * secretsAtOnce {
		<-done
	}
	if got := most.Load(); got != secretsAtOnce {
		t.Errorf("%d were read at the same time, want %d", got, secretsAtOnce)
	}
}

// A place that is not free is waited for no longer than the request lasts.
func TestPlacesAreFew(t *testing.T) {
	places := make(chan struct{}, 1)
	leave, err := take(t.Context(), places)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := take(ctx, places); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the request", err)
	}
	leave()
	if _, err := take(t.Context(), places); err != nil {
		t.Error(err)
	}
}

func TestTextsAreParsedOnceAndFewAtATime(t *testing.T) {
	var parses, now, most atomic.Int32
	begun, proceed := make(chan struct{}, 100), make(chan struct{})
	texts := NewTexts(10, func(text string) (int, error) {
		parses.Add(1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		begun <- struct{}{}
		<-proceed
		return len(text), nil
	})
	done := make(chan struct{})
	for i := range 3 * parsedAtOnce {
		go func() { _, _ = texts.Parse(fmt.Sprint("text ", i)); done <- struct{}{} }()
	}
	for range parsedAtOnce {
		<-begun
	}
	close(proceed)
	for range 3 * parsedAtOnce {
		<-done
	}
	if got := most.Load(); got > parsedAtOnce {
		t.Errorf("%d were parsed at the same time, want at most %d", got, parsedAtOnce)
	}
	before := parses.Load()
	if n, err := texts.Parse("text 1"); n != len("text 1") || err != nil || parses.Load() != before {
		t.Errorf("it was parsed again, as %d, %v", n, err)
	}
	for i := range 20 {
		_, _ = texts.Parse(fmt.Sprint("other ", i))
	}
	if got := texts.results.Len(); got != 10 {
		t.Errorf("%d results are kept, want 10", got)
	}
}
