package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/feature"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	importer "github.com/archelon-io/archelon/internal/import"
	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/rancher"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/setup"
	"github.com/archelon-io/archelon/internal/shard"
)

// found is what was read.
type found struct {
	world *world
	// clusters are the CAPI clusters, and instances the Leases of instances.
	clusters  []client.ObjectKey
	instances []coordinationv1.Lease
	from      From
}

// kindOfList is something that is listed.
type kindOfList struct {
	from client.Reader
	what string
	list client.ObjectList
	opts []client.ListOption
	into func(client.ObjectList) error
}

// From is what is read, and from where.
type From struct {
	// Management is where CAPI is.
	Management client.Reader
	// Rancher is where Rancher is, and Instances where the Leases of instances are; the same where that is not another
	// one.
	Rancher, Instances client.Reader
	// Origin is the management cluster, where Rancher is in another one, and Display how people call it, where there
	// are many.
	Origin  types.UID
	Display string
}

// FromOne reads everything from one cluster, as where CAPI and Rancher are in the same.
func FromOne(reader client.Reader) From {
	return From{Management: reader, Rancher: reader, Instances: reader}
}

// load reads the management cluster, and Rancher's, by one list of each kind: the role of the chart for this permits
// nothing else. No Secret is read, and no registration token: in older versions of Rancher these hold credentials.
func load(ctx context.Context, from From, opts *options.Options) (*found, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	rules, err := setup.CachedBy(opts)
	if err != nil {
		return nil, err
	}
	l := &loader{world: newWorld(known, scheme.Mapper()), rules: rules}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	clusters, turtles, instances := &clusterv1.ClusterList{}, &coordinationv1.LeaseList{}, &coordinationv1.LeaseList{}
	lists := []kindOfList{
		{from.Management, "CAPI clusters", clusters, nil, l.keep},
		{from.Rancher, "v3 Rancher clusters", &managementv3.ClusterList{}, nil, l.keep},
		{from.Rancher, "Rancher's settings", &managementv3.SettingList{}, nil, l.keep},
		{from.Management, "Namespaces", namespaces, nil, l.keep},
		{from.Instances, "the Leases of instances", instances, []client.ListOption{client.HasLabels{archelonv1.InstanceLabel}}, l.ignore},
		{from.Management, "the Lease of Rancher Turtles", turtles, []client.ListOption{named(archelonv1.TurtlesLease)}, l.ignore},
	}
	if from.Origin == "" {
		lists = append(lists, kindOfList{from.Rancher, "v1 Rancher clusters", &provisioningv1.ClusterList{}, nil, l.keep})
	} else {
		others := namespaces.DeepCopy()
		lists = append(lists, kindOfList{from.Rancher, "Namespaces of Rancher's cluster", others, nil, l.keepOthers})
	}
	if opts.Gates.Enabled(feature.OCIClusterIdentity) {
		lists = append(lists, kindOfList{from.Management, "OCI identities", &identityv1.OCIClusterIdentityList{}, nil, l.keep},
			kindOfList{from.Management, "OCIClusters", &infrav1.OCIClusterList{}, nil, l.keep},
			kindOfList{from.Management, "OCIManagedClusters", &infrav1.OCIManagedClusterList{}, nil, l.keep})
	}
	for _, one := range lists {
		if err := one.from.List(ctx, one.list, one.opts...); err != nil {
			return nil, explain(one.what, err)
		}
		if err := one.into(one.list); err != nil {
			return nil, fmt.Errorf("reading %s: %w", one.what, err)
		}
	}
	l.holdsOf(turtles.Items, opts.TurtlesNamespaces)
	l.registrations()
	f := &found{world: l.world, instances: instances.Items, from: from}
	for i := range clusters.Items {
		f.clusters = append(f.clusters, client.ObjectKeyFromObject(&clusters.Items[i]))
	}
	return f, nil
}

// named selects the objects of a name.
func named(name string) client.ListOption {
	return client.MatchingFields{metav1.ObjectNameField: name}
}

// explain says what to do about a list that failed.
func explain(what string, err error) error {
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("this cluster does not serve %s; archelon check says what is missing: %w", what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("listing %s is not permitted; value planRole of the chart creates a ClusterRole for it: %w", what, err)
	default:
		return fmt.Errorf("listing %s: %w", what, err)
	}
}

// loader fills a world.
type loader struct {
	world *world
	// rules say what caches keep.
	rules importer.Rules
}

func (*loader) ignore(client.ObjectList) error { return nil }

// keep has the world hold the objects of a list, reduced to what the caches of a manager hold of them.
func (l *loader) keep(list client.ObjectList) error {
	kind, err := apiutil.GVKForObject(list, l.world.scheme)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	if version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64); err == nil {
		l.world.version = max(l.world.version, version)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		reduced, err := l.rules.Reduce(item)
		if err != nil {
			return err
		}
		object := reduced.(client.Object) //nolint:forcetypeassert // it was one before
		object.SetManagedFields(nil)
		l.world.put(kind, object)
		return nil
	})
}

// keepOthers is keep for Namespaces of Rancher's cluster, where that is another one.
func (l *loader) keepOthers(list client.ObjectList) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		namespace, ok := item.(*metav1.PartialObjectMetadata)
		if !ok {
			return fmt.Errorf("reading a %T", item)
		}
		l.world.put(otherNamespaceKind(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, UID: namespace.UID}})
		return nil
	})
}

// holdsOf keeps the Leases of Turtles that it holds. A manager finds out by their changes; of who looks once, clocks
// count.
func (l *loader) holdsOf(leases []coordinationv1.Lease, namespaces []string) {
	for i := range leases {
		if lease := &leases[i]; slices.Contains(namespaces, lease.Namespace) && instance.Held(lease, time.Now()) {
			l.world.put(coordinationv1.SchemeGroupVersion.WithKind("Lease"), lease)
		}
	}
}

// registrations has each v3 Cluster have a registration that is filled in: it is not read, and what comes of it belongs
// to what happens in the workload cluster.
func (l *loader) registrations() {
	server := ""
	if _, stored, err := l.world.find(&managementv3.Setting{}, client.ObjectKey{Name: rancher.ServerURLSetting}); err == nil {
		if setting, ok := stored.(*managementv3.Setting); ok {
			server = strings.TrimSuffix(strings.TrimSpace(cmp.Or(setting.Value, setting.Default)), "/")
		}
	}
	for key := range l.world.table(managementv3.SchemeGroupVersion.WithKind("Cluster")).objects {
		token := rancher.NewRegistrationToken()
		token.SetNamespace(key.Name)
		token.SetName(rancher.DefaultTokenName)
		token.Object["status"] = map[string]any{"manifestUrl": server + "/v3/import/{token}_" + key.Name + ".yaml"}
		l.world.put(token.GroupVersionKind(), token)
	}
}

// selectors are the labels by which objects of a kind are selected.
type selectors map[schema.GroupVersionKind]labels.Selector

// shown are the labels by which the caches of a manager select objects.
func shown(w *world, scope shard.Scope, turtlesNamespaces []string, origin types.UID) (selectors, error) {
	all := selectors{}
	for _, watch := range importer.Controller(true, turtlesNamespaces, origin, nil).Watches(scope) {
		if watch.Own || watch.By.Label == nil {
			continue
		}
		kind, err := w.kindOf(watch.Object)
		if err != nil {
			return nil, err
		}
		all[kind] = watch.By.Label
	}
	return all, nil
}
