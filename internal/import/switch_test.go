package importer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	importer "github.com/archelon-io/archelon/internal/import"
	importv1 "github.com/archelon-io/archelon/internal/import/v1"
	importv3 "github.com/archelon-io/archelon/internal/import/v3"
)

const (
	finalizer   = "archelon.io/rancher-import"
	recordKey   = "archelon.io/rancher-cluster"
	switchKey   = "archelon.io/strategy-switch"
	ownerKey    = "cluster-api.cattle.io/capi-cluster-owner"
	importLabel = "cluster-api.cattle.io/rancher-auto-import"
	namespace   = "tenant"
)

var errCrash = errors.New("the process died")

// switchWorld is a management cluster with clusters that are imported as v1, and what Rancher does with their records.
type switchWorld struct {
	t     *testing.T
	store client.WithWatch
	names []string
	// silent are the clusters whose new record gets no connection.
	silent map[string]bool

	// What a process does.
	process  *importer.Reconciler
	writes   int
	crashAt  int // the write that is the last of its process, none if zero
	dead     bool
	mostLost int
	// single: no cluster may ever have two records that nobody has deleted.
	single bool
}

func newSwitchWorld(t *testing.T, clusters int) *switchWorld {
	t.Helper()
	w := &switchWorld{t: t, silent: map[string]bool{}}
	var objects []client.Object
	for i := range clusters {
		name := fmt.Sprintf("c%d", i)
		uid := types.UID("uid-" + name)
		w.names = append(w.names, name)
		labels := map[string]string{
			"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": name, "cluster-api.cattle.io/capi-cluster-owner-ns": namespace,
			"archelon.io/capi-cluster-uid": string(uid),
		}
		capi := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: uid, Finalizers: []string{finalizer}, Labels: map[string]string{importLabel: "true"},
			Annotations: map[string]string{recordKey: "v1/" + name + "-capi", "archelon.io/instance": "/archelon"},
		}}
		capi.Status.Initialization.ControlPlaneInitialized = new(true)
		conditions.Set(capi, metav1.Condition{Type: "RancherImported", Status: metav1.ConditionTrue, Reason: "Imported"})
		v1 := &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-capi", UID: "v1-" + uid, Finalizers: []string{finalizer}, Labels: labels}}
		v1.Status.ClusterName = "c-m-" + name
		derived := connectedCluster("c-m-"+name, labels)
		derived.Annotations = map[string]string{
			"provisioning.cattle.io/administrated": "true", "objectset.rio.cattle.io/owner-namespace": namespace, "objectset.rio.cattle.io/owner-name": v1.Name,
		}
		objects = append(objects, capi, v1, derived)
	}
	w.store = importer.NewWorld(t, objects...)
	w.start("v1", 0)
	w.settle("v1", 0)
	w.expect("before", always("v1 True/Imported"))
	w.writes, w.mostLost = 0, 0
	return w
}

func connectedCluster(name string, labels map[string]string) *managementv3.Cluster {
	cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("v3-" + name), Labels: labels}}
	cluster.Status.Conditions = []managementv3.ClusterCondition{{Type: "Connected", Status: corev1.ConditionTrue}}
	return cluster
}

// objects returns a copy of everything.
func (w *switchWorld) objects() []client.Object {
	w.t.Helper()
	var objects []client.Object
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &provisioningv1.ClusterList{}, &managementv3.ClusterList{}} {
		if err := w.store.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, _ := item.DeepCopyObject().(client.Object)
			object.SetResourceVersion("")
			objects = append(objects, object)
			return nil
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	return objects
}

// start starts a process that makes records of the kind.
func (w *switchWorld) start(kind string, switches int) {
	w.t.Helper()
	var active, other importer.Strategy = importv3.Strategy{}, importv1.Strategy{}
	if kind == "v1" {
		active, other = other, active
	}
	w.dead = false
	w.process = importer.NewProcess(w.t, w.client(), active, other, switches)
}

