// Package controller describes a controller of this program: what has to be known of it to run it, to give it what it
// may do, and to release what it holds. Each system exports one description, and internal/setup lists them. Tests of
// permissions and documentation range over that list.
package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/internal/shard"
)

// Controller is what there is to know of one.
type Controller struct {
	// Name is that of the controller in logs, metrics, Events and readiness checks.
	Name string
	// Package has its code and the markers of its permissions, below internal.
	Package string
	// Gate switches it on. Without one it is always on.
	Gate featuregate.Feature
	// Option is the flag that switches it on, beside the gate, and Off says that it is not set. Without one there is none.
	Option string
	Off    bool
	// Optional: neither readiness nor the other controllers depend on it, so it may wait for its CRDs for ever.
	Optional bool
	// Isolated limits it to instances that have their permissions in named namespaces.
	Isolated bool
	// CRDs are what it waits for. It alone waits; the others run.
	CRDs []CRD
	// Watches are the kinds that it receives in a scope, and how narrowly.
	Watches func(scope shard.Scope) []Watch
	// Shares is the name of a controller before it in the list. Its own caches take the place of this one's: they have all
	// that this one needs in its own, by the same selectors, so that nothing is watched twice.
	Shares string
	// Scheme, if set, returns that of its own cache: for a kind that has another type there.
	Scheme func() (*runtime.Scheme, error)
	// Holds are the kinds that carry a finalizer of ours because of it.
	Holds []schema.GroupVersionKind
	// Setup adds it to the manager, once its CRDs are there.
	Setup func(ctx context.Context, env Env) error
}

// Watch is a kind that a controller receives.
type Watch struct {
	// Object is of the kind, in the form in which it is received.
	Object client.Object
	// By is how narrowly. Without namespaces of its own, a kind with a namespace is received from those of the scope. The
	// zero value is as narrowly as the other controllers, or internal/setup, have it.
	By cache.ByObject
	// Own has it in a cache of the controller's own, because others need it by another selector.
	Own bool
	// Rancher: it is in Rancher's cluster, which usually is the management cluster.
	Rancher bool
}

// CRD is one that a controller needs.
type CRD struct {
	// Name is "plural.group".
	Name string
	// Version has to be served.
	Version string
	// Of is what brings it along.
	Of Product
	// Selectable is a field that has to be selectable, as a path. Others may have a CRD of the same name without it.
	Selectable string
	// Fields are those that its schema has to have, as paths below the object, such as "spec.kind". Of a CRD with such
	// needs there can be another one that drops what it does not know. So it is watched as long as the process runs.
	Fields []string
	// Optional: the controller works without it as long as there is none of the name, and receives nothing of the kind.
	// When it is created, the process ends and is started again.
	Optional bool
}

// Replaceable reports whether others have a CRD of the same name that would drop what is written.
func (c CRD) Replaceable() bool { return c.Selectable != "" || len(c.Fields) > 0 }

// Product brings CRDs along.
type Product struct {
	// Name is what people call it.
	Name string
	// Needed is which versions of it will do.
	Needed string
}

// CAPI is core Cluster API.
func CAPI() Product {
	return Product{Name: "CAPI", Needed: "CAPI 1.11 or newer, which Rancher 2.14 and newer bring along"}
}

// PausingClusters is the CRD of CAPI Clusters, for controllers that read no more of them than whether they are paused:
// where there are none, nothing is.
func PausingClusters() CRD {
	return CRD{Name: "clusters.cluster.x-k8s.io", Version: "v1beta2", Of: CAPI(), Optional: true}
}

// Rancher is Rancher.
func Rancher() Product { return Product{Name: "Rancher", Needed: "Rancher 2.14 or newer"} }

// Env is what a controller is set up in.
type Env struct {
	// Manager has the shared cache, and a client that reads from it.
	Manager ctrl.Manager
	// Own is the controller's own cache.
	Own cache.Cache
	// Rancher is Rancher's cluster with its shared cache, and RancherOwn the controller's own cache of it. Usually
	// Rancher's cluster is the management cluster, and both are as above.
	Rancher    cluster.Cluster
	RancherOwn cache.Cache
	// Without are the names of optional CRDs that do not exist.
	Without []string
}

// Has reports whether a CRD exists that is optional for the controller.
func (e Env) Has(crd CRD) bool { return !slices.Contains(e.Without, crd.Name) }

// On returns those of the controllers that run.
func On(all []Controller, gates featuregate.FeatureGate, isolated bool) []Controller {
	var on []Controller
	for _, c := range all {
		if !c.Off && (c.Gate == "" || gates.Enabled(c.Gate)) && (!c.Isolated || isolated) {
			on = append(on, c)
		}
	}
	return on
}
