// The program runs a controller across all workload clusters of a CAPI management cluster. Run it with a kubeconfig of
// the management cluster that may list and watch Clusters and Secrets.
package main

import (
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/examples/fleet/inventory"
	"github.com/archelon-io/archelon/providers/capi"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The example ended")
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	ofClusters, err := labels.Parse(clusterv1.ClusterNameLabel)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	local, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Of Secrets the provider needs the metadata of those that belong to Clusters. It never reads one from a cache.
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: ofClusters}}},
	})
	if err != nil {
		return err
	}
	provider, err := capi.New(local, capi.Options{
		// Of the workload clusters only what is watched is kept, and of that not what nobody reads.
		ClusterOptions: []cluster.Option{func(o *cluster.Options) {
			o.Scheme = scheme
			o.Cache.DefaultTransform = func(object any) (any, error) {
				if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
					pod.ManagedFields, pod.Annotations, pod.Labels = nil, nil, nil
				}
				return object, nil
			}
		}},
	})
	if err != nil {
		return err
	}
	// One manager does both: what is local, and the fleet.
	fleet, err := mcmanager.WithMultiCluster(local, provider, capi.EndSources())
	if err != nil {
		return err
	}
	err = inventory.AddToManager(fleet, "inventory", func(cluster multicluster.ClusterName, pods int) {
		ctrl.Log.Info("Counted", "cluster", cluster, "pods", pods)
	})
	if err != nil {
		return err
	}
	return fleet.Start(ctrl.SetupSignalHandler())
}
