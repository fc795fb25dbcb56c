package workload

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/archelon-io/archelon/internal/outcome"
)

// Who may write a Cluster may not be allowed to read Secrets, and does not learn which there are.
func TestSecretsOfOthersAreNotRead(t *testing.T) {
	secret := func(labels map[string]string) *corev1.Secret {
		found := kubeconfigSecret(map[string][]byte{"value": written(t, "https://127.0.0.1:1", nil)})
		found.Labels = labels
		return found
	}
	from := testKubeconfig
	from.Label, from.Cluster = "cluster.x-k8s.io/cluster-name", "prod"
	said := map[string]bool{}
	for _, labels := range []map[string]string{nil, {"cluster.x-k8s.io/cluster-name": "other"}, {"cluster.x-k8s.io/cluster-name": ""}} {
		clients, _ := clientsOf(t, Options{}, secret(labels))
		_, err := clients.Get(t.Context(), from)
		wantProblem(t, err, outcome.KindWait, "KubeconfigMissing")
		said[fmt.Sprint(err)] = true
	}
	clients, _ := clientsOf(t, Options{})
	_, err := clients.Get(t.Context(), from)
	wantProblem(t, err, outcome.KindWait, "KubeconfigMissing")
	said[fmt.Sprint(err)] = true
	if len(said) != 1 {
		t.Errorf("what is said tells which Secrets there are: %v", said)
	}
	clients, management := clientsOf(t, Options{}, secret(map[string]string{"cluster.x-k8s.io/cluster-name": "prod"}))
	first, err := clients.Get(t.Context(), from)
	if err != nil {
		t.Fatalf("the Secret of the cluster is not read: %v", err)
	}
	if err := management.Update(t.Context(), secret(nil)); err != nil {
		t.Fatal(err)
	}
	_, err = clients.Get(t.Context(), from)
	wantProblem(t, err, outcome.KindWait, "KubeconfigMissing")
	if clients.known(from, first.fingerprint) != nil {
		t.Error("the client outlives the label")
	}
}
