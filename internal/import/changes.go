package importer

import (
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/archelon-io/archelon/internal/rancher"
)

// recordChanged admits changes of a Rancher cluster that can change what the import does: Rancher writes the status of
// one often. So do resyncs pass, as a net under everything else, and whatever follows on a write of this process: a
// reconcile may have ended because it was under way.
func recordChanged(own *ownWrites) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || own.ahead(e.ObjectOld) ||
				!sameRecord(e.ObjectOld, e.ObjectNew)
		},
	}
}

// sameRecord reports whether nothing differs between two copies of a Rancher cluster that is read of it. Both come from
// the cache, which holds nothing else.
func sameRecord(before, after client.Object) bool {
	if !sameMeta(before, after) {
		return false
	}
	switch before := before.(type) {
	case *managementv3.Cluster:
		after, ok := after.(*managementv3.Cluster)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) &&
			equality.Semantic.DeepEqual(before.Status, after.Status)
	case *provisioningv1.Cluster:
		after, ok := after.(*provisioningv1.Cluster)
		return ok && equality.Semantic.DeepEqual(before.Spec, after.Spec) && before.Status.ClusterName == after.Status.ClusterName
	}
	return false
}

func sameMeta(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() &&
		before.GetDeletionTimestamp().IsZero() == after.GetDeletionTimestamp().IsZero() &&
		equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()) &&
		equality.Semantic.DeepEqual(before.GetFinalizers(), after.GetFinalizers()) &&
		equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) &&
		sameAnnotations(before.GetAnnotations(), after.GetAnnotations())
}

// sameAnnotations compares the annotations that are read. Those that were propagated are named by one of them.
func sameAnnotations(before, after map[string]string) bool {
	given := annotationsGiven(before)
	reads := func(key string) bool {
		_, found := slices.BinarySearch(given, key)
		return found || readsAnnotation(key)
	}
	within := func(a, b map[string]string) bool {
		for key, value := range a {
			if other, ok := b[key]; reads(key) && (!ok || other != value) {
				return false
			}
		}
		return true
	}
	return within(before, after) && within(after, before)
}

// tokenChanged admits changes of a registration token that can change what the import does.
func tokenChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() || !rancher.SameRegistrationToken(e.ObjectOld, e.ObjectNew)
		},
	}
}