// client is that of a process: it counts, and it dies.
func (w *switchWorld) client() client.Client {
	write := func(do func() error) error {
		if w.dead {
			return errCrash
		}
		w.writes++
		dies := w.writes == w.crashAt
		if dies {
			w.dead = true
		}
		err := do()
		w.mostLost = max(w.mostLost, len(w.lost()))
		if dies {
			return errCrash
		}
		return err
	}
	read := func() error {
		if w.dead {
			return errCrash
		}
		return nil
	}
	return interceptor.NewClient(w.store, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return errors.Join(read(), c.Get(ctx, key, obj, opts...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := read(); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if w.single && w.standing() > 0 { //nolint:contextcheck // it is that of the test
				w.t.Errorf("a second record is created for %s", obj.GetLabels()[ownerKey])
			}
			return write(func() error { return c.Create(ctx, w.asRancher(obj), opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			return write(func() error { return c.SubResource(sub).Apply(ctx, obj, opts...) })
		},
	})
}

// asRancher has a new record connected from the beginning, unless it is to stay silent.
func (w *switchWorld) asRancher(obj client.Object) client.Object {
	record, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	name := record.GetLabels()["cluster-api.cattle.io/capi-cluster-owner"]
	record.SetUID(types.UID("new-" + record.GetName()))
	record.SetCreationTimestamp(metav1.Now())
	switch {
	case record.GetNamespace() != "":
		_ = unstructured.SetNestedField(record.Object, "c-m-"+name, "status", "clusterName")
	case !w.silent[name]:
		_ = unstructured.SetNestedSlice(record.Object, []any{map[string]any{"type": "Connected", "status": "True"}}, "status", "conditions")
	}
	return record
}

// rancher makes the v3 Clusters of v1 records, and deletes those whose records have gone.
func (w *switchWorld) rancher() {
	w.t.Helper()
	for _, name := range w.names {
		v1 := &provisioningv1.Cluster{}
		err := w.store.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-capi"}, v1)
		derived := connectedCluster("c-m-"+name, v1.Labels)
		derived.Annotations = map[string]string{"provisioning.cattle.io/administrated": "true", "objectset.rio.cattle.io/owner-namespace": namespace, "objectset.rio.cattle.io/owner-name": v1.Name}
		if apierrors.IsNotFound(err) {
			err = client.IgnoreNotFound(w.store.Delete(w.t.Context(), derived))
		} else if err == nil {
			err = w.store.Create(w.t.Context(), derived)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
	}
}

// alive returns the kind of the record that a cluster has and that nobody has deleted, with "?" if it is not connected,
// "" for none.
func (w *switchWorld) alive(name string) string {
	v1 := &provisioningv1.Cluster{}
	kind := ""
	if w.store.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name + "-capi"}, v1) == nil && v1.DeletionTimestamp.IsZero() {
		kind = "v1"
	}
	list := &managementv3.ClusterList{}
	if err := w.store.List(context.Background(), list, client.MatchingLabels{"cluster-api.cattle.io/capi-cluster-owner": name}); err != nil {
		w.t.Fatal(err)
	}
	for _, v3 := range list.Items {
		if strings.HasPrefix(v3.Name, "c-m-") || !v3.DeletionTimestamp.IsZero() {
			continue
		}
		if kind += "v3"; len(v3.Status.Conditions) == 0 {
			kind += "?"
		}
	}
	return kind
}

// lost returns the clusters that have no connected record.
func (w *switchWorld) lost() []string {
	return slices.DeleteFunc(slices.Clone(w.names), func(name string) bool { return w.alive(name) == "v1" || w.alive(name) == "v3" })
}

func (w *switchWorld) cluster(name string) *clusterv1.Cluster {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.store.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
		w.t.Fatal(err)
	}
	return cluster
}

// change changes a cluster as its owner would.
func (w *switchWorld) change(name string, change func(*clusterv1.Cluster)) {
	w.t.Helper()
	cluster := w.cluster(name)
	change(cluster)
	if err := w.store.Update(w.t.Context(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles clusters, and reports whether the process has survived.
func (w *switchWorld) reconcile(names ...string) bool {
	w.t.Helper()
	for _, name := range names {
		_, err := w.process.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
		if w.dead {
			return false
		}
		if err != nil {
			w.t.Fatalf("reconciling %s: %v", name, err)
		}
	}
	return true
}

// settle runs until nothing is written any more. The clusters are reconciled as their events would have them; one that
// waits for its turn only when it is woken.
func (w *switchWorld) settle(kind string, switches int) {
	w.t.Helper()
	for range 100 {
		before := w.writes
		w.rancher()
		if !w.reconcile(w.names...) {
			w.start(kind, switches)
			continue
		}
		if w.writes == before {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}

func (w *switchWorld) state() map[string]string {
	w.t.Helper()
	state := map[string]string{}
	for _, name := range w.names {
		cluster := w.cluster(name)
		c := conditions.Get(cluster, "RancherImported")
		state[name] = fmt.Sprintf("%s %s/%s", w.alive(name), c.Status, c.Reason)
		if cluster.Annotations[switchKey] != "" {
			state[name] += " marked"
		}
		if named, _, _ := strings.Cut(cluster.Annotations[recordKey], "/"); named != "" && !strings.HasPrefix(state[name], named) {
			state[name] += " names " + named
		}
	}
	return state
}

func (w *switchWorld) expect(reason string, want func(name string) string) {
	w.t.Helper()
	for name, got := range w.state() {
		if got != want(name) {
			w.t.Errorf("%s: %s is %q, want %q", reason, name, got, want(name))
		}
	}
}

func always(state string) func(string) string { return func(string) string { return state } }

// Wherever the process dies, between any two of its writes: no more clusters than are allowed have no connected record,
// and in the end all have changed over.
func TestSwitchSurvivesCrashes(t *testing.T) {
	const clusters, switches = 2, 1
	undisturbed := newSwitchWorld(t, clusters)
	begin := undisturbed.objects()
	undisturbed.start("v3", switches)
	undisturbed.settle("v3", switches)
	undisturbed.expect("without a crash", always("v3 True/Imported"))
	if undisturbed.mostLost != switches {
		t.Fatalf("%d clusters were lost at the same time, want %d", undisturbed.mostLost, switches)
	}
	for crash := 1; crash <= undisturbed.writes; crash++ {
		w := &switchWorld{t: t, names: undisturbed.names, store: importer.NewWorld(t, begin...), crashAt: crash}
		w.start("v3", switches)
		w.settle("v3", switches)
		w.expect(fmt.Sprintf("crash after write %d", crash), always("v3 True/Imported"))
		if w.mostLost > switches {
			t.Errorf("crash after write %d: %d clusters were lost at the same time", crash, w.mostLost)
		}
	}
}

// The cache of a new leader may be older than what the one before wrote last.
func TestNoTurnIsGivenTwiceByAStaleCache(t *testing.T) {
	w := newSwitchWorld(t, 2)
	live := importer.NewWorld(t, w.objects()...)
	marked := &clusterv1.Cluster{}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(w.cluster("c0")), marked); err != nil {
		t.Fatal(err)
	}
	for range 20 { // so that it is newer than all that the cache has
		marked.Annotations[switchKey] += "v1/c0-capi"
		if err := live.Update(t.Context(), marked); err != nil {
			t.Fatal(err)
		}
	}
	w.start("v3", 1)
	w.process.APIReader = live
	w.reconcile("c1", "c0", "c1", "c0")
	if got := w.state(); got["c1"] != "v1 True/WaitingForTurn" || got["c0"] != "v1 True/Imported" {
		t.Errorf("got %v, want the only slot to be that of the first one, and nothing done to it before the cache has the mark", got)
	}
}

// A cluster that does not come back keeps its slot, also through a restart, and the others go on with what is left.
func TestSwitchGoesOnBesideOneThatDoesNotComeBack(t *testing.T) {
	w := newSwitchWorld(t, 6)
	w.silent["c0"], w.silent["c3"] = true, true
	w.start("v3", 2)
	if !w.reconcile(w.names...) {
		t.Fatal("dead")
	}
	w.settle("v3", 2)
	w.start("v3", 2)
	w.settle("v3", 2)
	if w.mostLost > 2 {
		t.Errorf("%d clusters were lost at the same time", w.mostLost)
	}
	switched, waiting := 0, 0
	for name, state := range w.state() {
		switch {
		case w.silent[name] && strings.HasPrefix(state, "v3? False/") && strings.HasSuffix(state, " marked"):
		case state == "v3 True/Imported":
			switched++
		case state == "v1 True/WaitingForTurn":
			waiting++
		default:
			t.Errorf("%s is %q", name, state)
		}
	}
	if len(w.lost()) != 2 || switched+waiting != 4 || switched == 0 || waiting == 0 {
		t.Errorf("%d are lost, %d switched and %d waiting: want 2 that hold both slots, and the others to have stopped there", len(w.lost()), switched, waiting)
	}

	t.Log("Each of these releases the slot.")
	for name, release := range map[string]func(string){
		"c0": func(name string) { w.change(name, func(c *clusterv1.Cluster) { c.Labels[importLabel] = "false" }) },
		"c3": func(name string) { w.change(name, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }) },
	} {
		release(name)
	}
	w.settle("v3", 2)
	w.expect("after an un-import and a pause", func(name string) string {
		switch name {
		case "c0":
			return " False/NotSelected"
		case "c3":
			return "v3? False/Paused marked"
		}
		return "v3 True/Imported"
	})
}

// A cluster that waits costs nothing, and everything else goes on for it under its old record.
func TestWaitingForATurn(t *testing.T) {
	w := newSwitchWorld(t, 4)
	w.start("v3", 0)
	w.settle("v3", 0)
	w.expect("none is to be switched", always("v1 True/WaitingForTurn"))
	if w.writes != 4 {
		t.Errorf("%d writes, want one condition for each cluster", w.writes)
	}
	w.writes = 0
	for range 3 {
		w.reconcile(w.names...)
	}
	if woken := w.process.Woken(); w.writes != 0 || len(woken) != 0 {
		t.Errorf("%d writes and %v woken of clusters that wait", w.writes, woken)
	}
	for _, name := range w.names {
		result, err := w.process.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
		if err != nil || result.RequeueAfter != 0 {
			t.Errorf("%s is looked at again after %s, %v: it is to be woken", name, result.RequeueAfter, err)
		}
	}

	w.change("c0", func(c *clusterv1.Cluster) { c.Labels["team"] = "blue" })
	w.change("c1", func(c *clusterv1.Cluster) { c.Labels[importLabel] = "false" })
	v1 := func(name string) *provisioningv1.Cluster {
		return &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-capi"}}
	}
	if err := w.store.Delete(t.Context(), v1("c2")); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Delete(t.Context(), w.cluster("c3")); err != nil {
		t.Fatal(err)
	}
	w.reconcile(w.names...)
	w.rancher()
	if record := v1("c0"); w.store.Get(t.Context(), client.ObjectKeyFromObject(record), record) != nil || record.Labels["team"] != "blue" {
		t.Error("a later label does not reach the record")
	}
	if err := w.store.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "c3"}, &clusterv1.Cluster{}); !apierrors.IsNotFound(err) || w.alive("c3") != "" {
		t.Errorf("the deleted cluster is there (%v), or its record: %q", err, w.alive("c3"))
	}
	w.names = w.names[:3]
	w.settle("v3", 0)
	w.expect("un-imported, removed in Rancher", func(name string) string {
		return map[string]string{"c0": "v1 True/WaitingForTurn", "c1": " False/NotSelected", "c2": " False/RemovedInRancher"}[name]
	})
	if w.cluster("c2").Annotations["imported"] != "true" {
		t.Error("the removal in Rancher was not noted")
	}
}

// Set back, the gate leaves those alone that were not switched, and brings the others back.
func TestSwitchIsCalledOff(t *testing.T) {
	w := newSwitchWorld(t, 6)
	w.silent["c0"], w.silent["c1"] = true, true
	w.start("v3", 2)
	w.settle("v3", 2)
	uids := map[string]types.UID{}
	for _, name := range w.names[2:] {
		if got := w.state()[name]; got != "v1 True/WaitingForTurn" {
			t.Fatalf("%s is %q", name, got)
		}
		record := &provisioningv1.Cluster{}
		if err := w.store.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-capi"}, record); err != nil {
			t.Fatal(err)
		}
		uids[name] = record.UID
	}
	w.start("v1", 0)
	w.settle("v1", 0)
	w.expect("after the gate was set back, even with no slots", always("v1 True/Imported"))
	for name, uid := range uids {
		record := &provisioningv1.Cluster{}
		if err := w.store.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-capi"}, record); err != nil || record.UID != uid {
			t.Errorf("the record of %s was replaced, although it had not been switched", name)
		}
	}
}

