package forget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/scheme"
)

const (
	gone        = "11111111-2222-3333-4444-555555555555"
	other       = "66666666-7777-8888-9999-000000000000"
	originLabel = "archelon.io/management-cluster"
	finalizer   = "archelon.io/rancher-import"
	ofRancher   = "controller.cattle.io/cluster-agent-controller-cleanup"
)

// rancherCluster returns a Rancher cluster for CAPI Cluster team/<name> of a management cluster.
func rancherCluster(name, of string, change ...func(*managementv3.Cluster)) *managementv3.Cluster {
	cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c-" + name, UID: types.UID("uid-" + name), Finalizers: []string{finalizer, ofRancher},
		Labels: map[string]string{
			"cluster-api.cattle.io/owned": "", "cluster-api.cattle.io/capi-cluster-owner": name,
			"cluster-api.cattle.io/capi-cluster-owner-ns": "team", "archelon.io/capi-cluster-uid": "capi-" + name,
			originLabel: of, "tier": "gold",
		},
	}}
	cluster.Spec.DisplayName = "shown-" + name
	for _, c := range change {
		c(cluster)
	}
	return cluster
}

func deleted(c *managementv3.Cluster) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func unheld(c *managementv3.Cluster) { c.Finalizers = []string{ofRancher} }

func world(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "own"}}
	byName := func(object client.Object) []string { return []string{object.GetName()} }
	return fake.NewClientBuilder().WithScheme(known).WithObjects(append(objects, system)...).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", byName).Build()
}

// forget runs the command, with short pauses between two tries.
func forget(ctx context.Context, c client.WithWatch, opts Options) (string, error) {
	return forgetAfter(ctx, c, opts, 50*time.Millisecond)
}

// forgetAfter runs it so that it watches a seat for a time.
func forgetAfter(ctx context.Context, c client.WithWatch, opts Options, quiet time.Duration) (string, error) {
	out := &bytes.Buffer{}
	f := newForgetter(c, opts, out)
	f.quiet = quiet
	f.patience = wait.Backoff{Steps: 4, Duration: time.Millisecond}
	err := f.run(ctx)
	return out.String(), err
}

// state says of each Rancher cluster whether it is held, by which labels it is known, and whether it is being deleted.
func state(t *testing.T, c client.Client) map[string]string {
	t.Helper()
	list := &managementv3.ClusterList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for i := range list.Items {
		cluster := &list.Items[i]
		what := fmt.Sprintf("%d labels", len(cluster.Labels))
		if strings.Contains(strings.Join(cluster.Finalizers, " "), finalizer) {
			what += ", held"
		}
		if !cluster.DeletionTimestamp.IsZero() {
			what += ", deleted"
		}
		found[cluster.Name] = what
	}
	return found
}

func clusters() []client.Object {
	return []client.Object{
		rancherCluster("b", gone), rancherCluster("a", gone), rancherCluster("stuck", gone, deleted),
		rancherCluster("going", gone, deleted, unheld), rancherCluster("theirs", other),
		rancherCluster("own", "", func(c *managementv3.Cluster) { delete(c.Labels, originLabel) }),
	}
}

