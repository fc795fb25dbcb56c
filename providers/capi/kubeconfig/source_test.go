package kubeconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A Cluster that was deleted and created again has another control plane than the Secret of the earlier one leads to.
func TestSecretsOfEarlierClustersAreNotUsed(t *testing.T) {
	const capi = "cluster.x-k8s.io/v1beta2"
	for name, tc := range map[string]struct {
		owner  *metav1.OwnerReference
		of     types.UID
		wanted bool
	}{
		"NoOwner":      {of: "now", wanted: true},
		"ItsOwn":       {owner: &metav1.OwnerReference{APIVersion: capi, Kind: "Cluster", Name: "prod", UID: "now"}, of: "now", wanted: true},
		"Earlier":      {owner: &metav1.OwnerReference{APIVersion: capi, Kind: "Cluster", Name: "prod", UID: "before"}, of: "now"},
		"OlderVersion": {owner: &metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "prod", UID: "before"}, of: "now"},
		"OtherName":    {owner: &metav1.OwnerReference{APIVersion: capi, Kind: "Cluster", Name: "host", UID: "before"}, of: "now", wanted: true},
		"OtherKind":    {owner: &metav1.OwnerReference{APIVersion: "x/v1", Kind: "Cluster", Name: "prod", UID: "before"}, of: "now", wanted: true},
		"NotAsked":     {owner: &metav1.OwnerReference{APIVersion: capi, Kind: "Cluster", Name: "prod", UID: "before"}, wanted: true},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod-kubeconfig"}, Data: map[string][]byte{"value": []byte("x")},
			}
			if tc.owner != nil {
				secret.OwnerReferences = []metav1.OwnerReference{*tc.owner}
			}
			from := Default(types.NamespacedName{Namespace: "tenant", Name: "prod"})
			from.Name, from.UID = "prod", tc.of
			raw, err := from.Read(t.Context(), fake.NewClientBuilder().WithObjects(secret).Build())
			if tc.wanted {
				if err != nil || string(raw) != "x" {
					t.Errorf("got %q, %v", raw, err)
				}
				return
			}
			wantProblem(t, err, MissingReason)
		})
	}
}
