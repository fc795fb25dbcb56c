package capi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

func TestEngagesAndServes(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	put(t, s, "first", "1")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	eventually(t, "the controller sees what was there", func() bool { return f.aware.has(name, "first", "1") })
	put(t, s, "second", "2")
	eventually(t, "the controller sees what comes", func() bool { return f.aware.has(name, "second", "2") })
	if value, err := get(f, name, "second"); err != nil || value != "2" {
		t.Errorf("the client read %q, %v", value, err)
	}
}

// held is a cluster that starts when it is released.
type held struct {
	cluster.Cluster
	starting, released chan struct{}
}

func (h *held) Start(ctx context.Context) error {
	close(h.starting)
	<-h.released
	return h.Cluster.Start(ctx)
}

func TestNobodyHasAClusterBeforeItsCacheRuns(t *testing.T) {
	t.Parallel()
	starting, release := make(chan struct{}), make(chan struct{})
	f, s := newFleet(t, func(o *Options) {
		build := o.NewCluster
		o.NewCluster = func(
			ctx context.Context, ccl *clusterv1.Cluster, config *rest.Config, options ...cluster.Option,
		) (cluster.Cluster, error) {
			built, err := build(ctx, ccl, config, options...)
			return &held{Cluster: built, starting: starting, released: release}, err
		}
	}), newServer(t, "a")
	put(t, s, "first", "1")
	name := f.add("one", s.access("a"))
	<-starting
	if _, err := f.Get(t.Context(), name); !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Errorf("a cluster that has yet to start can be had: %v", err)
	}
	close(release)
	f.becomes(name, Engaged, EngagedReason)
	if value, err := get(f, name, "first"); err != nil || value != "1" {
		t.Errorf("the client read %q, %v", value, err)
	}
}

func TestNamesThatAreNotEngaged(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	f.forget(name)
	for _, name := range []multicluster.ClusterName{"default/never", name, "nonsense", ""} {
		if _, err := f.Get(t.Context(), name); !errors.Is(err, multicluster.ErrClusterNotFound) {
			t.Errorf("Get(%q) = %v", name, err)
		}
	}
	if _, ok := f.Status(types.NamespacedName{Namespace: "default", Name: "one"}); ok {
		t.Error("a cluster that was forgotten has a status")
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	ccl := provisionedCluster("one")
	ccl.Status.Phase = string(clusterv1.ClusterPhaseProvisioning)
	name := nameOf("one")
	f.ensure(t.Context(), ccl)
	f.becomes(name, Pending, NotProvisionedReason)
	f.ensure(f.t.Context(), provisionedCluster("one"))
	f.becomes(name, Pending, kubeconfig.MissingReason)
	if s.open() > 0 {
		t.Error("a cluster without a kubeconfig was dialled")
	}
	f.give("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	unknown := provisionedCluster("one")
	unknown.Status.Phase = string(clusterv1.ClusterPhaseUnknown)
	f.ensure(t.Context(), unknown)
	if _, err := f.Get(t.Context(), name); err != nil {
		t.Errorf("a phase other than Deleting ended the engagement: %v", err)
	}
}

// sick are clusters that do not get well, of all kinds, and a healthy one that came last.
type sick struct {
	holes                                   []multicluster.ClusterName
	forbids                                 *server
	forbidding, hanging, refusing, blocking multicluster.ClusterName
	healthy                                 multicluster.ClusterName
}

func addSick(t *testing.T, f *fleet) sick {
	t.Helper()
	var s sick
	f.aware.block = "default/blocking"
	for _, name := range []string{"hole1", "hole2", "hole3", "hole4", "hole5"} {
		s.holes = append(s.holes, f.add(name, blackHole(t)))
	}
	forbids, hangs, refuses, blocks, well := newServer(t, "a"), newServer(t, "a"), newServer(t, "a"), newServer(t, "a"), newServer(t, "a")
	forbids.fail(func(*http.Request) int { return http.StatusForbidden })
	hangs.fail(func(r *http.Request) int {
		if r.URL.Path == "/version" {
			return 0
		}
		return -1
	})
	s.forbids = forbids
	s.forbidding, s.hanging = f.add("forbids", forbids.access("a")), f.add("hangs", hangs.access("a"))
	s.refusing, s.blocking = f.add("refuses", refuses.access("b")), f.add("blocking", blocks.access("a"))
	put(t, well, "first", "1")
	s.healthy = f.add("well", well.access("a"))
	return s
}

func TestNoClusterBlocksAnother(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	s := addSick(t, f)
	eventually(t, "the healthy cluster is served", func() bool { return f.aware.has(s.healthy, "first", "1") })
}

func TestEachClusterSaysWhatAilsIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(o *Options) {
		dialsBriefly(o)
		o.Timing.Read, o.Timing.Sync = time.Second, time.Second // nothing is answered here
	})
	s := addSick(t, f)
	f.becomes(s.forbidding, Degraded, ForbiddenReason)
	if message := f.status(s.forbidding).Message; !strings.Contains(message, "secrets (Forbidden)") {
		t.Errorf("the message does not name the kind: %s", message)
	}
	f.becomes(s.refusing, Connecting, connection.UnauthorizedReason)
	f.becomes(s.hanging, Connecting, KindTimeoutReason)
	if message := f.status(s.hanging).Message; !strings.Contains(message, "secrets (KindTimeout)") {
		t.Errorf("the message does not name the kind: %s", message)
	}
	if _, err := get(f, s.hanging, "any"); err == nil {
		t.Error("a read from a cluster that never answers succeeded")
	}
	for _, hole := range s.holes {
		f.becomes(hole, Connecting, connection.TimeoutReason)
	}
	s.forbids.fail(func(*http.Request) int { return 0 })
	f.becomes(s.forbidding, Engaged, EngagedReason)
	eventually(t, "what was forbidden is received", func() bool { return f.aware.count(s.forbidding) == 1 })
}