// What is listed is what is done, and to the Rancher clusters of this management cluster alone.
func TestForget(t *testing.T) {
	const untouched = "6 labels, held"
	for name, tc := range map[string]struct {
		opts Options
		want map[string]string
		says []string
		// again is what it says when it is run again.
		again string
	}{
		"Listed": {
			opts: Options{},
			want: map[string]string{
				"c-a": untouched, "c-b": untouched, "c-stuck": untouched + ", deleted", "c-going": "6 labels, deleted",
			},
			says: []string{
				"RANCHER CLUSTER   DISPLAY NAME   CAPI CLUSTER   DOES\n" +
					"c-a               shown-a        team/a         release it; it stays in Rancher\n" +
					"c-b               shown-b        team/b         release it; it stays in Rancher\n" +
					"c-going           shown-going    team/going     nothing; Rancher is deleting it\n" +
					"c-stuck           shown-stuck    team/stuck     release it; its deletion ends\n",
				"3 of 4 Rancher clusters would change. Nothing was written; --yes does it.\n",
			},
			again: "3 of 4",
		},
		"ListedToDelete": {
			opts: Options{Delete: true},
			want: map[string]string{
				"c-a": untouched, "c-b": untouched, "c-stuck": untouched + ", deleted", "c-going": "6 labels, deleted",
			},
			says:  []string{"c-a               shown-a        team/a         delete it\n"},
			again: "3 of 4",
		},
		"Released": {
			opts: Options{Yes: true},
			want: map[string]string{
				"c-a": "1 labels", "c-b": "1 labels", "c-stuck": "1 labels, deleted", "c-going": "6 labels, deleted",
			},
			says: []string{
				"Released c-a\nReleased c-b\nReleased c-stuck\nDone: 3 released, 0 deleted, 0 gone meanwhile, 0 failed.\n",
			},
			again: "Nothing to do: Rancher is deleting all 1 Rancher clusters",
		},
		"Deleted": {
			opts: Options{Yes: true, Delete: true},
			want: map[string]string{
				"c-a": "6 labels, deleted", "c-b": "6 labels, deleted",
				"c-stuck": "1 labels, deleted", "c-going": "6 labels, deleted",
			},
			says: []string{
				"Deleted c-a\nDeleted c-b\nReleased c-stuck\nDone: 1 released, 2 deleted, 0 gone meanwhile, 0 failed.\n",
			},
			again: "Nothing to do: Rancher is deleting all 3 Rancher clusters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := world(t, clusters()...)
			tc.opts.UID = gone
			tc.want["c-theirs"], tc.want["c-own"] = untouched, "5 labels, held"
			expectForgotten(t, c, tc.opts, tc.want, tc.says...)
			expectForgotten(t, c, tc.opts, tc.want, tc.again)
		})
	}
}

// expectForgotten runs the command, and expects what it says and what becomes of the Rancher clusters.
func expectForgotten(t *testing.T, c client.WithWatch, opts Options, want map[string]string, says ...string) {
	t.Helper()
	said, err := forget(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range says {
		if !strings.Contains(said, text) {
			t.Errorf("it says\n%s\nwithout\n%s", said, text)
		}
	}
	if diff := cmp.Diff(want, state(t, c)); diff != "" {
		t.Errorf("Rancher clusters (-want +got):\n%s", diff)
	}
}

// What tenants have written is no command for a terminal, and takes no more than its cell.
func TestTheTableIsPrintable(t *testing.T) {
	c := world(t, rancherCluster("a", gone, func(c *managementv3.Cluster) {
		c.Spec.DisplayName = "\x1b[2Jx\ny"
		delete(c.Labels, "cluster-api.cattle.io/capi-cluster-owner")
	}))
	said, err := forget(t.Context(), c, Options{UID: gone})
	if err != nil || strings.Contains(said, "\x1b") || strings.Count(said, "\n") != 3 {
		t.Errorf("got %v, %q", err, said)
	}
}

// A management cluster that may be alive is not forgotten, nor listed as if it could be.
func TestLife(t *testing.T) {
	binding := func(uid string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "archelon-edge-" + uid}}
	}
	for name, tc := range map[string]struct {
		uid    types.UID
		object client.Object
		want   string
	}{
		"Itself":    {uid: "own", want: "this is the cluster of that UID"},
		"LetIn":     {uid: gone, object: binding(gone), want: "ClusterRoleBinding archelon-edge-" + gone},
		"OtherEdge": {uid: gone, object: binding(other)},
	} {
		t.Run(name, func(t *testing.T) {
			objects := clusters()
			if tc.object != nil {
				objects = append(objects, tc.object)
			}
			c := world(t, objects...)
			before := state(t, c)
			_, err := forget(t.Context(), c, Options{UID: tc.uid, Yes: true, Delete: true})
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if _, alive := errors.AsType[AliveError](err); !alive || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, state(t, c)); diff != "" {
				t.Errorf("it was not left alone (-before +after):\n%s", diff)
			}
		})
	}
}

// Whoever may not see whether the management cluster is alive may not forget it.
func TestLifeThatCannotBeSeen(t *testing.T) {
	c := interceptor.NewClient(world(t, clusters()...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, leases := list.(*coordinationv1.LeaseList); leases {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	})
	before := state(t, c)
	if _, err := forget(t.Context(), c, Options{UID: gone, Yes: true}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, state(t, c)); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
}

// busy is a world where somebody else changes Rancher cluster c-a before each of our writes to it, a number of times.
type busy struct {
	client.WithWatch

	left int
}

var errChanged = apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, "c-a", errors.New("changed"))