// Only a connected cluster is switched: another one would keep its slot for nothing.
func TestACutOffClusterGetsNoTurn(t *testing.T) {
	w := newSwitchWorld(t, 2)
	cut := &managementv3.Cluster{}
	if err := w.store.Get(t.Context(), client.ObjectKey{Name: "c-m-c0"}, cut); err != nil {
		t.Fatal(err)
	}
	cut.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := w.store.Update(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	w.start("v3", 1)
	w.settle("v3", 1)
	if got := w.state(); !strings.HasPrefix(got["c0"], "v1 False/") || got["c1"] != "v3 True/Imported" {
		t.Errorf("got %v, want the first one left as it is and the second one switched", got)
	}
	if err := w.store.Get(t.Context(), client.ObjectKeyFromObject(cut), cut); err != nil {
		t.Fatal(err)
	}
	cut.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := w.store.Update(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	w.settle("v3", 1)
	w.expect("the first one is connected again", always("v3 True/Imported"))
}

// A mark that a tenant puts on a cluster before it is imported takes no slot.
func TestAForgedMarkGoes(t *testing.T) {
	w := newSwitchWorld(t, 1)
	forged := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "c9", UID: "uid-c9", Labels: map[string]string{importLabel: "true"}, Annotations: map[string]string{switchKey: "v1/c9-capi"},
	}}
	forged.Status.Initialization.ControlPlaneInitialized = new(true)
	if err := w.store.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	w.silent["c9"] = true
	w.names = append(w.names, "c9")
	w.start("v3", 1)
	w.reconcile("c9")
	w.settle("v3", 1)
	if got := w.state(); got["c0"] != "v3 True/Imported" || strings.Contains(got["c9"], "marked") {
		t.Errorf("got %v, want the import switched and no mark on the new one", got)
	}
}

