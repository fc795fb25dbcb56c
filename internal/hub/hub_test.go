package hub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

const namespace = "archelon-system"

// world is a hub whose imports the test sees.
type world struct {
	*Hub

	events   *events.FakeRecorder
	gatherer *prometheus.Registry
	begun    chan Target
	release  chan error
	ended    chan string
	overlap  chan string
}

func registered(name string, created int, uid types.UID) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("of-" + name), CreationTimestamp: at(created), Annotations: map[string]string{}},
		Data:       map[string][]byte{KubeconfigKey: []byte("safe")},
	}
	if uid != "" {
		secret.Annotations[archelonv1.ManagementClusterUIDAnnotation] = string(uid)
	}
	return secret
}

func newWorld(t *testing.T, secrets ...client.Object) *world {
	t.Helper()
	w := &world{
		events: events.NewFakeRecorder(100), begun: make(chan Target, 10), release: make(chan error), overlap: make(chan string, 1), ended: make(chan string, 10),
	}
	running := map[types.UID]chan struct{}{"a": make(chan struct{}, 1), "b": make(chan struct{}, 1)}
	w.Hub = newHub(fake.NewClientBuilder().WithObjects(secrets...).Build(), w.events, Options{
		Namespace: namespace, Own: "own", Registry: prometheus.NewRegistry(),
		Import: func(ctx context.Context, from Target, progress Progress) error {
			select {
			case running[from.UID] <- struct{}{}:
			default:
				w.overlap <- from.Name
			}
			defer func() { <-running[from.UID]; w.ended <- from.Name }()
			progress.Synced()
			w.begun <- from
			select {
			case <-ctx.Done():
				return nil
			case err := <-w.release:
				return err
			}
		},
	})
	w.gatherer = prometheus.NewRegistry()
	w.gatherer.MustRegister(w.engaged)
	return w
}

// decides runs what decides about a management cluster, which answers with a UID.
func (w *world) decides(t *testing.T, name string, seen types.UID) (*site, context.CancelFunc) {
	t.Helper()
	s := newSite(w.Hub, name, &rest.Config{})
	s.seen = seen
	w.mu.Lock()
	w.sites[s] = struct{}{}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); s.decideUntil(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return s, stop
}

func (w *world) write(t *testing.T, change func(*corev1.Secret), name string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The hub may write the UID at the same time.
		secret := &corev1.Secret{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
			return err
		}
		if secret.Annotations == nil {
			secret.Annotations = map[string]string{}
		}
		change(secret)
		return w.client.Update(t.Context(), secret)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.reconcile(t, name)
}

func (w *world) reconcile(t *testing.T, name string) {
	t.Helper()
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) expectEvent(t *testing.T, reason string) {
	t.Helper()
	select {
	case event := <-w.events.Events:
		if !strings.Contains(event, " "+reason+" ") {
			t.Fatalf("got Event %q, want %s", event, reason)
		}
	case <-time.After(time.Minute):
		t.Fatalf("there is no Event %s", reason)
	}
}

func (w *world) expectBegun(t *testing.T, name string) {
	t.Helper()
	select {
	case from := <-w.begun:
		if from.Name != name {
			t.Fatalf("the import from %s begins, want %s", from.Name, name)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the import from %s does not begin", name)
	}
}

// series are the values of the metric, by cluster.
func (w *world) series(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := w.gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	return values
}

func TestARegistrationIsPinnedBeforeItsImportBegins(t *testing.T) {
	w := newWorld(t, registered("east", 1, ""))
	s, _ := w.decides(t, "east", "a")
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		secret := &corev1.Secret{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "east"}, secret)
		return secret.Annotations[archelonv1.ManagementClusterUIDAnnotation] == "a", err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.reconcile(t, "east") // As the watch does.
	w.expectBegun(t, "east")
	w.expectEvent(t, EngagedReason)
	if got := w.series(t)["east"]; got != 1 {
		t.Errorf("engaged: %v", got)
	}

	s.note(func() { s.seen = "b" })
	w.expectEvent(t, OtherClusterReason)
	if got := w.series(t)["east"]; got != 0 {
		t.Errorf("engaged with another cluster: %v", got)
	}
	s.note(func() { s.seen = "a" })
	w.expectBegun(t, "east")
}

