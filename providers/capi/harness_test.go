package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

// server is the API of a workload cluster whose faults a test chooses.
type server struct {
	*httptest.Server
	store http.Handler

	mu       sync.Mutex
	tokens   map[string]bool
	fault    func(*http.Request) int // a status to answer with; -1 for never
	lists    int                     // of Secrets, also as the beginning of a watch
	probes   int
	seen     map[string]int // requests by token
	as       map[string]bool
	sessions map[net.Conn]bool
	stop     chan struct{}
}

func newServer(tb testing.TB, tokens ...string) *server {
	tb.Helper()
	return serverWith(tb, workloadserver.Handler(), tokens...)
}

func serverWith(tb testing.TB, store http.Handler, tokens ...string) *server {
	tb.Helper()
	s := &server{
		store: store, tokens: map[string]bool{}, seen: map[string]int{}, as: map[string]bool{}, stop: make(chan struct{}), sessions: map[net.Conn]bool{},
		fault: func(*http.Request) int { return 0 },
	}
	s.accept(tokens...)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.sessions[conn] = true
		case http.StateClosed, http.StateHijacked:
			delete(s.sessions, conn)
		default:
		}
	}
	s.StartTLS()
	tb.Cleanup(func() {
		close(s.stop)
		// Who is cut off may come back before it is closed.
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			s.Close()
		}()
		for {
			s.CloseClientConnections()
			select {
			case <-closed:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return s
}

// accept has it accept these tokens and no others.
func (s *server) accept(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = map[string]bool{}
	for _, token := range tokens {
		s.tokens[token] = true
	}
}

func (s *server) fail(fault func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// sent is how many requests came with a token.
func (s *server) sent(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[token]
}

func (s *server) impersonated(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.as[user]
}

// probed waits until a server was probed so many times more.
func (s *server) probed(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.probes
	}
	before := count()
	eventually(t, "the cluster is probed", func() bool { return count() >= before+more })
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	known := s.tokens[token]
	s.seen[token]++
	s.as[r.Header.Get("Impersonate-User")] = true
	fault := s.fault
	query := r.URL.Query()
	if strings.HasSuffix(r.URL.Path, "/secrets") && r.Method == http.MethodGet &&
		(query.Get("watch") == "" || query.Get("sendInitialEvents") == "true") {
		s.lists++
	}
	if r.URL.Path == "/version" {
		s.probes++
	}
	s.mu.Unlock()
	code := fault(r)
	switch {
	case code < 0:
		select {
		case <-r.Context().Done():
		case <-s.stop:
		}
		panic(http.ErrAbortHandler)
	case !known:
		code = http.StatusUnauthorized
	case code == 0:
		s.store.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "3600")
	w.WriteHeader(code)
	raw, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
		Message: "user cannot list resource",
	})
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw) // a client that has gone needs no answer
}

// access returns what a kubeconfig of the server holds.
func (s *server) access(token string) *rest.Config {
	return &rest.Config{
		Host: s.URL, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(s.Certificate().Raw)},
	}
}

// blackHole accepts connections and never says a word.
func blackHole(tb testing.TB) *rest.Config {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	return &rest.Config{Host: "https://" + listener.Addr().String(), BearerToken: "x"}
}

// recorder is a multi-cluster manager with one controller, which watches Secrets.
type recorder struct {
	mu      sync.Mutex
	engaged map[multicluster.ClusterName]int
	objects map[multicluster.ClusterName]map[string]string
	events  []string
	// block has Engage of a cluster not return before its context ends.
	block multicluster.ClusterName
	// object is what it watches.
	object client.Object
	// failure, if it is set, is what Engage returns; attempts counts all calls of it.
	failure  error
	attempts int
}

func newRecorder() *recorder {
	return &recorder{
		engaged: map[multicluster.ClusterName]int{}, objects: map[multicluster.ClusterName]map[string]string{},
		object: &corev1.Secret{},
	}
}