// Somebody takes labels off records in Rancher, before a change of the kind or in the midst of it: wherever the process
// dies, no cluster has two records, and each is connected by one of the new kind in the end.
func TestASwitchFindsRecordsWithoutLabels(t *testing.T) {
	all := []string{ownedLabel, ownerKey, ownerKey + "-ns", uidLabel}
	for _, to := range []string{"v3", "v1"} {
		from := newSwitchWorld(t, 1)
		if to == "v1" {
			from.start("v3", 1)
			from.settle("v3", 1)
			from.expect("before", always("v3 True/Imported"))
		}
		begin := from.objects()
		for name, lost := range map[string][]string{"UID": {uidLabel}, "All": all} {
			for _, begun := range []bool{false, true} {
				t.Run(fmt.Sprintf("To%s%sBegun=%t", to, name, begun), func(t *testing.T) {
					for crash, last := 1, switchStripped(t, begin, to, lost, begun, 0); crash <= last; crash++ {
						switchStripped(t, begin, to, lost, begun, crash)
					}
				})
			}
		}
	}
}

// switchStripped changes a cluster over whose record has lost labels, before that has begun or after its first write,
// with a crash after a write. It returns how many writes there were.
func switchStripped(
	t *testing.T, begin []client.Object, to string, lost []string, begun bool, crash int,
) int {
	t.Helper()
	w := &switchWorld{t: t, names: []string{"c0"}, store: importer.NewWorld(t, begin...), single: true}
	if begun {
		w.crashAt = 1
		w.start(to, 1)
		w.reconcile(w.names...)
		if !w.dead || w.cluster("c0").Annotations[switchKey] == "" {
			t.Fatal("the change over has not begun")
		}
	}
	w.strip("c0", lost)
	w.writes, w.crashAt = 0, crash
	w.start(to, 1)
	w.settle(to, 1)
	w.expect(fmt.Sprintf("crash after write %d", crash), always(to+" True/Imported"))
	return w.writes
}

