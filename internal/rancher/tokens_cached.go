package rancher

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenStatusRead returns the fields of the status of a registration token that are read. The others are commands for
// people, some kilobytes of them.
func tokenStatusRead() []string { return []string{"manifestUrl", "token", "tokenSecretName"} }

// ReduceRegistrationToken leaves of a registration token for the cache what is read of it. It is a transform of the
// cache. Nobody writes to registration tokens, so it may leave metadata out.
func ReduceRegistrationToken(object any) (any, error) {
	token, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	reduced := &unstructured.Unstructured{Object: map[string]any{}}
	reduced.SetGroupVersionKind(token.GroupVersionKind())
	reduced.SetNamespace(token.GetNamespace())
	reduced.SetName(token.GetName())
	reduced.SetUID(token.GetUID())
	reduced.SetResourceVersion(token.GetResourceVersion())
	status := map[string]any{}
	for _, name := range tokenStatusRead() {
		if value := statusField(token, name); value != "" {
			status[name] = value
		}
	}
	reduced.Object["status"] = status
	return reduced, nil
}

// SameRegistrationToken reports whether nothing differs between two copies of a registration token that is read of it.
func SameRegistrationToken(before, after client.Object) bool {
	a, ok := before.(*unstructured.Unstructured)
	b, ok2 := after.(*unstructured.Unstructured)
	if !ok || !ok2 || a.GetUID() != b.GetUID() {
		return false
	}
	for _, name := range tokenStatusRead() {
		if statusField(a, name) != statusField(b, name) {
			return false
		}
	}
	return true
}
