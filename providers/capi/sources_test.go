package capi

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	mcsource "sigs.k8s.io/multicluster-runtime/pkg/source"
)

// managed starts a fleet under a real multi-cluster manager. Its local cluster is never asked.
func managed(t *testing.T, f *fleet) mcmanager.Manager {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	local, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Scheme: known, Metrics: metricsserver.Options{BindAddress: "0"}, MapperProvider: mapper,
	})
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := mcmanager.WithMultiCluster(local, f.Provider, EndSources())
	if err != nil {
		t.Fatal(err)
	}
	f.start()
	f.Provider.mu.Lock()
	f.Provider.aware = mgr
	f.Provider.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- local.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-local.Elected()
	return mgr
}

// unnamed are options of controllers whose names may come again, with a second run of a test.
func unnamed() controller.TypedOptions[mcreconcile.Request] {
	return controller.TypedOptions[mcreconcile.Request]{SkipNameValidation: new(true)}
}

// ignore is a reconciler without work.
func ignore(context.Context, mcreconcile.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }

// multicluster-runtime has a goroutine for each source of each engagement. It ends with the engagement.
func TestSourcesEndWithTheirEngagement(t *testing.T) {
	s, f := newServer(t, "a"), unstarted(t, nil)
	err := mcbuilder.ControllerManagedBy(managed(t, f)).Named("sources").For(&corev1.Secret{}).
		Watches(&corev1.Namespace{}, mchandler.EnqueueRequestForOwner(&corev1.Secret{})).
		WithOptions(unnamed()).Complete(mcreconcile.Func(ignore))
	if err != nil {
		t.Fatal(err)
	}
	cycle := func(i int) {
		name := f.add(fmt.Sprintf("cycle-%d", i), s.access("a"))
		f.becomes(name, Engaged, EngagedReason)
		f.forget(name)
		eventually(t, "its connections are closed", func() bool { return s.open() == 0 })
	}
	cycle(0)
	before := goruntime.NumGoroutine()
	const many = 50
	for i := range many {
		cycle(i)
	}
	settled(t, before+many/2) // The manager may not have started all of its own before.
}

// A controller that cannot be started for a cluster is tried again, and no attempt leaves anything behind.
func TestKindThatTheSchemeLacks(t *testing.T) {
	var built, attempts atomic.Int64
	lacking := runtime.NewScheme()
	if err := corev1.AddToScheme(lacking); err != nil {
		t.Fatal(err)
	}
	s, f := newServer(t, "a"), unstarted(t, func(o *Options) {
		building(o, &built, nil)
		o.ClusterOptions = append(o.ClusterOptions, func(o *cluster.Options) { o.Scheme = lacking })
		retriesAfter(o, 5*time.Millisecond)
	})
	count := func(multicluster.ClusterName, cluster.Cluster) bool {
		attempts.Add(1)
		return true
	}
	err := mcbuilder.ControllerManagedBy(managed(t, f)).Named("lacking").For(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, mchandler.EnqueueRequestForOwner(&corev1.Secret{}), mcbuilder.WithClusterFilter(count)).
		WithOptions(unnamed()).Complete(mcreconcile.Func(ignore))
	if err != nil {
		t.Fatal(err)
	}
	name := f.add("one", s.access("a"))
	f.becomes(name, Connecting, EngagementFailingReason)
	before := goruntime.NumGoroutine()
	const many = 50
	eventually(t, "it is tried again", func() bool { return attempts.Load() > many })
	settled(t, before+many/2) // The manager may not have started all of its own before, and an attempt may be under way.
	if got := built.Load(); got != 1 {
		t.Errorf("%d clusters were built", got)
	}
}

// A source that is added to a controller later ends with the cluster that it watches, and with no other.
func TestSourcesThatAreAddedLater(t *testing.T) {
	t.Parallel()
	one, two, f := newServer(t, "a"), newServer(t, "a"), unstarted(t, nil)
	mgr := managed(t, f)
	var seen atomic.Int64
	options := unnamed()
	options.Reconciler = mcreconcile.Func(func(_ context.Context, request mcreconcile.Request) (ctrl.Result, error) {
		if request.Name == "later" {
			seen.Add(1)
		}
		return ctrl.Result{}, nil
	})
	late, err := mccontroller.New("late", mgr, options)
	if err != nil {
		t.Fatal(err)
	}
	f.becomes(f.add("one", one.access("a")), Engaged, EngagedReason)
	other := f.add("two", two.access("a"))
	f.becomes(other, Engaged, EngagedReason)
	err = late.MultiClusterWatch(mcsource.Kind[client.Object](&corev1.Secret{}, mchandler.EnqueueRequestForObject))
	if err != nil {
		t.Fatal(err)
	}
	f.forget(other)
	eventually(t, "the other cluster has left", func() bool { return two.open() == 0 })
	put(t, one, "later", "1")
	eventually(t, "the controller sees what comes", func() bool { return seen.Load() > 0 })
}
