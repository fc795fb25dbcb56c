package rolekeeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/shard"
)

const tenant = "tenant"

// answer is what an API server says to every question about rights.
type answer struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	allowed bool
}

func (a answer) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	review.Status.Allowed = a.allowed
	return review, nil
}

// world is a namespace with clusters of this instance, of another one and of nobody, and the RoleBinding.
func world(t *testing.T, withdrawn, ending bool) client.Client {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := rbacv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Finalizers: []string{"kubernetes"}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "archelon-isolated", UID: "role", Finalizers: []string{"archelon.io/role-in-use"}}}
	if withdrawn {
		binding.DeletionTimestamp = &now
	}
	if ending {
		namespace.DeletionTimestamp = &now
	}
	objects := []client.Object{namespace, binding}
	held := []string{"archelon.io/rancher-import", "somebody.else/s"}
	for name, by := range map[string]string{"ours": "one/archelon", "theirs": "two/archelon", "nobodys": ""} {
		cluster := metav1.ObjectMeta{
			Namespace: tenant, Name: name, UID: types.UID(name), Finalizers: held, Annotations: map[string]string{"archelon.io/rancher-cluster": "v1/" + name},
		}
		if by != "" {
			cluster.Annotations["archelon.io/instance"] = by
		}
		record := metav1.ObjectMeta{
			Namespace: tenant, Name: name + "-capi", Finalizers: held,
			Labels: map[string]string{"archelon.io/capi-cluster-uid": name, "cluster-api.cattle.io/capi-cluster-owner-ns": tenant, "cluster-api.cattle.io/owned": ""},
		}
		v3 := record
		v3.Namespace = ""
		objects = append(objects, &clusterv1.Cluster{ObjectMeta: cluster}, &provisioningv1.Cluster{ObjectMeta: record}, &managementv3.Cluster{ObjectMeta: v3})
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
}

func keeper(t *testing.T, c client.Client, may bool, namespaces ...string) *Reconciler {
	t.Helper()
	scope, err := shard.New(namespaces, nil)
	if err != nil {
		t.Fatal(err)
	}
	watcher, ok := c.(client.WithWatch)
	if !ok {
		t.Fatal("the client cannot watch")
	}
	return &Reconciler{Watcher: watcher, Client: c, APIReader: c, Bindings: c, Reviews: answer{allowed: may}, Scope: scope, Holdings: hold.All(), Self: instance.ID{Namespace: "one", Name: "archelon"}}
}

// free returns what our finalizer is no longer on, of all kinds.
func free(t *testing.T, c client.Client) []string {
	t.Helper()
	var names []string
	for prefix, kind := range map[string]schema.GroupVersion{"": clusterv1.GroupVersion, "v1/": provisioningv1.SchemeGroupVersion, "v3/": managementv3.SchemeGroupVersion} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.WithKind("ClusterList"))
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if !slices.Contains(list.Items[i].Finalizers, "somebody.else/s") {
				t.Errorf("%s lost the finalizer of somebody else", list.Items[i].Name)
			}
			if !slices.Contains(list.Items[i].Finalizers, "archelon.io/rancher-import") {
				names = append(names, prefix+list.Items[i].Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// run reconciles the namespace as often as it asks for, and reports whether it did ask to look again.
// Until then the rights stay.
func run(t *testing.T, r *Reconciler) bool {
	t.Helper()
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: tenant}}
	result, err := r.Reconcile(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter == 0 {
		return false
	}
	if !bound(t, r.Client) {
		t.Error("the rights went together with the clusters, and were to outlast them")
	}
	if result, err = r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("got %v, %v for the second time, want nothing more to do", result, err)
	}
	return true
}

