package capi

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

func pemOf(raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}) }

func execPlugin(t *testing.T) *api.ExecConfig {
	t.Helper()
	return &api.ExecConfig{Command: "touch", Args: []string{t.TempDir() + "/ran"}, APIVersion: "client.authentication.k8s.io/v1"}
}

// Each token is revoked at the moment in which the Secret gets the next one, while a controller reads and writes.
func TestRotationFailsNoRequest(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "0")
	put(t, s, "first", "1")
	name := f.add("one", s.access("0"))
	f.becomes(name, Engaged, EngagedReason)
	eventually(t, "the controller has begun", func() bool { return f.aware.has(name, "first", "1") })
	lists := s.listed()

	var requests atomic.Int64
	done := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := work(f, name); err != nil {
					t.Error(err)
					return
				}
				requests.Add(3)
			}
		})
	}
	for _, token := range []string{"1", "2", "3", "4", "5"} {
		at := requests.Load()
		eventually(t, "the workers go on", func() bool { return requests.Load() > at+20 || t.Failed() })
		s.accept(token)
		put(t, s, "rotated", token)
		f.give("one", s.access(token))
		eventually(t, "what was written meanwhile arrives", func() bool { return f.aware.has(name, "rotated", token) })
	}
	close(done)
	workers.Wait()
	if f.aware.count(name) != 1 {
		t.Errorf("it was engaged %d times", f.aware.count(name))
	}
	// A watch that lasted less than a second without an event is followed by a list: that is the informer's caution.
	// One is for the connection that ends. The next can end as soon when a slow machine is at the next token by then.
	if again := s.listed() - lists - int(requests.Load())/3; again > 2*5 {
		t.Errorf("informers listed %d times for 5 tokens", again)
	}
	f.becomes(name, Engaged, EngagedReason)
}

// work writes, reads and deletes, as a reconciler does.
func work(f *fleet, name multicluster.ClusterName) error {
	c, err := f.Get(f.t.Context(), name)
	if err != nil {
		return err
	}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "written-"}}
	if err := c.GetClient().Create(f.t.Context(), written); err != nil {
		return fmt.Errorf("a write failed: %w", err)
	}
	if err := c.GetAPIReader().List(f.t.Context(), &corev1.SecretList{}); err != nil {
		return fmt.Errorf("a read failed: %w", err)
	}
	if err := c.GetClient().Delete(f.t.Context(), written); err != nil {
		return fmt.Errorf("a deletion failed: %w", err)
	}
	return nil
}

// The informer goes on where it was, over the new connection, and the old connection is closed.
func TestRotationGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "0", "1")
	put(t, s, "first", "1")
	name := f.add("one", s.access("0"))
	eventually(t, "the controller has begun", func() bool { return f.aware.has(name, "first", "1") })
	// A watch that ends within a second and brought nothing is suspicious to an informer, which lists again then.
	put(t, s, "second", "2")
	eventually(t, "the watch brings something", func() bool { return f.aware.has(name, "second", "2") })
	lists := s.listed()
	f.give("one", s.access("1"))
	eventually(t, "the old connection is closed", func() bool { return s.open() == 1 })
	s.accept("1")
	put(t, s, "third", "3")
	eventually(t, "the watch goes on", func() bool { return f.aware.has(name, "third", "3") })
	if s.listed() != lists {
		t.Errorf("it was listed %d times", s.listed()-lists)
	}
	f.aware.mu.Lock()
	defer f.aware.mu.Unlock()
	if got, want := len(f.aware.events), 3; got != want {
		t.Errorf("events were %v", f.aware.events)
	}
}

// A token is replaced again and again. Nothing adds up.
func TestTokensThatChangeOften(t *testing.T) {
	f, s := newFleet(t, nil), newServer(t, "0", "1")
	name := f.add("one", s.access("0"))
	f.becomes(name, Engaged, EngagedReason)
	turn := func(token string) {
		next := s.access(token)
		f.give("one", next)
		eventually(t, "the next token is used", func() bool { return uses(f, map[string]string{"one": fingerprintOf(next)}) })
		eventually(t, "the old connection is closed", func() bool { return s.open() == 1 })
	}
	turn("1")
	turn("0")
	before := runtime.NumGoroutine()
	for range 10 {
		turn("1")
		turn("0")
	}
	settled(t, before)
	if f.aware.count(name) != 1 {
		t.Errorf("it was engaged %d times", f.aware.count(name))
	}
}

// The management cluster is throttled: what is connected stays, and what comes is connected as soon as it can be.
func TestManagementClusterThatThrottles(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	f.mu.Lock()
	f.err = apierrors.NewTooManyRequests("later", 1)
	f.mu.Unlock()
	f.give("one", s.access("a"))
	other := f.add("other", s.access("a"))
	f.becomes(other, Connecting, KubeconfigUnreadableReason)
	f.becomes(name, Engaged, EngagedReason)
	if err := work(f, name); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	f.err = nil
	f.mu.Unlock()
	f.becomes(other, Engaged, EngagedReason)
}

