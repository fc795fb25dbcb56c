package importing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
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
	"sigs.k8s.io/controller-runtime/pkg/handler"
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

// appliedAnnotation holds on a Fleet Cluster what Rancher applied last, as JSON.
const appliedAnnotation = "objectset.rio.cattle.io/applied"

// StartFleet plays Rancher's part of Fleet for the time of the node: a v1 Rancher cluster that has its v3 Rancher
// cluster gets a Fleet Cluster of the same name, which is deleted after it. Rancher waits for neither. It copies labels
// and annotations of the v3 Rancher cluster, but for those that have cattle.io in the key, or begin with
// kubectl.kubernetes.io. Of those that it copied before it removes what is gone, and it leaves what others wrote.
func (f *Fixture) StartFleet(ctx context.Context) {
	GinkgoHelper()
	crds := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{fleetCRD()}}
	_, err := envtest.InstallCRDs(f.Management.Config, crds)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(envtest.UninstallCRDs(f.Management.Config, crds)).To(Succeed()) })
	f.play(ctx, "fleet-of-rancher", &provisioningv1.Cluster{}, func(ctx context.Context, key client.ObjectKey) error {
		cluster := &provisioningv1.Cluster{}
		err := f.Client.Get(ctx, key, cluster)
		switch {
		case apierrors.IsNotFound(err):
			return client.IgnoreNotFound(f.Client.Delete(ctx, FleetCluster(key.Namespace, key.Name)))
		case err != nil:
			return err
		case !cluster.DeletionTimestamp.IsZero() || cluster.Status.ClusterName == "":
			return nil
		}
		management := &managementv3.Cluster{}
		err = f.Client.Get(ctx, client.ObjectKey{Name: cluster.Status.ClusterName}, management)
		if err != nil || management.Spec.FleetWorkspaceName == "" {
			return client.IgnoreNotFound(err)
		}
		return f.copyToFleet(ctx, management, FleetCluster(management.Spec.FleetWorkspaceName, key.Name))
	}, &managementv3.Cluster{})
}

// copyToFleet brings a Fleet Cluster in line with its v3 Rancher cluster.
func (f *Fixture) copyToFleet(ctx context.Context, from *managementv3.Cluster, fleet *unstructured.Unstructured) error {
	wanted := [2]map[string]string{copied(from.Labels), copied(from.Annotations)}
	wanted[0][rancherOwnerLabel] = from.Name
	applied, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	found := fleet.DeepCopy()
	err = f.Client.Get(ctx, client.ObjectKeyFromObject(fleet), found)
	if apierrors.IsNotFound(err) {
		wanted[1][appliedAnnotation] = string(applied)
		fleet.SetLabels(wanted[0])
		fleet.SetAnnotations(wanted[1])
		return client.IgnoreAlreadyExists(f.Client.Create(ctx, fleet))
	}
	if err != nil || found.GetAnnotations()[appliedAnnotation] == string(applied) || found.GetDeletionTimestamp() != nil {
		return err
	}
	var earlier [2]map[string]string
	if err := json.Unmarshal([]byte(found.GetAnnotations()[appliedAnnotation]), &earlier); err != nil {
		return err
	}
	wanted[1][appliedAnnotation] = string(applied)
	before := found.DeepCopy()
	found.SetLabels(merged(found.GetLabels(), earlier[0], wanted[0]))
	found.SetAnnotations(merged(found.GetAnnotations(), earlier[1], wanted[1]))
	return f.Client.Patch(ctx, found, client.MergeFrom(before))
}

// copied returns those of labels or annotations that Rancher copies.
func copied(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		if !strings.Contains(key, "cattle.io") && !strings.HasPrefix(key, "kubectl.kubernetes.io") {
			kept[key] = value
		}
	}
	return kept
}

// merged returns what there is without what was applied earlier, and with what is wanted.
func merged(found, earlier, wanted map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range found {
		if _, ok := earlier[key]; !ok {
			all[key] = value
		}
	}
	maps.Copy(all, wanted)
	return all
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

// play runs a controller in the management cluster until the node ends. A change of what it follows wakes it for all
// objects.
func (f *Fixture) play(
	ctx context.Context, name string, of client.Object, act func(context.Context, client.ObjectKey) error,
	follows ...client.Object,
) (stop func()) {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(f.Management.Config, ctrl.Options{
		Scheme: f.Client.Scheme(), Logger: GinkgoLogr, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	b := ctrl.NewControllerManagedBy(mgr).Named(name).For(of)
	for _, followed := range follows {
		b = b.Watches(followed, handler.EnqueueRequestsFromMapFunc(f.v1Clusters))
	}
	Expect(b.Complete(
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

// v1Clusters returns all v1 Rancher clusters.
func (f *Fixture) v1Clusters(ctx context.Context, _ client.Object) []reconcile.Request {
	all := &provisioningv1.ClusterList{}
	if f.Client.List(ctx, all) != nil {
		return nil
	}
	requests := make([]reconcile.Request, 0, len(all.Items))
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
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
