package workloadserver_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/archelon-io/archelon/providers/capi/workloadserver"
)

const patience = 2 * time.Minute

// seen collects requests.
type seen struct {
	mu       sync.Mutex
	requests []workloadserver.Request
}

func (s *seen) observe(request workloadserver.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
}

func (s *seen) verbs(cluster string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var verbs []string
	for _, request := range s.requests {
		if request.Cluster == cluster && request.Verb != "watch" {
			verbs = append(verbs, request.Verb+" "+request.Resource)
		}
	}
	return verbs
}

func start(t *testing.T) (*workloadserver.Server, *seen) {
	t.Helper()
	log := &seen{}
	server, err := workloadserver.Start(t.Context(), log.observe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server, log
}

// clientFor goes through the kubeconfig, as the manager does.
func clientFor(t *testing.T, kubeconfig []byte, err error) kubernetes.Interface {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "tester/1"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

func TestObjects(t *testing.T) {
	server, log := start(t)
	kubeconfig, err := server.Kubeconfig("one")
	one := clientFor(t, kubeconfig, err)
	ctx, as := t.Context(), metav1.ApplyOptions{FieldManager: "tester"}

	deployment := appsv1ac.Deployment("agent", "cattle-system").WithLabels(map[string]string{"app": "agent"})
	if _, err := one.AppsV1().Deployments("cattle-system").Apply(ctx, deployment, as); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace has to exist before what is in it, got: %v", err)
	}
	if _, err := one.CoreV1().Namespaces().Apply(ctx, corev1ac.Namespace("cattle-system"), as); err != nil {
		t.Fatal(err)
	}
	created, err := one.AppsV1().Deployments("cattle-system").Apply(ctx, deployment, as)
	if err != nil {
		t.Fatal(err)
	}
	created.Labels["app"] = "changed"
	updated, err := one.AppsV1().Deployments("cattle-system").Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.UID != created.UID || updated.ResourceVersion == created.ResourceVersion {
		t.Errorf("an update keeps the UID and changes the version, got %s/%s after %s/%s", updated.UID, updated.ResourceVersion, created.UID, created.ResourceVersion)
	}
	if _, err := one.AppsV1().Deployments("cattle-system").Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version is a conflict, got: %v", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	if _, err := one.CoreV1().Secrets("cattle-system").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.CoreV1().Secrets("cattle-system").Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("what exists is not created again, got: %v", err)
	}
	if list, err := one.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: "app=agent"}); err != nil || len(list.Items) != 0 {
		t.Errorf("a list follows its selector, got %d and %v", len(list.Items), err)
	}
	if err := one.CoreV1().Namespaces().Delete(ctx, "cattle-system", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.AppsV1().Deployments("cattle-system").Get(ctx, "agent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what is in a namespace goes with it, got: %v", err)
	}

	want := []string{
		"patch deployments", "patch namespaces", "patch deployments", "update deployments", "update deployments",
		"create secrets", "create secrets", "list deployments", "delete namespaces", "get deployments",
	}
	if diff := cmp.Diff(want, log.verbs("one")); diff != "" {
		t.Errorf("every request is observed: -want, +got:\n%s", diff)
	}
	kubeconfig, err = server.Kubeconfig("two")
	two := clientFor(t, kubeconfig, err)
	if info, err := two.Discovery().ServerVersion(); err != nil || info.Major != "1" {
		t.Errorf("the version is known, got %v and %v", info, err)
	}
	if list, err := two.AppsV1().Deployments("").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("clusters share nothing, got %d and %v", len(list.Items), err)
	}
}

func TestWatch(t *testing.T) {
	server, _ := start(t)
	kubeconfig, err := server.Kubeconfig("one")
	clientset := clientFor(t, kubeconfig, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	secretNamed := func(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	if _, err := clientset.CoreV1().Secrets("default").Create(ctx, secretNamed("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	events := make(chan string, 10)
	name := func(object any) string {
		if meta, ok := object.(metav1.Object); ok {
			return meta.GetName()
		}
		return "unknown"
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	if _, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events <- "added " + name(object) },
		DeleteFunc: func(object any) { events <- "deleted " + name(object) },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if _, err := clientset.CoreV1().Secrets("default").Create(ctx, secretNamed("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := clientset.CoreV1().Secrets("default").Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 3 {
		select {
		case event := <-events:
			got = append(got, event)
		case <-ctx.Done():
			t.Fatalf("the watch brought only %v", got)
		}
	}
	if want := []string{"added before", "added after", "deleted before"}; !slices.Equal(got, want) {
		t.Errorf("a watch brings what there is and what changes, want %v, got %v", want, got)
	}
	cancel()
	factory.Shutdown()
}

func TestBlackHole(t *testing.T) {
	server, log := start(t)
	kubeconfig, err := server.BlackHole("dead")
	clientset := clientFor(t, kubeconfig, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = clientset.AppsV1().Deployments("default").Get(ctx, "agent", metav1.GetOptions{})
	var refused *net.OpError
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &refused) {
		t.Errorf("a black hole takes the connection and does not answer, got: %v", err)
	}
	if verbs := log.verbs("dead"); len(verbs) != 0 {
		t.Errorf("nothing arrives, got %v", verbs)
	}
}
