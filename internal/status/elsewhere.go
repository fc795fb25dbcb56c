package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/terminal"
)

// elsewhere reports whether Rancher is in another cluster than CAPI.
func (o Options) elsewhere() bool {
	return o.RancherKubeconfig != "" || o.ManagementClustersNamespace != ""
}

func (o Options) validateElsewhere() error {
	switch {
	case o.RancherKubeconfig != "" && o.ManagementClustersNamespace != "":
		return errors.New("--rancher-kubeconfig and --management-clusters-namespace do not go together: the one is for " +
			"management clusters, the other for Rancher's cluster")
	case o.Watch:
		return errors.New("--watch cannot be used with --rancher-kubeconfig or --management-clusters-namespace")
	case o.Timeout <= 0:
		return errors.New("--timeout must be greater than zero")
	case o.RancherKubeconfig != "" && (edge.Secret(o.RancherKubeconfig).Name == "" || edge.Secret(o.RancherKubeconfig).Namespace == ""):
		return fmt.Errorf("--rancher-kubeconfig %q must be NAMESPACE/NAME of a Secret", o.RancherKubeconfig)
	}
	return nil
}

// view is what is seen of several clusters.
type view struct {
	opts     Options
	which    *client.ListOptions
	clusters []Cluster
	problems []string
	sites    []ManagementCluster
}

// runElsewhere prints the clusters of a management cluster with how they are in a Rancher elsewhere, or those of all
// management clusters that are registered in Rancher's cluster. What does not answer in time is said to, and does not
// keep the rest from being shown.
func runElsewhere(ctx context.Context, config *rest.Config, c client.Client, opts Options, out, notes io.Writer) error {
	which, err := opts.which()
	if err := errors.Join(err, opts.validateElsewhere()); err != nil {
		return err
	}
	v := &view{opts: opts, which: which}
	p := &printer{form: opts.Output, headers: !opts.NoHeaders, out: out, now: time.Now, inRancher: true}
	if opts.ManagementClustersNamespace != "" {
		p.many = true
		err = v.hub(ctx, config, c)
	} else {
		err = v.edge(ctx, config, c)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(v.clusters, compare)
	clusters := slices.DeleteFunc(v.clusters, func(c Cluster) bool { return !opts.shows(c) })
	if opts.Output == terminal.Table || opts.Output == formWide {
		said := v.problems
		if len(clusters) == 0 {
			p.headers = false
			said = append(said, opts.nothing())
		}
		for _, problem := range said {
			if _, err := fmt.Fprintln(notes, terminal.Printable(problem)); err != nil {
				return err
			}
		}
	}
	return p.all(list{Items: clusters, ManagementClusters: v.sites, Problems: v.problems})
}

// capi returns the CAPI Clusters of a management cluster.
func (v *view) capi(ctx context.Context, c client.Reader, managementCluster string) ([]Cluster, error) {
	found := &clusterv1.ClusterList{}
	if err := c.List(ctx, found, v.which); err != nil {
		return nil, err
	}
	clusters := make([]Cluster, 0, len(found.Items))
	for i := range found.Items {
		cluster := Of(&found.Items[i])
		cluster.ManagementCluster = managementCluster
		clusters = append(clusters, cluster)
	}
	return clusters, nil
}

// edge looks into a management cluster and into a Rancher that is elsewhere.
func (v *view) edge(ctx context.Context, config *rest.Config, c client.Client) error {
	clusters, err := v.capi(ctx, c, "")
	if err != nil {
		return explain(err)
	}
	asking, done := context.WithTimeout(ctx, v.opts.Timeout)
	defer done()
	found, err := v.records(asking, func() (client.Reader, client.ListOption, error) {
		pair, err := edge.Both(asking, config, c, v.opts.RancherKubeconfig)
		if err != nil {
			return nil, nil, err
		}
		return pair.Client, of(pair.Origin), nil
	})
	if err == nil {
		clusters = v.join(clusters, found, "", capiGone)
	}
	v.clusters = clusters
	return nil
}

// ManagementCluster is a management cluster that is registered in Rancher's cluster. Its form in JSON and YAML stays as
// it is.
type ManagementCluster struct {
	// DisplayName is how people call it, and Secret the name of what registers it.
	DisplayName string `json:"displayName"`
	Secret      string `json:"secret"`
	// UID is that of its namespace kube-system, if it has ever answered.
	UID types.UID `json:"uid,omitempty"`
	// Answers is whether it has answered now.
	Answers bool `json:"answers"`
	// Reason and Message say what is so now, as the Events of the Secret do: "Engaged" if nothing stands in the way.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Said is the reason of the last Event of the hub, if there is one, and SaidAt its time.
	Said   string       `json:"said,omitempty"`
	SaidAt *metav1.Time `json:"saidAt,omitempty"`
	// CAPIClusters is how many there are of those that were asked for; absent if they were not seen.
	CAPIClusters *int `json:"capiClusters,omitempty"`
	// RancherClusters is how many Rancher has of it.
	RancherClusters int `json:"rancherClusters"`
}
