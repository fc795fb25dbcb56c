package baremetal

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// recorded are Events, as "type reason: note".
type recorded struct{ texts []string }

// Eventf implements events.EventRecorder.
func (r *recorded) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.texts = append(r.texts, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

// Who has written a policy that cannot be read is told so (attack I).
func TestPoliciesThatCannotBeReadAreToldOf(t *testing.T) {
	server := simulation.NewServer(simScheme())
	events := &recorded{}
	p := policyReader{policies: server.Client(nil), recorder: events}
	for name, expression := range map[string]string{"good": "team-.*", "bad": "(", "gone": ""} {
		if name != "gone" {
			policy := &metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}}
			policy.Spec.HostClaimNamespaces = &metal3v1.HostClaimNamespaces{NameMatches: expression}
			server.Put(policy)
		}
		request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "infra", Name: name}}
		if _, err := p.Reconcile(t.Context(), request); err != nil {
			t.Error(err)
		}
	}
	server.Put(copyingPolicy("a", "("))
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "infra", Name: "copies"}}
	if _, err := p.Reconcile(t.Context(), request); err != nil {
		t.Error(err)
	}
	want := []string{
		"Warning PolicyInvalid: The policy allows no namespace: spec.hostClaimNamespaces.nameMatches cannot be read: error parsing regexp: missing closing ): `(`",
		"Warning PolicyInvalid: The policy does not copy all labels and annotations that it is to copy: spec.metadataCopy.annotationsMatch cannot be read: " +
			"error parsing regexp: missing closing ): `(`",
	}
	if !slices.Equal(events.texts, want) {
		t.Errorf("got %q", events.texts)
	}
}