// Engage implements multicluster.Aware. Like multicluster-runtime it asks for informers while others wait.
func (r *recorder) Engage(ctx context.Context, name multicluster.ClusterName, c cluster.Cluster) error {
	r.mu.Lock()
	r.attempts++
	r.mu.Unlock()
	if name == r.block {
		<-ctx.Done()
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	informer, err := c.GetCache().GetInformer(ctx, r.object)
	if err != nil {
		return err
	}
	r.engaged[name]++
	note := func(object any, kind string) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		secret, ok := object.(*corev1.Secret)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !ok || ctx.Err() != nil {
			return
		}
		if r.objects[name] == nil {
			r.objects[name] = map[string]string{}
		}
		r.objects[name][secret.Name] = string(secret.Data["value"])
		if kind == "deleted" {
			delete(r.objects[name], secret.Name)
		}
		r.events = append(r.events, kind+" "+secret.Name)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note(object, "added") },
		UpdateFunc: func(_, object any) { note(object, "updated") },
		DeleteFunc: func(object any) { note(object, "deleted") },
	})
	if !c.GetCache().WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	return err
}

func (r *recorder) has(name multicluster.ClusterName, secret, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.objects[name][secret]
	return ok && found == value
}

// fails has Engage return an error from now on, or none.
func (r *recorder) fails(failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = failure
}

func (r *recorder) attempted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts
}

func (r *recorder) count(name multicluster.ClusterName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engaged[name]
}

// fleet is a provider without a management cluster.
type fleet struct {
	*Provider
	t     testing.TB
	aware *recorder
	stop  func()

	mu     sync.Mutex
	access map[string]*rest.Config
	raw    map[string]string
	// once is what the next read of a kubeconfig fails with, and err all further ones.
	once, err error
}

const (
	// patience is how long a test waits for what has to come.
	patience = 2 * time.Minute
	// long is far beyond patience: who waits for it is seen to wait.
	long = 10 * time.Minute
)

// quick are timings for tests. All is looked at often, and nothing is given up: a slow machine is not to look like a
// cluster that does not answer. A test that needs something given up says what.
func quick() Timing {
	return Timing{
		Dial: long, Request: long, Read: long, Sync: long, Engage: long, Probe: long,
		ProbeEvery: 100 * time.Millisecond, ProbeFailures: 2, RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
	}
}

// dialsBriefly gives up black holes soon, which leave a client alone with its handshake.
func dialsBriefly(o *Options) { o.Timing.Dial = time.Second }

// mapper knows the kinds without asking a server.
func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	known.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	known.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return known, nil
}

// unstarted returns a fleet whose clusters are reached as access says, which tests change by give.
func unstarted(tb testing.TB, change func(*Options)) *fleet {
	tb.Helper()
	f := &fleet{t: tb, aware: newRecorder(), access: map[string]*rest.Config{}, raw: map[string]string{}, stop: func() {}}
	opts := Options{
		GetSecret: f.getSecret, Timing: quick(),
		ClusterOptions: []cluster.Option{func(o *cluster.Options) {
			o.MapperProvider = mapper
		}},
		NewCluster: func(
			_ context.Context, _ *clusterv1.Cluster, config *rest.Config, options ...cluster.Option,
		) (cluster.Cluster, error) {
			config.ContentType = "application/json"
			return cluster.New(config, options...)
		},
	}
	if change != nil {
		change(&opts)
	}
	if err := opts.complete(nil); err != nil {
		tb.Fatal(err)
	}
	var err error
	if f.Provider, err = newProvider(nil, logr.Discard(), opts); err != nil {
		tb.Fatal(err)
	}
	return f
}

func newFleet(t *testing.T, change func(*Options)) *fleet {
	t.Helper()
	f := unstarted(t, change)
	f.start()
	return f
}

// start runs the provider until the test ends, or stop is called.
func (f *fleet) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Start(ctx, f.aware) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				f.t.Errorf("Start: %v", err)
			}
		case <-time.After(patience):
			f.t.Error("the provider did not stop")
		}
	})
	f.t.Cleanup(f.stop)
	eventually(f.t, "the provider has started", func() bool {
		f.Provider.mu.RLock()
		defer f.Provider.mu.RUnlock()
		return f.Provider.aware != nil
	})
}

