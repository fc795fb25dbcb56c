package fanout

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	originLabel = "origin"
	ownerIndex  = "owner"
)

// counted is an informer whose handlers are counted.
type counted struct {
	toolscache.SharedIndexInformer

	world *world
}

func (c *counted) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	c.world.count()
	return c.SharedIndexInformer.AddEventHandler(handler)
}

func (c *counted) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	c.world.count()
	return c.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
}

// world is a cache of Nodes, which are apart, and of Namespaces, which concern all. Its informers and indexes are real,
// what they list is the test's.
type world struct {
	*Fanout

	nodes, namespaces *cachetesting.FakeControllerSource

	mu        sync.Mutex
	informers int
	handlers  int
}

func (w *world) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers++
}

func newWorld(t *testing.T, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{nodes: cachetesting.NewFakeControllerSource(), namespaces: cachetesting.NewFakeControllerSource()}
	for _, node := range nodes {
		w.nodes.Add(node)
	}
	shared, err := cache.New(&rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{
		HTTPClient: &http.Client{Timeout: time.Second}, Scheme: clientgoscheme.Scheme, Mapper: testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme),
		NewInformer: func(_ toolscache.ListerWatcher, example runtime.Object, period time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			w.informers++
			from := w.nodes
			if _, ok := example.(*corev1.Namespace); ok {
				from = w.namespaces
			}
			return &counted{toolscache.NewSharedIndexInformer(from, example, period, indexers), w}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Fanout, err = New(t.Context(), shared, clientgoscheme.Scheme,
		Kind{Object: &corev1.Node{}, Apart: true, Of: func(_ context.Context, o client.Object) types.UID { return types.UID(o.GetLabels()[originLabel]) }},
		Kind{Object: &corev1.Namespace{}, Matters: func(before, after client.Object) bool { return before.GetLabels()["name"] != after.GetLabels()["name"] }})
	if err != nil {
		t.Fatal(err)
	}
	run(t, shared.Start)
	if !shared.WaitForCacheSync(t.Context()) {
		t.Fatal("the shared cache does not sync")
	}
	return w
}

// run runs something until it is stopped, or the test ends.
func run(t *testing.T, start func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// site is a management cluster with a handler for each kind.
type site struct {
	*View

	events chan string
	stop   func()
}

func (w *world) site(t *testing.T, origin types.UID) *site {
	t.Helper()
	s := &site{View: w.View(origin), events: make(chan string, 1000)}
	s.stop = run(t, s.Start)
	if err := s.IndexField(t.Context(), &corev1.Node{}, ownerIndex, func(o client.Object) []string { return []string{o.GetLabels()[ownerIndex]} }); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []client.Object{&corev1.Node{}, &corev1.Namespace{}} {
		if err := s.handle(t, kind); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// handle adds a handler, and waits until it was told of what there is.
func (s *site) handle(t *testing.T, kind client.Object) error {
	t.Helper()
	informer, err := s.GetInformer(t.Context(), kind)
	if err != nil {
		return err
	}
	nameOf := func(object any) string {
		if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		return object.(client.Object).GetName() //nolint:forcetypeassert // it panics in a test
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, initial bool) { s.events <- fmt.Sprintf("add %s %t", nameOf(object), initial) },
		UpdateFunc: func(_, object any) { s.events <- "update " + nameOf(object) },
		DeleteFunc: func(object any) { s.events <- "delete " + nameOf(object) },
	})
	if err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(t.Context().Done(), registration.HasSynced) {
		t.Fatal("the handler does not sync")
	}
	return nil
}

// expect wants these events next, and none besides them.
func (s *site) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, event := range want {
		select {
		case got := <-s.events:
			if got != event {
				t.Fatalf("%s is told %q, want %q", s.origin, got, event)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not told %q", s.origin, event)
		}
	}
	select {
	case got := <-s.events:
		t.Fatalf("%s is told %q as well", s.origin, got)
	default:
	}
}

func node(name, origin, owner string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{originLabel: origin, ownerIndex: owner}}}
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
}

// barrier is told to all, after everything before it of the same kind. It shows that nothing else is on its way.
func (w *world) barrier(t *testing.T, all ...*site) {
	t.Helper()
	last := node("barrier", "none", "")
	for _, s := range all {
		last = last.DeepCopy()
		last.Name += "x"
		last.Labels[originLabel] = string(s.origin)
		w.nodes.Add(last)
		s.expect(t, "add "+last.Name+" false")
	}
}

func TestAViewIsToldOfItsOwn(t *testing.T) {
	w := newWorld(t, node("first", "a", "x"), node("foreign", "b", "x"))
	a, b := w.site(t, "a"), w.site(t, "b")
	a.expect(t, "add first true")
	b.expect(t, "add foreign true")
	w.nodes.Add(node("second", "a", "y"))
	a.expect(t, "add second false")
	w.nodes.Modify(node("second", "a", "z"))
	a.expect(t, "update second")
	w.nodes.Modify(node("second", "b", "z"))
	a.expect(t, "delete second")
	b.expect(t, "add second false")
	w.nodes.Delete(node("second", "b", "z"))
	b.expect(t, "delete second")
	w.nodes.Add(node("nobody", "", "z"))
	w.barrier(t, a, b)

	w.namespaces.Add(namespaceOf("all"))
	a.expect(t, "add all false")
	b.expect(t, "add all false")
	unimportant := namespaceOf("all")
	unimportant.Annotations = map[string]string{"other": "x"}
	w.namespaces.Modify(unimportant)
	renamed := namespaceOf("all")
	renamed.Labels["name"] = "other"
	w.namespaces.Modify(renamed)
	a.expect(t, "update all")
	b.expect(t, "update all")
}

func TestAViewReadsItsOwn(t *testing.T) {
	w := newWorld(t, node("first", "a", "x"), node("foreign", "b", "x"), node("second", "a", "y"))
	a, b := w.site(t, "a"), w.site(t, "b")
	found := &corev1.Node{}
	if err := a.Get(t.Context(), client.ObjectKey{Name: "first"}, found); err != nil || found.Name != "first" {
		t.Errorf("got %v, %v", found.Name, err)
	}
	if err := a.Get(t.Context(), client.ObjectKey{Name: "foreign"}, found); !apierrors.IsNotFound(err) || found.Name != "" || len(found.Labels) > 0 {
		t.Errorf("got %v, %v of another management cluster", found, err)
	}
	for name, tc := range map[string]struct {
		of   *site
		by   []client.ListOption
		want []string
	}{
		"by an index":         {of: a, by: []client.ListOption{client.MatchingFields{ownerIndex: "x"}}, want: []string{"first"}},
		"by it, of another":   {of: b, by: []client.ListOption{client.MatchingFields{ownerIndex: "x"}}, want: []string{"foreign"}},
		"by it, of nobody":    {of: b, by: []client.ListOption{client.MatchingFields{ownerIndex: "y"}}},
		"all":                 {of: a, want: []string{"first", "second"}},
		"all, with no copies": {of: b, by: []client.ListOption{client.UnsafeDisableDeepCopy}, want: []string{"foreign"}},
	} {
		list := &corev1.NodeList{}
		if err := tc.of.List(t.Context(), list, tc.by...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range list.Items {
			got = append(got, list.Items[i].Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	if err := a.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Secret{}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a kind that is not shared: %v", err)
	}
}

// However many management clusters come and go, there is one informer and one handler for each kind.
func TestViewsCostNothingInTheSharedCacheAndLeaveNothing(t *testing.T) {
	w := newWorld(t, node("first", "0", "x"))
	first := w.site(t, "stays")
	informers, handlers, of := w.informers, w.handlers, w.Handlers()
	for range 3 {
		var sites []*site
		for i := range 10 {
			sites = append(sites, w.site(t, types.UID(fmt.Sprint(i))))
		}
		if got := w.Handlers(); got != of*11 {
			t.Errorf("%d handlers are told, want %d", got, of*11)
		}
		for _, s := range sites {
			s.stop()
		}
		if err := sites[0].handle(t, &corev1.Node{}); err == nil {
			t.Error("a view takes a handler after its end")
		}
	}
	if w.informers != informers || w.handlers != handlers {
		t.Errorf("%d informers with %d handlers, want %d with %d", w.informers, w.handlers, informers, handlers)
	}
	if got := w.Handlers(); got != of || len(w.views) != 1 {
		t.Errorf("%d handlers of %d management clusters are left, want %d of one", got, len(w.views), of)
	}
	w.nodes.Add(node("second", "stays", ""))
	first.expect(t, "add second false")
}

// A management cluster whose handler hangs, as one does that reads from a cache which never syncs, is late alone.
func TestAViewThatHangsDelaysNobody(t *testing.T) {
	w := newWorld(t)
	a, b := w.site(t, "a"), w.site(t, "b")
	release := make(chan struct{})
	hung := w.View("a")
	run(t, hung.Start)
	t.Cleanup(func() { close(release) })
	informer, err := hung.GetInformer(t.Context(), &corev1.Namespace{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		w.namespaces.Add(namespaceOf(name))
		a.expect(t, "add "+name+" false")
		b.expect(t, "add "+name+" false")
	}
}

func TestAHandlerThatIsRemovedIsNotTold(t *testing.T) {
	w := newWorld(t)
	a := w.site(t, "a")
	informer, err := a.GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	before := w.Handlers()
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { t.Error("it is told") }})
	if err != nil {
		t.Fatal(err)
	}
	if err := informer.RemoveEventHandler(handle); err != nil || w.Handlers() != before {
		t.Errorf("%d handlers, want %d: %v", w.Handlers(), before, err)
	}
	w.nodes.Add(node("second", "a", ""))
	a.expect(t, "add second false")
}

func TestWhatIsApartIsKnownByItsManagementCluster(t *testing.T) {
	if _, err := New(t.Context(), nil, clientgoscheme.Scheme, Kind{Object: &corev1.Node{}, Apart: true}); err == nil {
		t.Error("it would be everybody's")
	}
}
