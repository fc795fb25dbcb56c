// The program is the example of multicluster-runtime's documentation for Cluster API (examples/cluster-api there): it
// reports each ConfigMap in all workload clusters of a management cluster. A local manager discovers CAPI Clusters, and
// a multi-cluster manager runs the controller across them.
//
// Run it with a kubeconfig of the management cluster. What that may do is in rbac.yaml.
package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/archelon-io/archelon/providers/capi"
)

func main() {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "The example ended")
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := clusterv1.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// The local manager discovers CAPI Clusters in the management cluster.
	localMgr, err := manager.New(cfg, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	provider, err := capi.New(localMgr, capi.Options{})
	if err != nil {
		return err
	}
	// The multi-cluster manager runs controllers across the clusters that the provider engages.
	mcMgr, err := mcmanager.New(cfg, provider, mcmanager.Options{
		LeaderElection: false,
		Metrics:        metricsserver.Options{BindAddress: "0"},
	}, capi.EndSources())
	if err != nil {
		return err
	}
	err = mcbuilder.ControllerManagedBy(mcMgr).Named("multicluster-configmaps").For(&corev1.ConfigMap{}).Complete(report(mcMgr))
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ignoreCanceled(localMgr.Start(ctx)) })
	g.Go(func() error { return ignoreCanceled(mcMgr.Start(ctx)) })
	return g.Wait()
}

// report reports a ConfigMap of a workload cluster.
func report(mgr mcmanager.Manager) mcreconcile.Func {
	return func(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
		cl, err := mgr.GetCluster(ctx, req.ClusterName)
		if err != nil {
			return ctrl.Result{}, err
		}
		cm := &corev1.ConfigMap{}
		if err := cl.GetClient().Get(ctx, req.NamespacedName, cm); err != nil {
			if apierrors.IsNotFound(err) {
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, err
		}
		ctrl.LoggerFrom(ctx).Info("ConfigMap found", "cluster", req.ClusterName, "configMap", client.ObjectKeyFromObject(cm))
		return ctrl.Result{}, nil
	}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
