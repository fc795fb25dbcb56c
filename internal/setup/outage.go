package setup

import (
	"context"
	"fmt"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/outage"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/version"
)

// addOutage adds what is done while a Rancher in another cluster does not answer, and what counts its Rancher clusters
// without a CAPI Cluster afterwards. Synced is closed when all caches have what there is.
func (p *process) addOutage(mgr ctrl.Manager, place *place, there cluster.Cluster, synced <-chan struct{}) error {
	if p.remote == nil {
		return nil
	}
	ask, err := p.remote.question()
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("building a client for Events: %w", err)
	}
	releaser, err := outage.NewReleaser(outage.Options{
		Ask: ask, Reader: mgr.GetAPIReader(), Client: mgr.GetClient(), Events: clients.EventsV1(),
		Self: place.member.self, Scope: place.claim.Scope, After: p.opts.RancherAway, Logger: ctrl.Log.WithName("outage"),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(releaser); err != nil {
		return fmt.Errorf("adding what releases CAPI Clusters without Rancher: %w", err)
	}
	orphans := outage.Orphans{
		Synced: synced, Clusters: mgr.GetClient(), Rancher: there.GetClient(), Metrics: p.meters.orphans,
	}
	if err := mgr.Add(orphans); err != nil {
		return fmt.Errorf("adding the count of Rancher clusters without a CAPI Cluster: %w", err)
	}
	return nil
}

// question returns what asks Rancher's API for one of its Rancher clusters. It has a client of its own, so that no
// other request delays it.
func (r *otherRancher) question() (func(context.Context) error, error) {
	config := r.connection.Config()
	config.UserAgent = version.Get().UserAgent() + " outage"
	known, err := scheme.New()
	if err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	asking, err := client.New(config, client.Options{Scheme: known, Mapper: scheme.Mapper()})
	if err != nil {
		return nil, fmt.Errorf("building a client that asks Rancher: %w", err)
	}
	ours := client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(hold.Origin(r.origin))}
	return func(ctx context.Context) error {
		return asking.List(ctx, &managementv3.ClusterList{}, ours, client.Limit(1))
	}, nil
}