func bound(t *testing.T, c client.Reader) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "archelon-isolated"}, &rbacv1.RoleBinding{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// Without feature host-claim there are no permissions for claims, so nobody asks for any.
func TestClaimsAreNotAskedForWithoutTheFeature(t *testing.T) {
	live, ok := world(t, true, false).(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	var asked []string
	c := interceptor.NewClient(live, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked = append(asked, list.GetObjectKind().GroupVersionKind().Kind)
			return c.List(ctx, list, opts...)
		},
	})
	r := keeper(t, c, true, tenant)
	r.Holdings = []hold.Holding{hold.Imports()}
	run(t, r)
	if left, err := r.claims(t.Context(), tenant); left || err != nil {
		t.Errorf("got %t, %v, want no claims", left, err)
	}
	if !slices.Contains(asked, "Cluster") && !slices.Contains(asked, "ClusterList") {
		t.Errorf("asked for %v, want the clusters that it releases", asked)
	}
	if slices.ContainsFunc(asked, func(kind string) bool {
		return strings.HasPrefix(kind, "HostClaim") || strings.HasPrefix(kind, "Secret")
	}) {
		t.Errorf("asked for %v, want nothing of claims", asked)
	}
}

// The rights in a namespace that stays go after the clusters have been let go, whether the namespace is
// in the scope or has left it.
func TestRightsThatAreWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		reason            string
		scope             string
		withdrawn, ending bool
		may               bool
		free              []string
		kept              bool
	}{
		"OutOfScope":  {"as when a release has a namespace less", "elsewhere", true, false, true, []string{"ours", "v1/nobodys-capi", "v1/ours-capi", "v3/nobodys-capi", "v3/ours-capi"}, false},
		"InScope":     {"somebody deleted the RoleBinding", tenant, true, false, true, []string{"ours", "v1/nobodys-capi", "v1/ours-capi", "v3/nobodys-capi", "v3/ours-capi"}, false},
		"Ending":      {"the importer deletes the records", tenant, true, true, true, nil, true},
		"EndingOther": {"nothing there is in the scope", "elsewhere", true, true, true, nil, false},
		"Granted":     {"nothing was withdrawn", tenant, false, false, true, nil, true},
		"NotOurs":     {"it is the RoleBinding of another instance", "elsewhere", true, false, false, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := world(t, tc.withdrawn, tc.ending)
			r := keeper(t, c, tc.may, tc.scope)
			if got := run(t, r); got != (len(tc.free) > 0) {
				t.Errorf("got %t, want it to look again when it has let something go", got)
			}
			if diff := cmp.Diff(tc.free, free(t, c)); diff != "" {
				t.Errorf("let go (-want +got):\n%s%s", diff, tc.reason)
			}
			if got := bound(t, c); got != tc.kept {
				t.Errorf("got %t, want the RoleBinding kept: %t: %s", got, tc.kept, tc.reason)
			}
			ours := &clusterv1.Cluster{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "ours"}, ours); err != nil {
				t.Fatal(err)
			}
			if ours.Annotations["archelon.io/rancher-cluster"] == "" || (ours.Annotations["archelon.io/instance"] == "") != (len(tc.free) > 0) {
				t.Errorf("got annotations %v, want the record named, and the instance only as long as it works there", ours.Annotations)
			}
		})
	}
}

// stale shows a RoleBinding after it has gone.
type stale struct {
	client.Reader
	shown *metav1.PartialObjectMetadata
}

func (s stale) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	binding, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("asked for a %T, want the metadata of a RoleBinding", object)
	}
	s.shown.DeepCopyInto(binding)
	return nil
}

// Once the RoleBinding has been let go, the rights to ask for what is left are gone. A cache that still shows it is not
// gone by, but one of the same name that comes after it is another one.
func TestARoleBindingThatWasLetGoIsNotLookedAtAgain(t *testing.T) {
	live, ok := world(t, true, false).(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	shown := bindingMetadata()
	if err := live.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: roleBinding}, shown); err != nil {
		t.Fatal(err)
	}
	asked := 0
	c := interceptor.NewClient(live, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked++
			return c.List(ctx, list, opts...)
		},
	})
	r := keeper(t, c, true, tenant)
	r.Bindings = stale{shown: shown}
	run(t, r)
	if bound(t, c) {
		t.Fatal("the RoleBinding was not let go")
	}
	asked = 0
	if run(t, r); asked > 0 {
		t.Errorf("asked %d times for what is left without the rights to", asked)
	}
	shown.UID = "second"
	if run(t, r); asked == 0 {
		t.Error("another RoleBinding is taken for the one that has gone")
	}
}

