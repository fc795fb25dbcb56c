package plan

import (
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Each kind is read in the cluster that has it, and Rancher clusters of other management clusters are in
// the way by their names alone.
func TestElsewhere(t *testing.T) {
	ofAnother := func(displayName string) client.Object {
		return &managementv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c-other", Labels: map[string]string{
				"archelon.io/management-cluster": "another", "cluster-api.cattle.io/owned": "",
				"cluster-api.cattle.io/capi-cluster-owner": "prod", "cluster-api.cattle.io/capi-cluster-owner-ns": "team-a",
			}},
			Spec: managementv3.ClusterSpec{DisplayName: displayName},
		}
	}
	for name, tc := range map[string]struct {
		display string
		other   client.Object
		// record is the name of the Rancher cluster that it has lost.
		record string
		says   string
	}{
		"Alone":               {other: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}}, says: "create | clusters.management.cattle.io"},
		"Beside another":      {other: ofAnother("else"), says: "create | clusters.management.cattle.io"},
		"Beside its namesake": {other: ofAnother("prod"), says: "then DisplayNameTaken"},
		"Lost":                {other: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}}, record: "v3/c-bcdfg", says: "cattle.io | c-bcdfg | "},
		"Lost and leaving":    {other: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "c-bcdfg"}}, record: "v3/c-bcdfg", says: "cattle.io | c-NEW-team-a-prod | "},
		"Told apart":          {other: ofAnother("prod"), display: "west", says: "create | clusters.management.cattle.io"},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := 0, 0
			prod := cluster("prod", map[string]string{label: "true"})
			if tc.record != "" {
				prod.Annotations = map[string]string{"archelon.io/rancher-cluster": tc.record}
			}
			from := From{
				Management: management(t, &here, namespace("team-a"), prod),
				Rancher:    management(t, &there, tc.other), Origin: "own", Display: tc.display,
			}
			from.Instances = from.Management
			opts := Options{Manager: managerWith(t, "gates=managementv3-cluster=true,remote-rancher=true")}
			plans, err := Look(t.Context(), from, opts)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(texts(plans), "\n"); !strings.Contains(got, tc.says) || len(plans) != 1 {
				t.Errorf("got %s", got)
			}
			if here != 4 || there != 3 {
				t.Errorf("%d lists here and %d there", here, there)
			}
		})
	}
}
