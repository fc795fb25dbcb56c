package identity

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever happens in whatever order: no cluster gets a principal that it may not use, nothing but the status of
// identities is written, and once faults stop, every identity says what is true and nothing is written any more.
func TestSimulation(t *testing.T) {
	identitytest.One()
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(ctx, t)
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			w.act()
			w.check()
		}
		w.checkEnd()
	})
}

// 1,000 clusters of 200 namespaces with 50 identities: decisions cost no request once it is at rest, and a label wakes
// those alone whom it concerns.
func TestSteadyStateAsksNothing(t *testing.T) {
	server, requests := simulation.NewServer(simScheme()), 0
	allowed := &identityv1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}}
	for i := range 50 {
		name := fmt.Sprintf("id-%d", i)
		server.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}, Data: identitytest.Data()})
		server.Put(&identityv1.OCIClusterIdentity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name},
			Spec: identityv1.OCIClusterIdentitySpec{
				Type: identityv1.UserPrincipal, AllowedNamespaces: allowed,
				PrincipalSecret: corev1.SecretReference{Namespace: "infra", Name: name},
			},
		})
	}
	for i := range 200 {
		server.Put(&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", i), Labels: map[string]string{"team": "x"}},
		})
	}
	for i := range 1000 {
		ref := identitytest.Ref(fmt.Sprintf("id-%d", i%50))
		ref.Namespace = "infra"
		server.Put(&infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("tenant-%d", i%200), Name: fmt.Sprintf("c-%d", i),
			}, Spec: infrav1.ClusterSpec{IdentityRef: ref},
		})
	}
	live := server.Client(func(_ string, _ simulation.Key, answered bool) error {
		if !answered {
			requests++
		}
		return nil
	})
	cache := server.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	for _, index := range indexes() {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	r := &Reconciler{
		Client: live, Recorder: recorder{&world{}}, Resolver: &Resolver{
			Cached: Readers{cache, cache}, Live: live, Scope: Scope{Policy: simPolicy},
		},
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	process := &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(r)}
	settle := func() int {
		t.Helper()
		before := requests
		if !process.Settle(t.Context(), 100_000) {
			t.Fatal("it does not come to rest")
		}
		return requests - before
	}
	process.Start(t.Context())
	if got := settle(); got != 100 {
		t.Errorf("the start costs %d requests, want one read and one write for each identity", got)
	}
	for _, object := range server.Objects(clusterGK) {
		user, _ := object.(User)
		if got, err := r.Resolver.Resolve(t.Context(), user); err != nil || !got.Allowed {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	process.Start(t.Context())
	if got := settle(); got != 0 {
		t.Errorf("%d requests at rest", got)
	}
	server.Put(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-7", Labels: map[string]string{"team": "y"}}},
	)
	process.Deliver(t.Context(), namespaceGK)
	if got := process.Queued(); got != 1 {
		t.Errorf("a label of a namespace whose clusters name one identity wakes %d identities", got)
	}
	if got := settle(); got != 1 {
		t.Errorf("it costs %d requests, want one write", got)
	}
}

func TestCompleteRejectsWhatIsMissing(t *testing.T) {
	server := simulation.NewServer(simScheme())
	live, whole := server.Client(nil), server.NewCache()
	resolver := func() *Resolver {
		return &Resolver{Cached: Readers{whole, whole}, Live: live}
	}
	for name, r := range map[string]*Reconciler{
		"Client":   {Recorder: recorder{}, Resolver: resolver()},
		"Recorder": {Client: live, Resolver: resolver()},
		"Resolver": {Client: live, Recorder: recorder{}},
		"Live":     {Client: live, Recorder: recorder{}, Resolver: &Resolver{Cached: Readers{whole, whole}}},
		"Objects": {
			Client: live, Recorder: recorder{}, Resolver: &Resolver{Cached: Readers{Metadata: whole}, Live: live},
		},
		"Policy": {
			Client: live, Recorder: recorder{},
			Resolver: &Resolver{
				Cached: Readers{whole, whole}, Live: live,
				Scope: Scope{Policy: oci.Policy{SecretNamespaces: []string{"*"}}},
			},
		},
	} {
		if r.complete() == nil {
			t.Errorf("%s: it is complete", name)
		}
	}
	if err := (&Reconciler{Client: live, Recorder: recorder{}, Resolver: resolver()}).complete(); err != nil {
		t.Error(err)
	}
}