// The importer takes nothing again in a namespace that is being taken away.
func TestWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		withdrawn, ending, may, want bool
	}{
		"Withdrawn":        {true, false, true, true},
		"WithItsNamespace": {true, true, true, false},
		"Granted":          {false, false, true, false},
		"AnothersBinding":  {true, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keeper(t, world(t, tc.withdrawn, tc.ending), tc.may, tenant).Withdrawn(t.Context(), tenant)
			if err != nil || got != tc.want {
				t.Errorf("got %t, %v, want %t", got, err, tc.want)
			}
		})
	}
	if got, err := keeper(t, world(t, true, false), true, tenant).Withdrawn(t.Context(), "elsewhere"); err != nil || got {
		t.Errorf("got %t, %v for a namespace without a RoleBinding, want false", got, err)
	}
}

// What was withdrawn stays so when the RoleBinding is gone, until there is another one.
func TestWithdrawnForGood(t *testing.T) {
	c := world(t, true, false)
	r := keeper(t, c, true, tenant)
	run(t, r)
	if got, err := r.Withdrawn(t.Context(), tenant); bound(t, c) || err != nil || !got {
		t.Errorf("got %t, %v without the RoleBinding, want true", got, err)
	}
	if err := c.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "archelon-isolated"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Withdrawn(t.Context(), tenant); err != nil || got {
		t.Errorf("got %t, %v with a new RoleBinding, want false", got, err)
	}
}

// What another replica has let go stays so as well for the one that leads next, until there is another RoleBinding.
// Nobody is told of a RoleBinding that was never there, nor of one elsewhere.
func TestUnbound(t *testing.T) {
	c := world(t, false, false)
	r := keeper(t, c, true, tenant, "never-bound")
	told := 0
	r.Lost = func() { told++ }
	metadata := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(metadata); err != nil {
		t.Fatal(err)
	}
	bindings := &informertest.FakeInformers{Scheme: metadata}
	if err := r.follow(t.Context(), bindings); err != nil {
		t.Fatal(err)
	}
	if told != 1 {
		t.Errorf("told %d times at the start, want once: one of the two namespaces has no RoleBinding", told)
	}
	informer, err := bindings.FakeInformerForKind(t.Context(), metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(reason string, want bool) {
		t.Helper()
		for _, namespace := range []string{"never-bound", "elsewhere"} {
			if withdrawn, err := r.Withdrawn(t.Context(), namespace); err != nil || withdrawn || r.Unbound(namespace) {
				t.Errorf("%s: %s is withdrawn: %t, %v", reason, namespace, withdrawn, err)
			}
		}
		if withdrawn, err := r.Withdrawn(t.Context(), tenant); err != nil || withdrawn != want || r.Unbound(tenant) != want {
			t.Errorf("%s: withdrawn %t, %v, unbound %t, want %t", reason, withdrawn, err, r.Unbound(tenant), want)
		}
	}
	expect("nothing has happened", false)
	var returned []string
	r.Returned(func(namespace string) { returned = append(returned, namespace) })
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "archelon-isolated"}}
	if err := c.Patch(t.Context(), binding, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	informer.Delete(binding)
	informer.Delete(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "archelon-isolated"}})
	if told != 2 {
		t.Errorf("told %d times, want of the one in the scope only", told)
	}
	expect("it has gone", true)
	binding.ResourceVersion = ""
	if err := c.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	expect("there is another one", false)
	again := bindingMetadata()
	again.Namespace, again.Name = tenant, roleBinding
	informer.Add(again)
	deleted := again.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.Now())
	informer.Update(again, deleted)
	informer.Update(deleted, again)
	informer.Update(again, again)
	if !slices.Equal(returned, []string{tenant, tenant}) {
		t.Errorf("told of %v, want of the namespace each time that its RoleBinding comes", returned)
	}
}

// claimsOf is a namespace whose RoleBinding is withdrawn, with a HostClaim and the Secret that it uses.
func claimsOf(t *testing.T, ending bool) client.Client {
	t.Helper()
	c := world(t, true, ending)
	for _, list := range []client.ObjectList{&clusterv1.ClusterList{}, &provisioningv1.ClusterList{}, &managementv3.ClusterList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, _ := item.(client.Object)
			object.SetFinalizers(nil)
			if err := c.Update(t.Context(), object); err != nil {
				return err
			}
			return c.Delete(t.Context(), object)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range []client.Object{
		&metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "c", Finalizers: []string{"hostclaims.metal3.io/remote"}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "s", Finalizers: []string{"hostclaims.metal3.io/credentials"}}},
	} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Where permissions are withdrawn, HostClaims and their Secrets are released before these go, so that nothing there has
