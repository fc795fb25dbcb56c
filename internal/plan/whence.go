package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/edge"
	"github.com/archelon-io/archelon/internal/hub"
)

// answerWithin is how long a management cluster may take to say who it is.
const answerWithin = 15 * time.Second

// whence says from which clusters a plan is read: that of the connection, and another one where CAPI and Rancher are
// not in the same cluster. That one is read with the credentials of the manager.
func whence(ctx context.Context, config *rest.Config, here client.Client, opts Options) (From, error) {
	many, remote := opts.Manager.Gates.Enabled(feature.ManagementClusters), opts.Manager.Gates.Enabled(feature.RemoteRancher)
	switch {
	case many && opts.ManagementCluster == "":
		return From{}, fmt.Errorf("a plan is for one management cluster: gate %s needs --management-cluster, the name of the Secret that registers it",
			feature.ManagementClusters)
	case !many && opts.ManagementCluster != "":
		return From{}, fmt.Errorf("--management-cluster is for gate %s", feature.ManagementClusters)
	case many:
		return ofManagementCluster(ctx, config, here, opts)
	case remote:
		pair, err := edge.Both(ctx, config, here, opts.Manager.RancherKubeconfig)
		if err != nil {
			return From{}, err
		}
		return From{Management: here, Rancher: pair.InRancher, Instances: here, Origin: pair.Origin, Display: opts.Manager.ManagementClusterName}, nil
	default:
		return FromOne(here), nil
	}
}

// ofManagementCluster reads from a management cluster that is registered.
func ofManagementCluster(ctx context.Context, config *rest.Config, here client.Client, opts Options) (From, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return From{}, err
	}
	seen, err := hub.Look(ctx, clients, opts.Manager.ManagementClustersNamespace, answerWithin)
	if err != nil {
		return From{}, err
	}
	at := slices.IndexFunc(seen, func(s hub.Seen) bool { return s.Name == opts.ManagementCluster })
	if at < 0 {
		return From{}, fmt.Errorf("no Secret %s in namespace %s registers a management cluster", opts.ManagementCluster, opts.Manager.ManagementClustersNamespace)
	}
	one := &seen[at]
	if !one.Works() {
		return From{}, errors.New(one.Message)
	}
	there, err := client.New(one.Config, client.Options{HTTPClient: one.HTTP, Scheme: here.Scheme(), Mapper: here.RESTMapper()})
	if err != nil {
		return From{}, err
	}
	return From{Management: there, Rancher: here, Instances: here, Origin: one.UID, Display: one.Display}, nil
}