func TestControllersThatDoNotStart(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, func(o *Options) { o.Timing.Engage = time.Second }), newServer(t, "a")
	f.aware.block = "default/blocking"
	f.becomes(f.add("blocking", s.access("a")), Connecting, EngagementFailingReason)
}

func TestMissingKind(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	s.fail(func(r *http.Request) int {
		if strings.Contains(r.URL.Path, "secrets") {
			return http.StatusNotFound
		}
		return 0
	})
	put(t, s, "first", "1")
	name := f.add("one", s.access("a"))
	f.becomes(name, Degraded, KindMissingReason)
	s.fail(func(*http.Request) int { return 0 })
	eventually(t, "the kind is received", func() bool { return f.aware.has(name, "first", "1") })
	f.becomes(name, Engaged, EngagedReason)
}

func TestAnotherClusterOfTheName(t *testing.T) {
	t.Parallel()
	f, s := newFleet(t, nil), newServer(t, "a")
	name := f.add("one", s.access("a"))
	f.becomes(name, Engaged, EngagedReason)
	next := provisionedCluster("one")
	next.UID = "another"
	f.ensure(t.Context(), next)
	eventually(t, "it is engaged again", func() bool { return f.aware.count(name) == 2 })
	f.becomes(name, Engaged, EngagedReason)
}

// What is not selected is never dialled, and what is not selected any more is left.
func TestSelectionThatChanges(t *testing.T) {
	t.Parallel()
	var selected atomic.Bool
	f, s := newFleet(t, func(o *Options) { o.Select = func(*clusterv1.Cluster) bool { return selected.Load() } }), newServer(t, "a")
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f.reader = fake.NewClientBuilder().WithScheme(scheme).WithObjects(provisionedCluster("one")).Build()
	name := nameOf("one")
	look := func() {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "one"}}
		if _, err := f.reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	f.give("one", s.access("a"))
	look()
	if statuses := f.Statuses(); len(statuses) > 0 || s.open() > 0 {
		t.Errorf("there are %v", statuses)
	}
	selected.Store(true)
	look()
	f.becomes(name, Engaged, EngagedReason)
	selected.Store(false)
	look()
	if _, err := f.Get(t.Context(), name); !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Errorf("Get: %v", err)
	}
	eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
}

func TestPluginsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	name := f.add("one", &rest.Config{Host: "https://127.0.0.1:1", ExecProvider: execPlugin(t)})
	f.becomes(name, Pending, kubeconfig.ExecReason)
}