// A change over that is called off replaces what it has created, also when that has lost its labels meanwhile.
func TestASwitchThatIsCalledOffFindsRecordsWithoutLabels(t *testing.T) {
	w := newSwitchWorld(t, 1)
	w.single, w.silent["c0"] = true, true
	w.start("v3", 1)
	w.settle("v3", 1)
	w.strip("c0", []string{ownedLabel, uidLabel})
	w.start("v1", 0)
	w.settle("v1", 0)
	w.expect("after it was called off", always("v1 True/Imported"))
}

// standing counts the records that nobody has deleted, whatever labels they have.
func (w *switchWorld) standing() int {
	return len(slices.DeleteFunc(w.objects(), func(object client.Object) bool {
		_, capi := object.(*clusterv1.Cluster)
		_, derived := object.GetAnnotations()["objectset.rio.cattle.io/owner-name"]
		return capi || derived || !object.GetDeletionTimestamp().IsZero()
	}))
}

// strip takes labels off the record of a cluster.
func (w *switchWorld) strip(name string, keys []string) {
	w.t.Helper()
	for _, object := range w.objects() {
		_, derived := object.GetAnnotations()["objectset.rio.cattle.io/owner-name"]
		if _, capi := object.(*clusterv1.Cluster); capi || derived || object.GetLabels()[ownerKey] != name {
			continue
		}
		before, _ := object.DeepCopyObject().(client.Object)
		labels := object.GetLabels()
		for _, key := range keys {
			delete(labels, key)
		}
		if err := w.store.Patch(w.t.Context(), object, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
}