// disturb returns a conflict if somebody else was faster.
func (b *busy) disturb(ctx context.Context, object client.Object) error {
	if object.GetName() != "c-a" || b.left == 0 {
		return nil
	}
	b.left--
	touch := fmt.Appendf(nil, `{"metadata":{"labels":{"touched":"%d"}}}`, b.left)
	touched := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-a"}}
	if err := b.WithWatch.Patch(ctx, touched, client.RawPatch(types.MergePatchType, touch)); err != nil {
		return err
	}
	return errChanged
}

// Patch implements client.Writer.
func (b *busy) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := b.disturb(ctx, object); err != nil {
		return err
	}
	return b.WithWatch.Patch(ctx, object, patch, opts...)
}

// Delete implements client.Writer.
func (b *busy) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	if err := b.disturb(ctx, object); err != nil {
		return err
	}
	return b.WithWatch.Delete(ctx, object, opts...)
}

// Rancher writes its clusters all the time. One that does not come to an end does not stop the others, and it comes to
// an end when the command is run again.
func TestConflicts(t *testing.T) {
	for name, opts := range map[string]Options{"Released": {Yes: true}, "Deleted": {Yes: true, Delete: true}} {
		opts.UID = gone
		t.Run(name, func(t *testing.T) {
			c := &busy{world(t, rancherCluster("a", gone), rancherCluster("b", gone)), 2}
			said, err := forget(t.Context(), c, opts)
			if after := state(t, c); err != nil || strings.Contains(after["c-a"]+after["c-b"], "held") {
				t.Errorf("got %v, %v\n%s", err, after, said)
			}
		})
		t.Run(name+"Never", func(t *testing.T) {
			c := &busy{world(t, rancherCluster("a", gone), rancherCluster("b", gone)), 100}
			said, err := forget(t.Context(), c, opts)
			after := state(t, c)
			if err == nil || !strings.Contains(said, "1 failed") || strings.Contains(after["c-b"], "held") {
				t.Errorf("got %v, %v\n%s", err, after, said)
			}
			c.left = 0
			if said, err := forget(t.Context(), c, opts); err != nil || strings.Contains(state(t, c)["c-a"], "held") {
				t.Errorf("run again: %v, %v\n%s", err, state(t, c), said)
			}
		})
	}
}

// late is a world whose list shows what was there before.
type late struct {
	client.WithWatch

	before *managementv3.Cluster
}

// List implements client.Reader.
func (l late) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if v3, ok := list.(*managementv3.ClusterList); ok {
		v3.Items = []managementv3.Cluster{*l.before.DeepCopy()}
		return nil
	}
	return l.WithWatch.List(ctx, list, opts...)
}

// The same name can be that of another Rancher cluster before it is written.
func TestASuccessorIsLeftAlone(t *testing.T) {
	listed := rancherCluster("a", gone)
	listed.ResourceVersion = "0"
	for name, successor := range map[string]*managementv3.Cluster{
		"NewUID":   rancherCluster("a", gone, func(c *managementv3.Cluster) { c.UID = "new" }),
		"NewOwner": rancherCluster("a", other),
	} {
		for _, opts := range []Options{{UID: gone, Yes: true}, {UID: gone, Yes: true, Delete: true}} {
			t.Run(fmt.Sprintf("%s/delete=%t", name, opts.Delete), func(t *testing.T) {
				store := world(t, successor.DeepCopy())
				before := state(t, store)
				said, err := forget(t.Context(), late{store, listed}, opts)
				if err != nil || !strings.Contains(said, "1 gone meanwhile") {
					t.Errorf("got %v\n%s", err, said)
				}
				if diff := cmp.Diff(before, state(t, store)); diff != "" {
					t.Errorf("it was not left alone (-before +after):\n%s", diff)
				}
			})
		}
	}
	for _, opts := range []Options{{UID: gone, Yes: true}, {UID: gone, Yes: true, Delete: true}} {
		if said, err := forget(t.Context(), late{world(t), listed}, opts); err != nil {
			t.Errorf("gone: %v\n%s", err, said)
		}
	}
}

func TestValidate(t *testing.T) {
	for uid, valid := range map[types.UID]bool{gone: true, "": false, "not a uid": false, "*": false} {
		if err := (Options{UID: uid, Timeout: 1}).validate(); (err == nil) != valid {
			t.Errorf("%q: %v", uid, err)
		}
	}
	if (Options{UID: gone}).validate() == nil {
		t.Error("no time limit is accepted")
	}
}