func TestIndexesBeforeDuringAndAfter(t *testing.T) {
	t.Parallel()
	f, s := unstarted(t, nil), newServer(t, "a")
	put(t, s, "first", "1")
	before := func(o client.Object) []string { return []string{o.GetName()} }
	for range 2 { // multicluster-runtime's providers/multi registers an index twice
		if err := f.IndexField(t.Context(), &corev1.Secret{}, "before", before); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	name := f.add("one", s.access("a"))
	hole := f.add("hole", blackHole(t))
	f.becomes(name, Engaged, EngagedReason)
	if err := f.IndexField(t.Context(), &corev1.Secret{}, "after", before); err != nil {
		t.Fatal(err)
	}
	names := []multicluster.ClusterName{name}
	for i := range 8 {
		names = append(names, f.add(fmt.Sprintf("late-%d", i), s.access("a")))
	}
	if err := f.IndexField(t.Context(), &corev1.Secret{}, "during", before); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f.becomes(name, Engaged, EngagedReason)
		for _, field := range []string{"before", "after", "during"} {
			c, err := f.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			found := &corev1.SecretList{}
			if err := c.GetClient().List(t.Context(), found, client.MatchingFields{field: "first"}); err != nil || len(found.Items) != 1 {
				t.Errorf("%s by %s: %d, %v", name, field, len(found.Items), err)
			}
		}
	}
	f.becomes(hole, Connecting, ConnectingReason) // it was not waited for
}

func TestCyclesLeaveNothingBehind(t *testing.T) {
	for kind, object := range map[string]client.Object{
		"Objects": &corev1.Secret{},
		"Metadata": &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			s, f := newServer(t, "a"), unstarted(t, nil)
			f.aware.object = object
			f.start()
			f.becomes(f.add("warm", s.access("a")), Engaged, EngagedReason)
			f.forget(nameOf("warm"))
			eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
			before := goruntime.NumGoroutine()
			// It is left in the middle of what it sends.
			for i := range 200 {
				put(t, s, fmt.Sprintf("secret-%d", i), "1")
			}
			for range 50 {
				name := f.add("one", s.access("a"))
				f.becomes(name, Engaged, EngagedReason)
				f.forget(name)
			}
			eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
			settled(t, before)
		})
	}
}

func TestStopsInEveryState(t *testing.T) {
	well, hangs, refuses := newServer(t, "a"), newServer(t, "a"), newServer(t, "a")
	hangs.fail(func(*http.Request) int { return -1 })
	before := goruntime.NumGoroutine()
	for name, until := range map[string]func(*fleet){
		"at once":     func(*fleet) {},
		"pending":     func(f *fleet) { f.becomes(f.add("none", nil), Pending, kubeconfig.MissingReason) },
		"connecting":  func(f *fleet) { f.add("hole", blackHole(t)); f.add("hangs", hangs.access("a")) },
		"refused":     func(f *fleet) { f.add("refused", refuses.access("b")) },
		"engaging":    func(f *fleet) { f.add("blocking", well.access("a")) },
		"engaged":     func(f *fleet) { f.becomes(f.add("well", well.access("a")), Engaged, EngagedReason) },
		"any instant": func(f *fleet) { f.add("well", well.access("a")) },
		"kept": func(f *fleet) {
			f.becomes(f.add("well", well.access("a")), Engaged, EngagedReason)
			f.give("well", nil)
			f.becomes(nameOf("well"), Degraded, RotationFailingReason)
		},
		"disconnected": func(f *fleet) {
			well.accept("a")
			f.becomes(f.add("well", well.access("a")), Engaged, EngagedReason)
			f.give("well", &rest.Config{Host: "https://127.0.0.1:1", ExecProvider: execPlugin(t)})
			f.becomes(nameOf("well"), Disconnected, kubeconfig.ExecReason)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := unstarted(t, nil)
			f.aware.block = "default/blocking"
			f.start()
			until(f)
			f.Provider.mu.RLock()
			members := slices.Collect(maps.Values(f.members))
			f.Provider.mu.RUnlock()
			f.stop()
			for _, m := range members {
				select {
				case <-m.done:
				default:
					t.Errorf("%s was left behind", m.name)
				}
			}
			f.ensure(f.t.Context(), provisionedCluster("late"))
			if len(f.Statuses()) > 0 {
				t.Error("a cluster was engaged after the end")
			}
		})
	}
	eventually(t, "connections are closed", func() bool { return well.open()+hangs.open()+refuses.open() == 0 })
	settled(t, before)
}

func TestStartsOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	if err := f.Start(t.Context(), f.aware); err == nil {
		t.Error("it started twice")
	}
}
