package importer

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// permits answers with an error or a note, or with neither.
type permits struct {
	err  error
	note string
}

func (p permits) Permits(context.Context, *clusterv1.Cluster) (string, error) {
	return p.note, p.err
}

func (permits) Subscribe(func(kind string, name types.NamespacedName)) {}

func TestPrincipal(t *testing.T) {
	refused := permits{err: &outcome.Problem{Kind: outcome.KindStall, Reason: "NamespaceNotAllowed", Message: "namespace tenant is not allowed"}}
	unknown := permits{err: &outcome.Problem{Kind: outcome.KindWait, Reason: "IdentityNotEvaluated", Message: "there is nothing yet"}}
	broken := permits{err: errors.New("down")}
	for name, tc := range map[string]struct {
		reason     string
		principals Principals
		imported   bool
		want       outcome.Kind
		says       string
		shows      string
	}{
		"Off":             {reason: "the import knows nothing of principals"},
		"Allowed":         {reason: "there is nothing to say", principals: permits{}},
		"Refused":         {reason: "a person ends it", principals: refused, want: outcome.KindStall, says: "NamespaceNotAllowed"},
		"Unknown":         {reason: "a watch ends it", principals: unknown, want: outcome.KindWait, says: "IdentityNotEvaluated"},
		"Broken":          {reason: "it is tried again", principals: broken, want: outcome.KindFail, says: "InternalError"},
		"ImportedRefused": {reason: "it stays, and it is told", principals: refused, imported: true, shows: "is now refused (NamespaceNotAllowed). Namespace tenant"},
		"ImportedUnknown": {reason: "it stays, and what nobody knows is not told", principals: unknown, imported: true},
		"Noted":           {reason: "what is not known holds up nothing, and is shown", principals: permits{note: "OCI does not answer"}, shows: "OCI does not answer"},
		"ImportedNoted":   {reason: "the same", principals: permits{note: "OCI does not answer"}, imported: true, shows: "OCI does not answer"},
		"ImportedBroken":  {reason: "an outage takes nothing away", principals: broken, imported: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			cluster.Annotations = nil
			if tc.imported {
				cluster.Annotations = map[string]string{recordKey: "c-abcde"}
			}
			b := newBench(t, instance.Claim{}, cluster)
			b.Principals = tc.principals
			o := seen(cluster)
			got := b.obey(t.Context(), o, (*deciding).checkPrincipal).Outcome
			if got.Kind != tc.want || got.Reason != tc.says {
				t.Errorf("%s: got %s %s", tc.reason, got.Kind, got.Reason)
			}
			if !got.IsDone() {
				return
			}
			condition := conditionFor(o, Decision{Intent: intentImport}, nil)
			if condition.Status != metav1.ConditionTrue || condition.Message == "" != (tc.shows == "") || !strings.Contains(condition.Message, tc.shows) {
				t.Errorf("%s: the condition is %s %q", tc.reason, condition.Status, condition.Message)
			}
		})
	}
}

// Deletion, un-import and the rest do not ask, so nobody is held by what is refused.
func TestOnlyAnImportAsksForAPrincipal(t *testing.T) {
	for i, want := range map[intent]bool{
		intentImport: true, intentDelete: false, intentUnimport: false, intentIdle: false, intentPause: false,
	} {
		asks := false
		for at, phase := range rulesOf(i) {
			asks = asks || phase.name == "principal"
			if i == intentImport && !asks && (phase.name == "adopt" || phase.name == "claim" || phase.name == "rancher-cluster") {
				t.Errorf("phase %d, %s, comes before", at, phase.name)
			}
		}
		if asks != want {
			t.Errorf("intent %d asks: %t, want %t", i, asks, want)
		}
	}
}

func TestClustersAreFoundByTheirInfrastructure(t *testing.T) {
	cluster := testCluster()
	if got := infrastructureKeys(cluster); len(got) != 0 {
		t.Errorf("without infrastructure: got %v", got)
	}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "OCICluster", Name: "net"}
	reduce(t, cluster)
	if got := infrastructureKeys(cluster); len(got) != 1 || got[0] != infrastructureKey("OCICluster", "net") {
		t.Errorf("as the cache keeps it: got %v", got)
	}
}
