package importer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/workload"
)

// A workload cluster that fails is tried again after a pause. Nothing is kept for it meanwhile.
func TestAClientIsForgottenWhenItsJobFails(t *testing.T) {
	key := client.ObjectKeyFromObject(testCluster())
	secret := &corev1.Secret{Data: map[string][]byte{"value": []byte(`
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: x}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`)}}
	secret.Namespace, secret.Name = key.Namespace, key.Name+"-kubeconfig"
	b := newBench(t, instance.Claim{}, secret)
	get := func() *workload.Client {
		t.Helper()
		found, err := b.Workloads.Get(t.Context(), kubeconfigOf(key))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := get()
	if again := get(); again != before {
		t.Fatal("a client is not kept between two requests")
	}
	if out := b.installAgent(t.Context(), key, managementCluster{name: "c-abcde"}, wish{}); out.IsDone() {
		t.Fatal("nobody listens there")
	}
	if after := get(); after == before {
		t.Error("the client is kept although its job has ended")
	}
}
