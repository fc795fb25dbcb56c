package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wipe brings a cluster back to what it was when it was new: nothing but the namespaces of Kubernetes, no
// custom resources, no webhooks, no admission policies. Nobody is left who would honour finalizers, so they
// go. Definitions stay. Namespaces are ended by their controller, or at once: there may be none, and it waits
// some seconds before it begins.
func wipe(ctx context.Context, config *rest.Config, atOnce bool) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	known := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(known), apiextensionsv1.AddToScheme(known)); err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		return err
	}
	w := &wiper{c}
	if err := w.deleteWhere(ctx, ours,
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
		admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
		admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding")); err != nil {
		return err
	}
	// First those who would make things again.
	if err := w.endPods(ctx); err != nil {
		return err
	}
	if err := w.deleteCustomResources(ctx); err != nil {
		return err
	}
	if err := w.deleteWhere(ctx, ours, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole")); err != nil {
		return err
	}
	if atOnce {
		if err := w.emptyNamespaces(ctx); err != nil {
			return err
		}
	}
	return w.endNamespaces(ctx, atOnce)
}

// doomed reports whether a namespace is not one of a new cluster.
func doomed(namespace string) bool {
	return namespace != "default" && namespace != "local-path-storage" && !strings.HasPrefix(namespace, "kube-")
}

// ours reports whether an object was made by the chart, by the files in config, by Rancher or for a stage.
func ours(object *unstructured.Unstructured) bool {
	labels := object.GetLabels()
	return labels["app.kubernetes.io/managed-by"] == "Helm" || labels["cattle.io/creator"] != "" ||
		strings.HasPrefix(object.GetName(), "rancher") || strings.HasPrefix(object.GetName(), "cattle") ||
		strings.HasPrefix(object.GetName(), "proxy-") || strings.HasPrefix(object.GetName(), "archelon")
}

type wiper struct{ client.Client }

func (w *wiper) deleteCustomResources(ctx context.Context) error {
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := w.List(ctx, definitions); err != nil {
		return err
	}
	for _, definition := range definitions.Items {
		for _, version := range definition.Spec.Versions {
			if !version.Storage {
				continue
			}
			kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			if err := w.deleteWhere(ctx, func(*unstructured.Unstructured) bool { return true }, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteWhere deletes the objects of some kinds, whatever their finalizers say.
func (w *wiper) deleteWhere(ctx context.Context, match func(*unstructured.Unstructured) bool, kinds ...schema.GroupVersionKind) error {
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := w.List(ctx, list)
		if apierrors.IsNotFound(err) {
			continue // A spec has deleted its CRD a moment ago, and discovery still shows it.
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !match(object) {
				continue
			}
			// The default of Jobs is a finalizer of the garbage collector's, which may not be there.
			if err := client.IgnoreNotFound(w.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
				return fmt.Errorf("deleting %s %s: %w", kind.Kind, object.GetName(), err)
			}
			if len(object.GetFinalizers()) == 0 {
				continue
			}
			none := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := client.IgnoreNotFound(w.Patch(ctx, object, none)); err != nil {
				return fmt.Errorf("taking the finalizers from %s %s: %w", kind.Kind, object.GetName(), err)
			}
		}
	}
	return nil
}

// endPods deletes whatever has Pods in doomed namespaces, and waits until none is left.
func (w *wiper) endPods(ctx context.Context) error {
	var left int
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		in := func(object *unstructured.Unstructured) bool { return doomed(object.GetNamespace()) }
		if err := w.deleteWhere(ctx, in, appsv1.SchemeGroupVersion.WithKind("Deployment"), batchv1.SchemeGroupVersion.WithKind("Job")); err != nil {
			return false, err
		}
		pods := &corev1.PodList{}
		if err := w.List(ctx, pods); err != nil {
			return false, err
		}
		left = 0
		for i := range pods.Items {
			if !doomed(pods.Items[i].Namespace) {
				continue
			}
			left++
			if err := client.IgnoreNotFound(w.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))); err != nil {
				return false, err
			}
		}
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of %d Pods: %w", left, err)
	}
	return nil
}

// emptyNamespaces deletes what would be back in a namespace of the same name, if the namespace
// ends without its controller.
func (w *wiper) emptyNamespaces(ctx context.Context) error {
	everywhere := func(*unstructured.Unstructured) bool { return true }
	if err := w.deleteWhere(ctx, everywhere, batchv1.SchemeGroupVersion.WithKind("Job")); err != nil {
		return err
	}
	in := func(object *unstructured.Unstructured) bool { return doomed(object.GetNamespace()) }
	return w.deleteWhere(ctx, in, corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"), appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), coordinationv1.SchemeGroupVersion.WithKind("Lease"))
}

// endNamespaces deletes doomed namespaces and waits until they are gone.
func (w *wiper) endNamespaces(ctx context.Context, atOnce bool) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		namespaces := &corev1.NamespaceList{}
		if err := w.List(ctx, namespaces); err != nil {
			return false, err
		}
		left = nil
		for i := range namespaces.Items {
			namespace := &namespaces.Items[i]
			if !doomed(namespace.Name) {
				continue
			}
			left = append(left, namespace.Name)
			if err := w.endNamespace(ctx, namespace, atOnce); err != nil {
				return false, err
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the end of the namespaces %v: %w", left, err)
	}
	return nil
}

// endNamespace deletes a namespace, and with it at once what holds it.
func (w *wiper) endNamespace(ctx context.Context, namespace *corev1.Namespace, atOnce bool) error {
	if namespace.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(w.Delete(ctx, namespace)); err != nil {
			return err
		}
	}
	if !atOnce {
		return nil
	}
	namespace.ResourceVersion, namespace.Finalizers, namespace.Spec.Finalizers = "", nil, nil
	if err := w.SubResource("finalize").Update(ctx, namespace); !apierrors.IsConflict(err) { // Its controller may have been there.
		return client.IgnoreNotFound(err)
	}
	return nil
}
