package status

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/hub"
)

// hub looks into all management clusters that are registered, and into Rancher's cluster. All
// are asked at the same time.
func (v *view) hub(ctx context.Context, config *rest.Config, c client.Client) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := v.opts.ManagementClustersNamespace
	seen, err := hub.Look(ctx, clients, namespace, v.opts.Timeout)
	if err != nil {
		return err
	}
	if len(seen) == 0 {
		v.problems = append(v.problems, fmt.Sprintf("No management cluster is registered in namespace %s of this cluster.", namespace))
	}
	found, err := v.records(ctx, func() (client.Reader, client.ListOption, error) {
		return c, client.HasLabels{archelonv1.ManagementClusterLabel}, nil
	})
	byOrigin := map[types.UID][]record{}
	for _, one := range found {
		byOrigin[one.origin] = append(byOrigin[one.origin], one)
	}
	sites, clusters := make([]ManagementCluster, len(seen)), make([][]Cluster, len(seen))
	var asked sync.WaitGroup
	for i := range seen {
		asked.Go(func() { sites[i], clusters[i] = v.site(ctx, &seen[i], c) })
	}
	asked.Wait()
	for i := range seen {
		one := &seen[i]
		if err != nil || one.UID == "" || one.Reason == hub.SameClusterReason {
			v.clusters = append(v.clusters, clusters[i]...)
			continue
		}
		records := byOrigin[one.UID]
		delete(byOrigin, one.UID)
		sites[i].RancherClusters = len(records)
		missing := capiGone
		if sites[i].CAPIClusters == nil {
			missing = capiUnseen
		}
		v.clusters = append(v.clusters, v.join(clusters[i], records, one.Display, missing)...)
	}
	for origin, records := range byOrigin { // They are registered no more.
		v.clusters = append(v.clusters, v.join(nil, records, string(origin), capiUnseen)...)
	}
	v.sites = sites
	return nil
}

// site looks into a management cluster, if it is one that is imported from.
func (v *view) site(ctx context.Context, seen *hub.Seen, rancher client.Client) (ManagementCluster, []Cluster) {
	is := ManagementCluster{
		DisplayName: seen.Display, Secret: seen.Name, UID: seen.UID, Answers: seen.Answers, Reason: seen.Reason, Said: seen.Said.Reason,
	}
	if !seen.Said.At.IsZero() {
		is.SaidAt = &metav1.Time{Time: seen.Said.At}
	}
	if !seen.Works() {
		is.Message = seen.Message
		return is, nil
	}
	ctx, done := context.WithTimeout(ctx, v.opts.Timeout)
	defer done()
	c, err := client.New(seen.Config, client.Options{HTTPClient: seen.HTTP, Scheme: rancher.Scheme(), Mapper: rancher.RESTMapper()})
	var clusters []Cluster
	if err == nil {
		clusters, err = v.capi(ctx, c, seen.Display)
	}
	if err != nil {
		is.Answers = false
		is.Reason, is.Message = hub.Explain(ctx, err)
		return is, nil
	}
	is.CAPIClusters = new(len(clusters))
	return is, clusters
}
