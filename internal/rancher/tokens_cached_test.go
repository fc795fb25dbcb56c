package rancher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReduceRegistrationToken(t *testing.T) {
	for name, status := range map[string]map[string]any{
		"Plain":  {"manifestUrl": "https://rancher.example.com/v3/import/" + testToken + "_" + testCluster + ".yaml", "token": testToken, "command": "kubectl apply"},
		"Secret": {"manifestUrl": "https://rancher.example.com/v3/import/{token}_" + testCluster + ".yaml", "tokenSecretName": "crt-token-default-token", "nodeCommand": "docker run"},
		"Empty":  {},
	} {
		t.Run(name, func(t *testing.T) {
			whole := crt("default-token", status)
			whole.SetUID("uid-1")
			whole.SetResourceVersion("7")
			whole.SetAnnotations(map[string]string{"a": "b"})
			got, err := ReduceRegistrationToken(whole.DeepCopy())
			reduced, ok := got.(*unstructured.Unstructured)
			if err != nil || !ok {
				t.Fatalf("got %T, %v", got, err)
			}
			checkReducedToken(t, whole, reduced)
			again, err := ReduceRegistrationToken(reduced.DeepCopy())
			if diff := cmp.Diff(got, again); diff != "" || err != nil {
				t.Errorf("reduced twice it is another: %v (-once +twice)\n%s", err, diff)
			}
		})
	}
	other := &corev1.Secret{}
	if got, err := ReduceRegistrationToken(other); got != other || err != nil {
		t.Errorf("what is no token came back as %v, %v", got, err)
	}
}

// checkReducedToken checks that a registration token that was reduced is the same object, says the same to whoever
// reads it, and holds no commands.
func checkReducedToken(t *testing.T, whole, reduced *unstructured.Unstructured) {
	t.Helper()
	if reduced.GetUID() != "uid-1" || reduced.GetResourceVersion() != "7" || reduced.GetName() != "default-token" || reduced.GroupVersionKind() != whole.GroupVersionKind() {
		t.Errorf("it is not the same object: %v", reduced)
	}
	for _, field := range []string{"command", "nodeCommand"} {
		if statusField(reduced, field) != "" {
			t.Errorf("it holds %s", field)
		}
	}
	if !SameRegistrationToken(whole, reduced) {
		t.Error("what is read of it is not the same")
	}
	before, errBefore := tokensOf(t, whole).Fingerprint(t.Context(), testCluster)
	after, errAfter := tokensOf(t, reduced).Fingerprint(t.Context(), testCluster)
	if before != after || (errBefore == nil) != (errAfter == nil) {
		t.Errorf("fingerprint %s, %v, want %s, %v", after, errAfter, before, errBefore)
	}
}