func (f *fleet) getSecret(_ context.Context, ccl *clusterv1.Cluster) (*rest.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if once := f.once; once != nil {
		f.once = nil
		return nil, once
	}
	switch access := f.access[ccl.Name]; {
	case f.err != nil:
		return nil, f.err
	case f.raw[ccl.Name] != "":
		return kubeconfig.RESTConfig([]byte(f.raw[ccl.Name]), kubeconfig.Allow{})
	case access == nil:
		return nil, missing("no Secret for " + ccl.Name)
	default:
		return rest.CopyConfig(access), nil
	}
}

func missing(message string) error {
	return problem.Wait(kubeconfig.MissingReason, "%s", message)
}

// give puts a kubeconfig into the Secret of a cluster; nil deletes it.
func (f *fleet) give(name string, access *rest.Config) {
	f.mu.Lock()
	f.access[name] = access
	delete(f.raw, name)
	f.mu.Unlock()
	f.changed(name)
}

// write puts any text into the Secret of cluster one.
func (f *fleet) write(text string) {
	f.mu.Lock()
	f.raw["one"] = text
	f.mu.Unlock()
	f.changed("one")
}

// changed tells of the Secret of a cluster.
func (f *fleet) changed(name string) {
	f.secretChanged(f.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-kubeconfig"}})
}

// provisionedCluster returns a Cluster of the fleet.
func provisionedCluster(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Status:     clusterv1.ClusterStatus{Phase: string(clusterv1.ClusterPhaseProvisioned)},
	}
}

// add has a cluster engaged.
func (f *fleet) add(name string, access *rest.Config) multicluster.ClusterName {
	f.give(name, access)
	f.ensure(f.t.Context(), provisionedCluster(name))
	return nameOf(name)
}

func nameOf(name string) multicluster.ClusterName { return multicluster.ClusterName("default/" + name) }

func (f *fleet) status(name multicluster.ClusterName) Status {
	namespace, of, _ := strings.Cut(string(name), "/")
	status, _ := f.Status(types.NamespacedName{Namespace: namespace, Name: of})
	return status
}

func (f *fleet) becomes(name multicluster.ClusterName, state State, reason string) {
	f.t.Helper()
	eventually(f.t, string(name)+" is "+string(state)+" because of "+reason, func() bool {
		status := f.status(name)
		return status.State == state && status.Reason == reason
	}, func() string {
		return string(f.status(name).State) + " " + f.status(name).Reason + " " + f.status(name).Message
	})
}

// put writes a Secret into a cluster, past the provider.
func put(t *testing.T, s *server, name, value string) {
	t.Helper()
	body, err := json.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"value": []byte(value)},
	})
	if err != nil {
		t.Fatal(err)
	}
	request(t, s, http.MethodPatch, "/api/v1/namespaces/default/secrets/"+name, string(body))
}

func remove(t *testing.T, s *server, name string) {
	t.Helper()
	request(t, s, http.MethodDelete, "/api/v1/namespaces/default/secrets/"+name, "")
}

func request(t *testing.T, s *server, method, path, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/apply-patch+yaml")
	w := httptest.NewRecorder()
	s.store.ServeHTTP(w, r)
	if w.Code >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

func get(f *fleet, name multicluster.ClusterName, secret string) (string, error) {
	c, err := f.Get(f.t.Context(), name)
	if err != nil {
		return "", err
	}
	found := &corev1.Secret{}
	err = c.GetClient().Get(f.t.Context(), client.ObjectKey{Namespace: "default", Name: secret}, found)
	return string(found.Data["value"]), err
}

func eventually(tb testing.TB, what string, is func() bool, instead ...func() string) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			for _, tell := range instead {
				tb.Log(tell())
			}
			tb.Fatalf("it never came that %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// settled waits until there are no more goroutines than before.
func settled(t *testing.T, before int) {
	t.Helper()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before }, func() string {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		counts := map[string]int{}
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			lines := strings.Split(stack, "\n")
			line, _, _ := strings.Cut(lines[max(0, len(lines)-2)], " in goroutine ")
			counts[line]++
		}
		text := ""
		for _, line := range slices.Sorted(maps.Keys(counts)) {
			text += fmt.Sprintf("%d %s\n", counts[line], line)
		}
		return text
	})
}

// nothing is a multi-cluster manager without controllers.
type nothing struct{}

// Engage implements multicluster.Aware.
func (nothing) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error { return nil }