// to be left for ever.
func TestClaimsWherePermissionsAreWithdrawn(t *testing.T) {
	c := claimsOf(t, false)
	if !run(t, keeper(t, c, true, tenant)) {
		t.Error("it released nothing")
	}
	for name, object := range map[string]client.Object{"c": &metal3v1.HostClaim{}, "s": &corev1.Secret{}} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: name}, object); err != nil || len(object.GetFinalizers()) > 0 {
			t.Errorf("%T: %v, %v, want no finalizer", object, object.GetFinalizers(), err)
		}
	}
	if bound(t, c) {
		t.Error("the permissions stay")
	}
}

// In a namespace that is being deleted the permissions stay until the last claim is gone, and the last Secret of one:
// nobody else could release them.
func TestPermissionsOutlastClaims(t *testing.T) {
	c := claimsOf(t, true)
	r := keeper(t, c, true, tenant)
	queue := started(t, r)
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: tenant}}
	end := func(object client.Object) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), request)
		if err != nil || result.RequeueAfter != 0 || !bound(t, c) {
			t.Fatalf("got %v, %v, bound %t, want it to wait for %T without asking again", result, err, bound(t, c), object)
		}
		if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if woken := next(t, queue); woken != request {
			t.Errorf("%v is woken, want the namespace", woken)
		}
	}
	end(&metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "c"}})
	end(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "s"}})
	if _, err := r.Reconcile(t.Context(), request); err != nil || bound(t, c) {
		t.Errorf("got %v, bound %t, want the permissions to go with the last of them", err, bound(t, c))
	}
	if len(r.awaited.ends) > 0 {
		t.Errorf("%v are watched still", r.awaited.ends)
	}
}

// started returns the queue of a keeper that runs.
func started(t *testing.T, r *Reconciler) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(queue.ShutDown)
	if err := r.awaited.source()(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	return queue
}

// next returns what an event wakes next.
func next(t *testing.T, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) ctrl.Request {
	t.Helper()
	woken := make(chan ctrl.Request, 1)
	go func() {
		request, _ := queue.Get()
		queue.Done(request)
		woken <- request
	}()
	select {
	case request := <-woken:
		return request
	case <-time.After(2 * time.Minute):
		t.Fatal("no event wakes it")
		return ctrl.Request{}
	}
}

// API servers end watches. The keeper looks again then, and begins others.
func TestWatchesThatEnd(t *testing.T) {
	live, ok := claimsOf(t, true).(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	var begun []watch.Interface
	c := interceptor.NewClient(live, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			events, err := c.Watch(ctx, list, opts...)
			begun = append(begun, events)
			return events, err
		},
	})
	r := keeper(t, c, true, tenant)
	queue := started(t, r)
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: tenant}}
	for _, want := range []int{2, 4} {
		for range 2 { // Further looks begin no further watches.
			if _, err := r.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		if len(begun) != want {
			t.Fatalf("%d watches were begun, want %d", len(begun), want)
		}
		begun[want-1].Stop()
		next(t, queue)
	}
	r.awaited.end(tenant)
}

// Where there is no CRD there are no claims, and nothing keeps the permissions.
func TestPermissionsWithoutTheCRD(t *testing.T) {
	live, ok := claimsOf(t, true).(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	missing := &meta.NoKindMatchError{GroupKind: metal3v1.GroupVersion.WithKind("HostClaim").GroupKind()}
	c := interceptor.NewClient(live, interceptor.Funcs{
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			return nil, missing
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if list.GetObjectKind().GroupVersionKind().Kind == "HostClaimList" {
				return missing
			}
			return c.List(ctx, list, opts...)
		},
	})
	r := keeper(t, c, true, tenant)
	started(t, r)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: tenant}}); err != nil || bound(t, c) {
		t.Errorf("got %v, bound %t, want the permissions to go", err, bound(t, c))
	}
}