func TestAKubeconfigThatIsRefusedEndsTheImport(t *testing.T) {
	w := newWorld(t, registered("east", 1, "a"))
	w.decides(t, "east", "a")
	w.expectBegun(t, "east")
	w.expectEvent(t, EngagedReason)
	w.write(t, func(secret *corev1.Secret) {
		secret.Data = map[string][]byte{refusedKey: []byte("the kubeconfig is refused")}
	}, "east")
	w.expectEvent(t, KubeconfigRefusedReason)
	<-w.ended
	w.write(t, func(secret *corev1.Secret) { secret.Data = map[string][]byte{KubeconfigKey: []byte("safe")} }, "east")
	w.expectBegun(t, "east")
	w.expectEvent(t, EngagedReason)
	if len(w.events.Events) > 0 {
		t.Errorf("an Event that says nothing new: %s", <-w.events.Events)
	}
}

func TestTwoRegistrationsOfOneClusterNeverOverlap(t *testing.T) {
	w := newWorld(t, registered("older", 1, ""), registered("younger", 2, "a"))
	w.decides(t, "younger", "a")
	w.expectBegun(t, "younger")
	// The older one turns out to be of the same management cluster.
	w.decides(t, "older", "a")
	w.write(t, func(secret *corev1.Secret) { secret.Annotations[archelonv1.ManagementClusterUIDAnnotation] = "a" }, "older")
	w.expectBegun(t, "older")
	select {
	case name := <-w.overlap:
		t.Errorf("%s began while the other was running", name)
	default:
	}
}

func TestAnImportThatFailsIsTriedAgainAndAloneSo(t *testing.T) {
	w := newWorld(t, registered("east", 1, "a"), registered("west", 1, "b"))
	w.decides(t, "east", "a")
	w.expectBegun(t, "east")
	w.expectEvent(t, EngagedReason)
	w.release <- &LackingError{"list secrets"}
	w.expectEvent(t, ForbiddenReason)
	w.decides(t, "west", "b")
	w.expectBegun(t, "west")
	w.expectBegun(t, "east")
}

func TestAnEndIsAwaited(t *testing.T) {
	w := newWorld(t, registered("east", 1, "a"))
	ended := make(chan struct{})
	first := w.Import
	w.Import = func(ctx context.Context, from Target, progress Progress) error {
		defer close(ended)
		return first(ctx, from, progress)
	}
	_, stop := w.decides(t, "east", "a")
	w.expectBegun(t, "east")
	stop()
	select {
	case <-ended:
	default:
		t.Error("it still imports")
	}
}

func TestWhatIsNotRegisteredAnyMoreHasNoSeries(t *testing.T) {
	w := newWorld(t, registered("east", 1, "a"))
	w.say(t.Context(), "east", state{EngagedReason, "yes"})
	w.say(t.Context(), "east", state{EngagedReason, "yes"})
	w.expectEvent(t, EngagedReason)
	if err := w.client.Delete(t.Context(), registered("east", 1, "a")); err != nil {
		t.Fatal(err)
	}
	w.reconcile(t, "east")
	w.say(t.Context(), "east", state{UnreachableReason, "late"})
	if got := w.series(t); len(got) > 0 {
		t.Errorf("it has %v", got)
	}
	if len(w.events.Events) > 0 {
		t.Errorf("it has an Event: %s", <-w.events.Events)
	}
}

func TestAHubNeedsAll(t *testing.T) {
	if err := SetupWithManager(t.Context(), nil, Options{}); err == nil {
		t.Error(errors.New("it begins without a namespace"))
	}
}
