package setup

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// empty is an API server without CRDs, until some come.
type empty struct {
	apiextensionsclient.CustomResourceDefinitionInterface
	come *watch.FakeWatcher
}

func (empty) List(context.Context, metav1.ListOptions) (*apiextensionsv1.CustomResourceDefinitionList, error) {
	return &apiextensionsv1.CustomResourceDefinitionList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (e empty) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // It does not stream what is there at first.
	}
	return e.come, nil
}

// One whose CRDs are missing keeps nobody else from working, and readiness says whose CRDs they are.
func TestAControllerWaitsForItsOwnCRDsAlone(t *testing.T) {
	api := empty{come: watch.NewFake()}
	registry := prometheus.NewRegistry()
	gauge, err := newSynced(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{synced: func() { gauge.Set(1) }, logger: logr.Discard()}
	synced := func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return families[0].GetMetric()[0].GetGauge().GetValue() == 1
	}
	begun, watches := make(chan string, 2), watchesOn(api)
	for name, needed := range map[string][]controller.CRD{
		"always": nil, "waiting": {{Name: "things.example.com", Version: "v1", Of: controller.Product{Name: "Things", Needed: "Things 2"}}},
	} {
		c := controller.Controller{
			Name: name, CRDs: needed, Watches: func(shard.Scope) []controller.Watch { return nil },
			Setup: func(context.Context, controller.Env) error { begun <- name; return nil },
		}
		r.controllers = append(r.controllers, &started{Controller: c, crds: waitOn(watches, watches, c)})
	}
	r.left.Store(2)
	ended := make(chan error, 2)
	for _, s := range r.controllers {
		go func() { ended <- r.start(t.Context(), s, shard.Scope{}) }()
	}
	if got := <-begun; got != "always" {
		t.Fatalf("%s begins first", got)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	checks := r.checks()
	if err := checks["crds-always"](nil); err != nil {
		t.Errorf("it needs none: %v", err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		err := checks["crds-waiting"](nil)
		return err != nil && strings.Contains(err.Error(), "CRD things.example.com does not exist; Archelon needs Things 2"), nil
	})
	if err != nil {
		t.Fatalf("readiness says %v", checks["crds-waiting"](nil))
	}
	if checks["caches"](nil) == nil || synced() {
		t.Error("it counts as synced while one waits")
	}
	api.come.Add(crd("things.example.com", "v1"))
	if got := <-begun; got != "waiting" {
		t.Fatalf("%s begins", got)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := checks["caches"](nil); err != nil || !synced() {
		t.Errorf("all have begun: %v", err)
	}
}
