package outage

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/scheme"
)

// An Event that no API server would ever accept holds up no deletion.
func TestRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		refuse error
		want   bool
	}{
		"Published": {reason: "the owner knows why", want: true},
		"Forbidden": {"its namespace is being deleted", apierrors.NewForbidden(schema.GroupResource{}, "", nil), true},
		"Invalid":   {"trying again changes nothing", apierrors.NewInvalid(schema.GroupKind{}, "", nil), true},
		"Late":      {"the next attempt tells the owner", apierrors.NewServiceUnavailable("later"), false},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team-a", Name: strings.Repeat("n", 253), UID: "0d3a1b52-5a9b-4bd5-8a24-0c3d6f2a4c11",
				Finalizers: []string{archelonv1.ImportFinalizer, clusterv1.ClusterFinalizer},
			}}
			r, published := releaserOf(t, cluster, tc.refuse)
			err := r.release(t.Context(), release{cluster: cluster, note: "why"})
			after := &clusterv1.Cluster{}
			if err := r.Reader.Get(t.Context(), client.ObjectKeyFromObject(cluster), after); err != nil {
				t.Fatal(err)
			}
			if released := len(after.Finalizers) == 1; released != tc.want || (err == nil) != tc.want {
				t.Errorf("%s: released %t: %v", tc.reason, released, err)
			}
			if len(*published) != 1 {
				t.Fatalf("%d Events were published", len(*published))
			}
			if name := (*published)[0].Name; len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Errorf("no Event can be called %s", name)
			}
		})
	}
}

// releaserOf returns a Releaser in a management cluster with one CAPI Cluster, which is read, and the Events that it
// asked for. The API server answers these with an error.
func releaserOf(t *testing.T, cluster *clusterv1.Cluster, refuse error) (*Releaser, *[]*eventsv1.Event) {
	t.Helper()
	known, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	c := fakeclient.NewClientBuilder().WithScheme(known).WithObjects(cluster).Build()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	published, events := &[]*eventsv1.Event{}, fake.NewClientset()
	events.PrependReactor("create", "events", func(a clientgotesting.Action) (bool, runtime.Object, error) {
		create, _ := a.(clientgotesting.CreateAction)
		event, _ := create.GetObject().(*eventsv1.Event)
		*published = append(*published, event)
		return true, event, refuse
	})
	r, err := NewReleaser(Options{
		Ask: func(context.Context) error { return nil }, Reader: c, Client: c, Events: events.EventsV1(),
		Self: instance.ID{Namespace: "archelon-system", Name: "archelon"}, After: time.Minute, Logger: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, published
}
