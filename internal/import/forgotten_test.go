package importer

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/import/turtles"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/workload"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// A workload cluster that fails is tried again after a pause. Nothing is kept for it meanwhile.
func TestAClientIsForgottenWhenItsJobFails(t *testing.T) {
	key := client.ObjectKeyFromObject(testCluster())
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte(`
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`)}}
	from := kubeconfig.Default(key)
	secret.Namespace, secret.Name = from.Secret.Namespace, from.Secret.Name
	b := newBench(t, instance.Claim{}, secret)
	get := func() *workload.Client {
		t.Helper()
		found, err := b.Workloads.Get(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := get()
	if again := get(); again != before {
		t.Fatal("a client is not kept between two requests")
	}
	if out := b.installAgent(t.Context(), key, managementCluster{name: "c-abcde"}, wish{kubeconfig: from}, start{}); out.IsDone() {
		t.Fatal("nobody listens there")
	}
	if after := get(); after == before {
		t.Error("the client is kept although its job has ended")
	}
}

// A CAPI cluster that is created again under its name, while the watch shows that as a change, is another one: it
// inherits nothing.
func TestANewIncarnationInheritsNothing(t *testing.T) {
	former := testCluster(held)
	key := client.ObjectKeyFromObject(former)
	b := newBench(t, instance.Claim{}, former)
	now := b.clock.Now()
	look := func() {
		t.Helper()
		if _, err := b.observe(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	look()
	b.told.note(former, &metav1.Condition{Type: "RancherImported"})
	b.steps.note(former.UID, &metav1.Condition{}, now, stepPatience)
	b.creations.note(former.UID, "v3/c-abcde", now)
	b.writes.note(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: former.UID, ResourceVersion: "1"}})
	b.conflicts.note(key, now)
	b.looks.note(key, now)
	b.registrations.begin(key, now)
	b.halves.begin(key, now)
	b.disconnections.first(key, "m", now)
	b.replacements.note(key, now)
	b.warnings.note(key, true)
	b.contests.note(key, verdict{standing: agentOfCluster, from: "c-other"})
	b.takings.Note(key, turtles.Taking{UID: former.UID})
	b.jobs.entries[key] = &job{}
	if b.places.take(former, nil, 0, now) || !b.places.anyWaits(key.Namespace) {
		t.Error("it does not wait for a place")
	}

	about := func() []string { return slices.Concat(remembered(b.memory, key), remembered(b.memory, former.UID)) }
	before := about()
	for field := range reflect.TypeFor[memory]().Fields() {
		fills := slices.ContainsFunc(before, func(name string) bool { return strings.HasPrefix(name, field.Name+".") })
		// Names, Leases and places are not of one cluster.
		if !fills && !slices.Contains([]string{"reserved", "turtles", "places"}, field.Name) {
			t.Errorf("the test remembers nothing in %s, or it is not found there", field.Name)
		}
	}
	look()
	seen := func(name string) bool { return name == "writes.last" } // The cache shows what was written.
	if diff := cmp.Diff(slices.DeleteFunc(before, seen), about()); diff != "" {
		t.Errorf("something is forgotten of the same cluster (-before +after)\n%s", diff)
	}

	again := testCluster(func(c *clusterv1.Cluster) { c.UID = "uid-2" })
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	for _, err := range []error{
		b.Client.Patch(t.Context(), former, free), b.Client.Delete(t.Context(), former), b.Client.Create(t.Context(), again),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	look()
	if diff := cmp.Diff([]string{"incarnations.uids"}, about()); diff != "" || b.jobs.entries[key] != nil {
		t.Errorf("the new cluster inherits (-want +got), job %v\n%s", b.jobs.entries[key], diff)
	}
	if b.places.anyWaits(key.Namespace) {
		t.Error("the new cluster inherits that the former one waits for a place")
	}

	if err := b.Client.Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	b.reconcile(t)
	if left := about(); len(left) > 0 {
		t.Errorf("the cluster is gone, and remembered in %v", left)
	}
}

// remembered names the maps of the memory that have something by a key.
func remembered(m *memory, key any) []string {
	var names []string
	for field, value := range reflect.ValueOf(m).Elem().Fields() {
		part := reflect.Indirect(value)
		if part.Kind() != reflect.Struct {
			continue
		}
		for inner, value := range part.Fields() {
			if value.Kind() == reflect.Map && value.Type().Key() == reflect.TypeOf(key) && value.MapIndex(reflect.ValueOf(key)).IsValid() {
				names = append(names, field.Name+"."+inner.Name)
			}
		}
	}
	return names
}
