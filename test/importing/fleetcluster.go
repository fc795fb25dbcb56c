package importing

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// FleetClusterFinalizer is the finalizer of Turtles 0.28 on Fleet Clusters.
const FleetClusterFinalizer = "fleetcluster.turtles.cattle.io"

// rancherOwnerLabel names the v3 Rancher cluster of a Fleet Cluster.
const rancherOwnerLabel = "management.cattle.io/cluster-name"

// FleetCluster returns an empty clusters.fleet.cattle.io.
func FleetCluster(namespace, name string) *unstructured.Unstructured {
	fleet := &unstructured.Unstructured{}
	fleet.SetGroupVersionKind(schema.GroupVersionKind{Group: "fleet.cattle.io", Version: "v1alpha1", Kind: "Cluster"})
	fleet.SetNamespace(namespace)
	fleet.SetName(name)
	return fleet
}

// StartFleet plays Rancher's part of Fleet for the time of the node: a v1 Rancher cluster that has its v3 Rancher
// cluster gets a Fleet Cluster of the same name, which is deleted after it. Rancher waits for neither.
func (f *Fixture) StartFleet(ctx context.Context) {
	GinkgoHelper()
	crds := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{fleetCRD()}}
	_, err := envtest.InstallCRDs(f.Management.Config, crds)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(envtest.UninstallCRDs(f.Management.Config, crds)).To(Succeed()) })
	f.play(ctx, "fleet-of-rancher", &provisioningv1.Cluster{}, func(ctx context.Context, key client.ObjectKey) error {
		cluster := &provisioningv1.Cluster{}
		err := f.Client.Get(ctx, key, cluster)
		fleet := FleetCluster(key.Namespace, key.Name)
		switch {
		case apierrors.IsNotFound(err):
			return client.IgnoreNotFound(f.Client.Delete(ctx, fleet))
		case err != nil:
			return err
		case !cluster.DeletionTimestamp.IsZero() || cluster.Status.ClusterName == "":
			return nil
		}
		fleet.SetLabels(map[string]string{rancherOwnerLabel: cluster.Status.ClusterName})
		return client.IgnoreAlreadyExists(f.Client.Create(ctx, fleet))
	})
}

// StartTurtlesFleet plays the Fleet controller of a Turtles 0.28 with feature gate fleet-integration, as
// internal/controllers/fleet_controller.go of rancher/turtles has it. Its watch filter is for events of CAPI Clusters
// only, so a parked Turtles does the same. The returned function ends it, as switching the gate off does.
func (f *Fixture) StartTurtlesFleet(ctx context.Context) (stop func()) {
	GinkgoHelper()
	return f.play(ctx, "fleet-of-turtles", FleetCluster("", ""), func(ctx context.Context, key client.ObjectKey) error {
		fleet := FleetCluster(key.Namespace, key.Name)
		if err := f.Client.Get(ctx, key, fleet); err != nil || fleet.GetLabels()[rancherOwnerLabel] == "" {
			return client.IgnoreNotFound(err)
		}
		before := fleet.DeepCopy()
		if fleet.GetDeletionTimestamp().IsZero() {
			controllerutil.AddFinalizer(fleet, FleetClusterFinalizer)
		} else {
			controllerutil.RemoveFinalizer(fleet, FleetClusterFinalizer)
		}
		if slices.Equal(before.GetFinalizers(), fleet.GetFinalizers()) {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return client.IgnoreNotFound(f.Client.Patch(ctx, fleet, patch))
	})
}

// play runs a controller in the management cluster until the node ends.
func (f *Fixture) play(
	ctx context.Context, name string, of client.Object, act func(context.Context, client.ObjectKey) error,
) (stop func()) {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(f.Management.Config, ctrl.Options{
		Scheme: f.Client.Scheme(), Logger: GinkgoLogr, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(ctrl.NewControllerManagedBy(mgr).Named(name).For(of).Complete(
		reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			err := act(ctx, request.NamespacedName)
			if apierrors.IsConflict(err) {
				return ctrl.Result{RequeueAfter: time.Millisecond}, nil
			}
			if err != nil {
				err = fmt.Errorf("playing %s: %w", name, err)
			}
			return ctrl.Result{}, err
		}))).To(Succeed())
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	var ended bool
	stop = func() {
		GinkgoHelper()
		cancel()
		if !ended {
			ended = true
			Expect(<-done).To(Succeed())
		}
	}
	DeferCleanup(stop)
	return stop
}

// fleetCRD is that of Fleet Clusters, without a schema.
func fleetCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.fleet.cattle.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "fleet.cattle.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "clusters", Singular: "cluster", Kind: "Cluster", ListKind: "ClusterList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
}