// The address and the authority change, and what is there as well: the cluster was restored elsewhere.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	f, before, after := newFleet(t, nil), newServer(t, "a"), newServer(t, "a")
	put(t, before, "old", "1")
	put(t, before, "both", "1")
	for range 20 { // so that the version of the one is far ahead
		put(t, after, "both", "2")
	}
	name := f.add("one", before.access("a"))
	eventually(t, "the controller has begun", func() bool { return f.aware.has(name, "old", "1") })
	f.give("one", after.access("a"))
	eventually(t, "what has gone is seen to have gone", func() bool {
		return f.aware.has(name, "both", "2") && !f.aware.has(name, "old", "1")
	})
	put(t, after, "new", "3")
	eventually(t, "what comes is seen", func() bool { return f.aware.has(name, "new", "3") })
	eventually(t, "the old connection is closed", func() bool { return before.open() == 0 })
	if f.aware.count(name) != 1 {
		t.Errorf("it was engaged %d times", f.aware.count(name))
	}
}

// Credentials expire on the server, and the Secret says nothing of it.
func TestCredentialsThatExpire(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	c, err := f.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	s.accept("b")
	if err := c.GetAPIReader().List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("a request with credentials that expired succeeded")
	}
	f.becomes(name, Disconnected, connection.UnauthorizedReason)
	f.mu.Lock()
	f.access["one"] = s.access("b") // no event tells
	f.mu.Unlock()
	f.becomes(name, Engaged, EngagedReason)
}

// A request that was refused waits for other credentials until it is known that there are none.
func TestNobodyWaitsForCredentialsThatDoNotCome(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(*line, *session){
		"there are no others": func(_ *line, refused *session) { refused.settle() },
		"it is disconnected":  func(l *line, _ *session) { l.connect(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				refused, err := newSession(&rest.Config{Host: "https://127.0.0.1:1"}, quick(), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				var l *line
				l = newLine(func(*session) { time.AfterFunc(time.Second, func() { known(l, refused) }) }, func() {}, 1<<20)
				l.connect(refused)
				began := time.Now()
				if l.successor(t.Context(), refused) {
					t.Error("it was told that there are others")
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("it waited for %s", took)
				}
				refused.cut()
			})
		})
	}
}

func TestServerThatGoesAndComes(t *testing.T) {
	t.Parallel()
	// It also says how long it takes until a server that failed is asked again.
	f, s := newFleet(t, func(o *Options) { o.Timing.Probe = 2 * time.Second }), newServer(t, "a")
	put(t, s, "first", "1")
	name := f.add("one", s.access("a"))
	eventually(t, "the controller has begun", func() bool { return f.aware.has(name, "first", "1") })
	s.fail(func(*http.Request) int { return http.StatusServiceUnavailable })
	s.CloseClientConnections()
	f.becomes(name, Disconnected, connection.ServerErrorReason)
	c, err := f.Get(t.Context(), name)
	if !errors.Is(err, ErrNotConnected) {
		t.Errorf("Get: %v, %v", c, err)
	}
	put(t, s, "meanwhile", "2")
	remove(t, s, "first")
	s.fail(func(*http.Request) int { return 0 })
	f.becomes(name, Engaged, EngagedReason)
	eventually(t, "what happened meanwhile is received", func() bool {
		return f.aware.has(name, "meanwhile", "2") && !f.aware.has(name, "first", "1")
	})
}

// A server chooses how long a client is to pause, which could be for ever.
func TestServerThatAsksForPatience(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	s.fail(func(r *http.Request) int {
		if r.URL.Path == "/version" {
			return 0
		}
		return http.StatusTooManyRequests
	})
	c, err := f.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience) // it asks for an hour
	defer cancel()
	if err := c.GetAPIReader().List(ctx, &corev1.SecretList{}); err == nil || ctx.Err() != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestIdleClusterHoldsNoConnection(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(o *Options) {
		o.Timing.Idle, o.Timing.ProbeIdleEvery = 50*time.Millisecond, time.Hour
		o.NewCluster = nil
	})
	f.aware.block = "" // it is replaced by one that watches nothing
	s := serverWith(t, workloadserver.Handler(), "a")
	f.Provider.mu.Lock()
	f.Provider.aware = nothing{}
	f.Provider.mu.Unlock()
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	eventually(t, "its connection is closed", func() bool { return s.open() == 0 })
	if _, err := f.Get(t.Context(), name); err != nil {
		t.Errorf("Get: %v", err)
	}
}
