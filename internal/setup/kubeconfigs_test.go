package setup

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/controller"
)

func secretMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(corev1.SchemeGroupVersion, "Secret")
}

// secretMeta is the metadata of a Secret as CAPI makes it.
func secretMeta(cluster int, suffix string) metav1.PartialObjectMetadata {
	namespace, name := fmt.Sprintf("tenant-%03d", cluster%500), fmt.Sprintf("production-%05d", cluster)
	secret := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name + suffix, UID: types.UID(fmt.Sprintf("6c1f4a52-1b5e-4b8e-9d3c-%012d", cluster)), ResourceVersion: "123456789",
		CreationTimestamp: metav1.Unix(1, 0),
		Labels:            map[string]string{strings.Clone("cluster.x-k8s.io/cluster-name"): strings.Clone(name)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: strings.Clone("controlplane.cluster.x-k8s.io/v1beta2"), Kind: strings.Clone("KubeadmControlPlane"), Name: name + "-cp",
			UID: types.UID(fmt.Sprintf("7d1f4a52-1b5e-4b8e-9d3c-%012d", cluster)), Controller: new(true), BlockOwnerDeletion: new(true),
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: strings.Clone("manager"), FieldsV1: metav1.NewFieldsV1(strings.Repeat("\x00", 500))}},
	}}
	secret.SetGroupVersionKind(secretMetadata().GroupVersionKind())
	return secret
}

// ofMachine is the metadata of the Secret with the bootstrap data of a machine.
func ofMachine(cluster, machine int) metav1.PartialObjectMetadata {
	secret := secretMeta(cluster, fmt.Sprintf("-md-0-x7k2p-%05d", machine))
	secret.OwnerReferences[0].APIVersion, secret.OwnerReferences[0].Kind = "bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig"
	return secret
}

// secretsOf returns the Secrets of clusters of ten machines.
func secretsOf(clusters int) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range clusters {
		for _, suffix := range []string{"-kubeconfig", "-ca", "-etcd", "-proxy", "-sa"} {
			list.Items = append(list.Items, secretMeta(i, suffix))
		}
		for machine := range 10 {
			list.Items = append(list.Items, ofMachine(i, machine))
		}
	}
	return list
}

// noStream lists, and does not stream what is there at first.
type noStream struct{}

func (noStream) IsWatchListSemanticsUnSupported() bool { return true }

type build func(toolscache.ListerWatcher, apiruntime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// synced runs an informer on a list until it holds that, and returns it and what brings more.
func synced(t *testing.T, build build, transform toolscache.TransformFunc, first func() *metav1.PartialObjectMetadataList) (toolscache.SharedIndexInformer, *watch.FakeWatcher) {
	t.Helper()
	more := watch.NewFake()
	from := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (apiruntime.Object, error) { return first(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return more, nil },
	}, noStream{})
	informer := build(from, secretMetadata(), 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(transform); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("not synced")
	}
	return informer, more
}

