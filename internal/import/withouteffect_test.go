package importer

import (
	"strings"
	"testing"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioningv1 "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnnotationsWithoutEffectAreNamed(t *testing.T) {
	v3 := &record{Object: v3Record(), strategy: v3Strategy{}}
	v1 := &record{Object: &provisioningv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod-capi"}}, strategy: v1Strategy{}}
	external, display := "archelon.io/external-fleet", "archelon.io/display-name"
	for name, tc := range map[string]struct {
		reason      string
		record      *record
		annotations map[string]string
		workspace   string
		want        []string
	}{
		"Nothing":         {reason: "no annotation", record: v3, workspace: "fleet-default"},
		"External":        {reason: "it was there in time, so Rancher chose no workspace", record: v3, annotations: map[string]string{external: "true"}},
		"ExternalOff":     {reason: "it asks for nothing", record: v3, annotations: map[string]string{external: "false"}, workspace: "fleet-default"},
		"ExternalUnknown": {reason: "a value that cannot be read stops the import elsewhere", record: v3, annotations: map[string]string{external: "maybe"}, workspace: "fleet-default"},
		"ExternalLate":    {reason: "Rancher had registered it", record: v3, annotations: map[string]string{external: "true"}, workspace: "fleet-default", want: []string{external, "fleet-default", "import it again"}},
		"ExternalV1":      {reason: "no time is early enough", record: v1, annotations: map[string]string{external: "true"}, workspace: "tenant", want: []string{external, "every v1"}},
		"DisplayV3":       {reason: "it is followed", record: v3, annotations: map[string]string{display: "other"}, workspace: "fleet-default"},
		"DisplayV1":       {reason: "Rancher shows the name of the record", record: v1, annotations: map[string]string{display: "other"}, workspace: "tenant", want: []string{display}},
		"BothV1":          {reason: "each is named", record: v1, annotations: map[string]string{display: "other", external: "1"}, workspace: "tenant", want: []string{external, ". ", display}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			cluster.Annotations = tc.annotations
			object := &managementv3.Cluster{Spec: managementv3.ClusterSpec{FleetWorkspaceName: tc.workspace}}
			got := conditionFor(seen(cluster), Decision{
				Intent: intentImport, findings: findings{record: tc.record, management: &managementCluster{object: object, connected: true}},
			}, nil)
			if got.Status != metav1.ConditionTrue || got.Reason != "Imported" || got.Message == "" != (len(tc.want) == 0) {
				t.Fatalf("%s: got %s %s %q", tc.reason, got.Status, got.Reason, got.Message)
			}
			for _, part := range tc.want {
				if !strings.Contains(got.Message, part) {
					t.Errorf("%s: %q is not in %q", tc.reason, part, got.Message)
				}
			}
		})
	}
}
