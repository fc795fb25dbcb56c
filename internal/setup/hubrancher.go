package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hub/fanout"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/shard"
)

// sharedRancher is Rancher's cluster as imports from many management clusters share it: each has a client of its own
// and a view of common caches.
type sharedRancher struct {
	shared, own *fanout.Fanout
}

// shareRancher shares the caches of the hub.
func shareRancher(ctx context.Context, env controller.Env) (*sharedRancher, error) {
	watches, ownScheme := importer.FromMany(shard.Scope{})
	known, err := ownScheme()
	if err != nil {
		return nil, err
	}
	kinds := map[bool][]fanout.Kind{}
	for _, watch := range watches {
		kind, err := sharedKind(watch.Object, env.Rancher.GetCache())
		if err != nil {
			return nil, err
		}
		kinds[watch.Own] = append(kinds[watch.Own], kind)
	}
	s := &sharedRancher{}
	if s.shared, err = fanout.New(ctx, env.Rancher.GetCache(), env.Rancher.GetScheme(), kinds[false]...); err != nil {
		return nil, err
	}
	s.own, err = fanout.New(ctx, env.RancherOwn, known, kinds[true]...)
	return s, err
}

// sharedKind says which management clusters the objects of a kind concern. Registration tokens and their
// Secrets are in a namespace that has the name of a Rancher cluster: while that is not in the cache nobody
// needs them, and it wakes who does.
func sharedKind(object client.Object, clusters cache.Cache) (fanout.Kind, error) {
	behind := func(ctx context.Context, object client.Object) types.UID {
		found := &managementv3.Cluster{}
		if err := clusters.Get(ctx, client.ObjectKey{Name: object.GetNamespace()}, found, client.UnsafeDisableDeepCopy); err != nil {
			return ""
		}
		return originOf(ctx, found)
	}
	switch object.(type) {
	case *managementv3.Cluster:
		return fanout.Kind{Object: object, Of: originOf, Apart: true}, nil
	case *managementv3.Setting:
		return fanout.Kind{Object: object, Matters: func(_, after client.Object) bool {
			return slices.Contains(rancher.SettingNames(), after.GetName())
		}}, nil
	case *rancher.NamedCluster:
		return fanout.Kind{Object: object, Matters: nameMatters}, nil
	}
	switch kind := object.GetObjectKind().GroupVersionKind(); kind.Kind {
	case "Secret", rancher.NewRegistrationToken().GetKind():
		return fanout.Kind{Object: object, Of: behind}, nil
	default:
		return fanout.Kind{}, errors.New("nobody says which management cluster an object concerns of kind " + kind.Kind)
	}
}

func originOf(_ context.Context, object client.Object) types.UID {
	return types.UID(object.GetLabels()[archelonv1.ManagementClusterLabel])
}

// nameMatters reports whether a change concerns those who have to do with a display name.
func nameMatters(before, after client.Object) bool {
	old, ok := before.(*rancher.NamedCluster)
	named, ok2 := after.(*rancher.NamedCluster)
	return ok && ok2 && !rancher.SameName(old, named)
}

// at adds Rancher's cluster, as a management cluster sees it, to the manager of that.
func (s *sharedRancher) at(mgr ctrl.Manager, config *rest.Config, origin types.UID) (located, error) {
	view, own := s.shared.View(origin), s.own.View(origin)
	there, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.Client = mgr.GetScheme(), staticMapper, clientOptions()
		o.NewCache = func(*rest.Config, cache.Options) (cache.Cache, error) { return view, nil }
	})
	if err != nil {
		return located{}, fmt.Errorf("building the client of Rancher's cluster: %w", err)
	}
	for _, start := range []everywhere{there.Start, own.Start} {
		if err := mgr.Add(start); err != nil {
			return located{}, fmt.Errorf("adding Rancher's cluster: %w", err)
		}
	}
	return located{Cluster: there, config: config, own: own}, nil
}