func TestOnlyKubeconfigsAreKept(t *testing.T) {
	informer, more := synced(t, newInformer, keepKubeconfig, func() *metav1.PartialObjectMetadataList { return secretsOf(2) })
	changed := make(chan string, 10)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed <- "added " + nameOf(t, o) },
		UpdateFunc: func(_, o any) { changed <- "changed " + nameOf(t, o) },
		DeleteFunc: func(o any) { changed <- "deleted " + nameOf(t, o) },
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"added tenant-000/production-00000-kubeconfig", "added tenant-001/production-00001-kubeconfig"} {
		got := []string{<-changed}
		if !slices.Contains(append(got, informer.GetStore().ListKeys()...), strings.TrimPrefix(want, "added ")) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	send := func(do func(apiruntime.Object), cluster int, suffix, version string) {
		secret := secretMeta(cluster, suffix)
		secret.ResourceVersion = version
		do(&secret)
	}
	send(more.Add, 2, "-ca", "2")
	send(more.Modify, 0, "-sa", "3")
	more.Action(watch.Bookmark, secretMetadata())
	send(more.Delete, 0, "-etcd", "4")
	send(more.Modify, 0, "-kubeconfig", "5")
	send(more.Delete, 1, "-kubeconfig", "6")
	send(more.Add, 3, "-kubeconfig", "7")
	for _, want := range []string{
		"changed tenant-000/production-00000-kubeconfig", "deleted tenant-001/production-00001-kubeconfig", "added tenant-003/production-00003-kubeconfig",
	} {
		if got := <-changed; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	// One that an annotation may name is kept with what tells whose it is.
	tunnel := secretMeta(3, "-tunnel")
	more.Add(&tunnel)
	if got := <-changed; got != "added tenant-003/production-00003-tunnel" {
		t.Errorf("%s, want the one that an annotation may name", got)
	}
	named, _, _ := informer.GetStore().GetByKey("tenant-003/production-00003-tunnel")
	if secret, ok := named.(*metav1.PartialObjectMetadata); !ok || len(secret.Labels) != 1 || secret.Labels["cluster.x-k8s.io/cluster-name"] != "production-00003" {
		t.Errorf("the cache holds %+v, want its cluster", named)
	}
	keys := slices.DeleteFunc(informer.GetStore().ListKeys(), func(key string) bool { return strings.HasSuffix(key, "-tunnel") })
	slices.Sort(keys)
	if want := []string{"tenant-000/production-00000-kubeconfig", "tenant-003/production-00003-kubeconfig"}; !slices.Equal(keys, want) {
		t.Errorf("the cache holds %v, want %v", keys, want)
	}
	kept, _, _ := informer.GetStore().GetByKey(keys[0])
	secret, ok := kept.(*metav1.PartialObjectMetadata)
	if !ok || secret.ResourceVersion != "5" || secret.UID == "" || len(secret.Labels) > 0 || len(secret.OwnerReferences) > 0 || len(secret.ManagedFields) > 0 {
		t.Errorf("the cache holds %+v, want its UID and its version and no more", kept)
	}
}

func nameOf(t *testing.T, object any) string {
	t.Helper()
	found, err := meta.Accessor(object)
	if err != nil {
		t.Error(err)
		return ""
	}
	return found.GetNamespace() + "/" + found.GetName()
}

// Other kinds come as they are.
func TestOtherInformersAreAsEver(t *testing.T) {
	list := secretsOf(1)
	from := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (apiruntime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, noStream{})
	informer := newInformer(from, controller.MetadataOf(corev1.SchemeGroupVersion, "Namespace"), 0, toolscache.Indexers{})
	go informer.RunWithContext(t.Context())
	if !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) || len(informer.GetStore().ListKeys()) != 15 {
		t.Errorf("the cache holds %v, want all 15", informer.GetStore().ListKeys())
	}
}

// A cluster of ten machines has fifteen Secrets with the label of CAPI. What they take is counted in the
// heap, after it was cleaned up.
func TestSecretsTakeLittleMemory(t *testing.T) {
	const clusters = 2000
	before := heapOf(t, clusters, toolscache.NewSharedIndexInformer, cache.TransformStripManagedFields())
	after := heapOf(t, clusters, newInformer, keepKubeconfig)
	t.Logf("a Secret takes %d bytes with all of their metadata, and %d bytes with that of kubeconfigs alone; 10,000 clusters of ten machines %d MB and %d MB",
		before/clusters/15, after/clusters/15, before*10_000/clusters>>20, after*10_000/clusters>>20)
	if after/clusters > 1500 {
		t.Errorf("the Secrets of a cluster take %d bytes, want at most 1,500", after/clusters)
	}
}

// heapOf returns the bytes that an informer of the Secrets of clusters adds to the heap.
func heapOf(t *testing.T, clusters int, build build, transform toolscache.TransformFunc) int64 {
	t.Helper()
	base := heap()
	informer, _ := synced(t, build, transform, func() *metav1.PartialObjectMetadataList { return decoded(t, secretsOf(clusters)) })
	taken := heap() - base
	if len(informer.GetStore().ListKeys()) == 0 {
		t.Error("the informer is empty")
	}
	return taken
}

// decoded returns the list as it comes from an API server: each string stands for itself.
func decoded(t *testing.T, list *metav1.PartialObjectMetadataList) *metav1.PartialObjectMetadataList {
	t.Helper()
	raw, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	fresh := &metav1.PartialObjectMetadataList{}
	if err := fresh.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	for i := range fresh.Items {
		fresh.Items[i].SetGroupVersionKind(secretMetadata().GroupVersionKind())
	}
	return fresh
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
