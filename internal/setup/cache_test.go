package setup

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// A tenant may write Leases in its own namespace. They are not even received.
func TestLeasesOfTurtlesAreReadInItsNamespaces(t *testing.T) {
	p := &parts{opts: &options.Options{Import: true, TurtlesNamespaces: []string{"turtles"}}}
	manager, err := cacheOptions(p.controllers(), shard.Scope{}, &options.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := leasesOf(t, manager).Namespaces; !reflect.DeepEqual(got, map[string]cache.Config{"turtles": {}}) {
		t.Errorf("got %v", got)
	}
}

func leasesOf(t *testing.T, limits cache.Options) cache.ByObject {
	t.Helper()
	for object, by := range limits.ByObject {
		if _, ok := object.(*coordinationv1.Lease); ok {
			return by
		}
	}
	t.Fatal("it has no Leases")
	return cache.ByObject{}
}

// A cache has one selector for a kind: what one controller leaves out, another one would miss.
func TestTwoControllersNarrowAKind(t *testing.T) {
	all := Controllers()
	other := controller.Controller{Name: "other", Watches: func(shard.Scope) []controller.Watch {
		return []controller.Watch{{Object: &coordinationv1.Lease{}, By: cache.ByObject{Field: controller.Named("x")}}}
	}}
	if _, err := cacheOptions(append(all, other), shard.Scope{}, &options.Options{}); err == nil || !strings.Contains(err.Error(), "rancher-import and other both narrow") {
		t.Errorf("got %v, want both named", err)
	}
	own := other
	own.Watches = func(scope shard.Scope) []controller.Watch {
		watches := slices.Clone(other.Watches(scope))
		watches[0].Own = true
		return watches
	}
	if _, err := cacheOptions(append(all, own), shard.Scope{}, &options.Options{}); err != nil {
		t.Errorf("it has its own cache: %v", err)
	}
}

// What a controller shares has to have what it would have in caches of its own, by the same selectors.
func TestSharedCachesHaveWhatIsNeeded(t *testing.T) {
	before := map[string][]controller.Watch{}
	for _, c := range Controllers() {
		own := slices.DeleteFunc(c.Watches(shard.Scope{}), func(w controller.Watch) bool { return !w.Own })
		for _, watch := range own {
			if c.Shares != "" && !slices.ContainsFunc(before[c.Shares], func(has controller.Watch) bool { return sameWatch(t, c, watch, has) }) {
				t.Errorf("%s shares the caches of %s, which do not have %T as it needs that", c.Name, c.Shares, watch.Object)
			}
		}
		before[c.Name] = own
	}
}

func sameWatch(t *testing.T, c controller.Controller, a, b controller.Watch) bool {
	t.Helper()
	return reflect.TypeOf(a.Object) == reflect.TypeOf(b.Object) && kindOf(t, c, a.Object) == kindOf(t, c, b.Object) && a.Rancher == b.Rancher &&
		reflect.DeepEqual(a.By.Label, b.By.Label) && reflect.DeepEqual(a.By.Field, b.By.Field) && reflect.DeepEqual(a.By.Namespaces, b.By.Namespaces)
}
