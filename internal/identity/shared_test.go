package identity

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/test/simulation"
)

// A Secret can have a megabyte. Identities that share one read it once for each of its versions, also if they are
// evaluated at the same time, and it is forgotten with the last of them.
func TestASharedSecretIsReadOncePerVersion(t *testing.T) {
	const identities = 100
	server := simulation.NewServer(simScheme())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Data: identitytest.Data()}
	server.Put(secret)
	keys := make([]types.NamespacedName, identities)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "infra", Name: fmt.Sprintf("id-%d", i)}
		server.Put(&identityv1.OCIClusterIdentity{
			ObjectMeta: metav1.ObjectMeta{Namespace: keys[i].Namespace, Name: keys[i].Name},
			Spec: identityv1.OCIClusterIdentitySpec{
				Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: "infra", Name: "shared"},
			},
		})
	}
	var reads atomic.Int32
	answer := make(chan struct{})
	live := server.Client(func(verb string, key simulation.Key, answered bool) error {
		if verb == "get" && key.Kind == secretGK && !answered {
			reads.Add(1)
			<-answer
		}
		return nil
	})
	cache := server.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	for _, index := range indexes() {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	r := &Reconciler{Client: server.Client(nil), Recorder: events.NewFakeRecorder(1000), Resolver: &Resolver{
		Cached: Readers{cache, cache}, Live: live, Scope: Scope{Policy: simPolicy},
	}}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	process := &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(r)}
	process.Start(t.Context())

	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			if _, err := r.observe(t.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
	close(answer)
	all.Wait()
	if got := reads.Load(); got != 1 {
		t.Errorf("%d identities that are evaluated at the same time read their Secret %d times", identities, got)
	}

	secret.Data["region"] = []byte("us-ashburn-1")
	server.Put(secret)
	process.Deliver(t.Context(), secretGK)
	if !process.Settle(t.Context(), 10_000) {
		t.Fatal("it does not come to rest")
	}
	if got := reads.Load(); got != 2 {
		t.Errorf("a new version is read %d times", got-1)
	}

	for _, key := range keys {
		server.Remove(simulation.Key{Kind: identityGK, NamespacedName: key})
	}
	process.Deliver(t.Context(), identityGK)
	process.Settle(t.Context(), 10_000)
	if left := len(r.memory.secrets) + len(r.memory.entries); left > 0 {
		t.Errorf("%d entries are left of identities that are gone", left)
	}
}

// Identities that share a Secret ask OCI about it once.
func TestOCIIsAskedOnceAboutASharedSecret(t *testing.T) {
	one := identitytest.One()
	server := newOCI(t, &one.PublicKey)
	verifier, err := NewVerifier(VerifierOptions{Endpoint: server.URL, TrustedCAs: server.trust()})
	if err != nil {
		t.Fatal(err)
	}
	management := simulation.NewServer(simScheme())
	management.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Data: identitytest.Data()})
	for i := range 20 {
		management.Put(&identityv1.OCIClusterIdentity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: fmt.Sprintf("id-%d", i)},
			Spec: identityv1.OCIClusterIdentitySpec{
				Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: "infra", Name: "shared"},
			},
		})
	}
	cache := management.NewCache(identityGK, clusterGK, managedGK, namespaceGK, secretGK)
	for _, index := range indexes() {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	r := &Reconciler{Client: management.Client(nil), Recorder: events.NewFakeRecorder(1000), Verifier: verifier, Resolver: &Resolver{
		Cached: Readers{cache, cache}, Live: management.Client(nil), Scope: Scope{Policy: simPolicy},
	}}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	process := &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(r)}
	process.Start(t.Context())
	var all sync.WaitGroup
	for i := range 20 {
		o, err := r.observe(t.Context(), types.NamespacedName{Namespace: "infra", Name: fmt.Sprintf("id-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range Decide(o, Rules{Policy: simPolicy, Verify: true}, r.Clock.Now()).Actions {
			all.Go(func() {
				if err := action.Do(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := server.asked.Load(); got != 1 {
		t.Errorf("OCI was asked %d times", got)
	}
}
