package plan

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/edge"
)

// whence says from which clusters a plan is read: that of the connection, and Rancher's cluster where that is another
// one. That one is read with the credentials of the manager.
func whence(ctx context.Context, config *rest.Config, here client.Client, opts Options) (From, error) {
	if !opts.Manager.Gates.Enabled(feature.RemoteRancher) {
		return FromOne(here), nil
	}
	pair, err := edge.Both(ctx, config, here, opts.Manager.RancherKubeconfig)
	if err != nil {
		return From{}, err
	}
	return From{Management: here, Rancher: pair.InRancher, Instances: here, Origin: pair.Origin, Display: opts.Manager.ManagementClusterName}, nil
}
