package remote

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/shard"
)

// Names of the controllers in logs, metrics and events.
const (
	// ControllerName is that of claims.
	ControllerName = "hostclaim-remote"
	// CredentialsControllerName is that of the Secrets with their kubeconfigs.
	CredentialsControllerName = "hostclaim-remote-credentials"
)

// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=metal3.io,resources=hostclaims/status,verbs=patch,namespace=scope
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch,namespace=scope
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch,namespace=scope
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch,namespace=scope
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=hostclaims.metal3.io;clusters.cluster.x-k8s.io,verbs=list;watch

// Kinds are the names of the kind that this controller handles.
func Kinds() []string { return []string{metal3v1.KindRemote} }

// Controller describes the controller of claims of kind remote. A claim that is released when Archelon is uninstalled
// keeps the one in the other cluster, and an installation to come goes on with it.
func Controller(
	gate featuregate.Feature, crd controller.CRD, setup func(context.Context, controller.Env) error,
) controller.Controller {
	return controller.Controller{
		Name: ControllerName, Package: "hostclaim/remote", Gate: gate,
		CRDs:    []controller.CRD{crd, controller.PausingClusters()},
		Watches: watched,
		Holds: []schema.GroupVersionKind{
			metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind), corev1.SchemeGroupVersion.WithKind("Secret"),
		},
		Setup: setup,
	}
}

// watched are the claims of this kind alone: the API server selects them.
func watched(scope shard.Scope) []controller.Watch {
	return []controller.Watch{
		{Object: &clusterv1.Cluster{}},
		{Own: true, Object: &metal3v1.HostClaim{}, By: cache.ByObject{
			Field: fields.OneTermEqualSelector("spec.kind", metal3v1.KindRemote), Transform: hostclaim.KeepClaim,
		}},
		{Own: true, Object: secretMetadata(), By: cache.ByObject{Transform: keepFinalizers}},
		{Own: true, Object: namespaceMetadata(), By: cache.ByObject{Label: scope.NamespaceObjects(), Transform: keepFinalizers}},
	}
}

func secretMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(corev1.SchemeGroupVersion, "Secret")
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	return controller.MetadataOf(corev1.SchemeGroupVersion, "Namespace")
}

// keepFinalizers leaves of metadata what tells one object, and one version of it, from another, and what holds it.
func keepFinalizers(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.ObjectMeta = metav1.ObjectMeta{
			Namespace: found.Namespace, Name: found.Name, UID: found.UID, ResourceVersion: found.ResourceVersion,
			Finalizers: controller.BoundFinalizers(found.Finalizers), DeletionTimestamp: found.DeletionTimestamp,
		}
	}
	return object, nil
}
