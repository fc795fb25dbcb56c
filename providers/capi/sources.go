package capi

import (
	"context"
	"reflect"
	"runtime"
	"strings"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/manager/coordinator/basic"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// EndSources returns an option for mcmanager.WithMultiCluster and mcmanager.New. With it a cluster that leaves, or that
// a controller cannot be started for, leaves no goroutine behind. The clusters are engaged as without the option.
//
// A controller of multicluster-runtime v0.24.1 starts a goroutine for each source of each engagement. The goroutine
// waits for the end of the controller and not for that of the engagement (startWithinContext in its pkg/controller).
// A provider cannot end it: it is not the one who passes the context on which the goroutine waits. Therefore the
// option puts a controller of ours below each one of multicluster-runtime when that is added to the manager. It passes
// a context to the source that ends with the engagement, too, and so ends the goroutine.
func EndSources() mcmanager.Option { return mcmanager.WithCoordinator(coordinator{basic.New()}) }

// coordinator is the usual one of multicluster-runtime, which meets each controller when it is added.
type coordinator struct{ *basic.Coordinator }

// AddAware implements mcmanager.Coordinator.
func (c coordinator) AddAware(aware multicluster.Aware) {
	putBelow(aware)
	c.Coordinator.AddAware(aware)
}

// putBelow puts an endingController below a controller of multicluster-runtime. The type of that one is not exported,
// its embedded field is, and nothing else sets it. Whatever has no such field stays as it is, and keeps its goroutines.
func putBelow(aware multicluster.Aware) {
	pointer := reflect.ValueOf(aware)
	if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Struct {
		return
	}
	field := pointer.Elem().FieldByName("TypedController")
	if !field.IsValid() || !field.CanSet() {
		return
	}
	if below, ok := reflect.TypeAssert[controller.TypedController[mcreconcile.Request]](field); ok {
		field.Set(reflect.ValueOf(&endingController{TypedController: below}))
	}
}

// endingController is a controller whose sources end with the engagement that they were started for.
type endingController struct {
	controller.TypedController[mcreconcile.Request]
	// engagement is the context of the one that begins. The lock of the controller above guards it.
	engagement context.Context //nolint:containedctx // Watch has no parameter for it
}

// Engage implements multicluster.Aware. The Engage of the controller above calls it before it calls Watch for each
// source, and holds its lock all the while.
func (c *endingController) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	c.engagement = ctx
	if below, ok := c.TypedController.(multicluster.Aware); ok {
		return below.Engage(ctx, name, cl)
	}
	return nil
}

// Watch implements controller.TypedController.
func (c *endingController) Watch(src source.TypedSource[mcreconcile.Request]) error {
	if !calledByEngage() {
		return c.TypedController.Watch(src)
	}
	engagement := c.engagement
	return c.TypedController.Watch(source.TypedFunc[mcreconcile.Request](
		func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
			ctx, end := context.WithCancel(ctx)
			context.AfterFunc(engagement, end)
			return src.Start(ctx, queue)
		}))
}

// calledByEngage reports whether the method of ours that calls it was called by the Engage of a controller of
// multicluster-runtime. Its MultiClusterWatch calls Watch, too, for clusters that were engaged earlier, and tells in no
// other way that it does. Those sources must not end with the last engagement. So they keep their goroutines.
func calledByEngage() bool {
	const itself = 3 // runtime.Callers, calledByEngage, and the method
	pcs := make([]uintptr, 1)
	if runtime.Callers(itself, pcs) == 0 {
		return false
	}
	caller, _ := runtime.CallersFrames(pcs).Next()
	return strings.Contains(caller.Function, "/multicluster-runtime/pkg/controller.") &&
		strings.HasSuffix(caller.Function, ".Engage")
}
