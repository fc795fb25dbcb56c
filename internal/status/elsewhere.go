package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/terminal"
)

// elsewhere reports whether Rancher is in another cluster than CAPI.
func (o Options) elsewhere() bool { return o.RancherKubeconfig != "" }

func (o Options) validateElsewhere() error {
	switch {
	case !o.elsewhere():
		return errors.New("--orphans needs --rancher-kubeconfig, because it is about a Rancher in another cluster")
	case o.Orphans && o.Selector != "":
		return errors.New("--orphans cannot be used with --selector, because it has to know all CAPI Clusters")
	case o.Watch:
		return errors.New("--watch cannot be used with --rancher-kubeconfig")
	case o.Timeout <= 0:
		return errors.New("--timeout must be greater than zero")
	case edge.Secret(o.RancherKubeconfig).Name == "" || edge.Secret(o.RancherKubeconfig).Namespace == "":
		return fmt.Errorf("--rancher-kubeconfig %q must be NAMESPACE/NAME of a Secret", o.RancherKubeconfig)
	}
	return nil
}

// view is what was read from the management cluster and from Rancher's cluster.
type view struct {
	opts     Options
	which    *client.ListOptions
	clusters []Cluster
	problems []string
}

// runElsewhere prints the CAPI Clusters with their state in a Rancher that runs in another cluster. If that cluster
// does not answer in time, it prints the CAPI Clusters alone and says so.
func runElsewhere(ctx context.Context, config *rest.Config, c client.Client, opts Options, out, notes io.Writer) error {
	which, err := opts.which()
	if err := errors.Join(err, opts.validateElsewhere()); err != nil {
		return err
	}
	v := &view{opts: opts, which: which}
	p := &printer{form: opts.Output, headers: !opts.NoHeaders, out: out, now: time.Now, inRancher: true}
	if err := v.read(ctx, config, c); err != nil {
		return err
	}
	if err := opts.missing(v.clusters); err != nil {
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
	return p.all(list{Items: clusters, Problems: v.problems})
}

// capi returns the CAPI Clusters.
func (v *view) capi(ctx context.Context, c client.Reader) ([]Cluster, error) {
	found := &clusterv1.ClusterList{}
	if err := c.List(ctx, found, v.which); err != nil {
		return nil, err
	}
	clusters := make([]Cluster, 0, len(found.Items))
	for i := range found.Items {
		clusters = append(clusters, Of(&found.Items[i]))
	}
	return clusters, nil
}

// read reads the management cluster, and then Rancher's cluster.
func (v *view) read(ctx context.Context, config *rest.Config, c client.Client) error {
	clusters, err := v.capi(ctx, c)
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
	switch {
	case v.opts.Orphans && err != nil:
		return errors.New(strings.Join(v.problems, "; ")) // No list would look like an empty one.
	case v.opts.Orphans:
		return v.orphans(ctx, c, found)
	case err == nil:
		clusters = v.join(clusters, found)
	}
	v.clusters = clusters
	return nil
}
