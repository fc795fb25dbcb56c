package importer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// halfway is an import whose Rancher has made a registration and is not ready for an agent.
type halfway struct {
	*counted
	behind *managementv3.Cluster
}

func newHalfway(t *testing.T) *halfway {
	t.Helper()
	h := &halfway{counted: newCounted(t, "v3")}
	h.reconcile()
	h.behind = h.prepare("v3")
	h.says(managementv3.ClusterCondition{Type: "BackingNamespaceCreated", Status: corev1.ConditionTrue, LastUpdateTime: h.clock.Now().Format(time.RFC3339)})
	return h
}

// says has Rancher set a condition of the v3 Cluster.
func (h *halfway) says(condition managementv3.ClusterCondition) {
	h.t.Helper()
	h.behind.Status.Conditions = append(h.behind.Status.Conditions, condition)
	if err := h.store.Update(h.t.Context(), h.behind); err != nil {
		h.t.Fatal(err)
	}
}

// ready has Rancher be ready for the agent.
func (h *halfway) ready() {
	h.t.Helper()
	h.says(managementv3.ClusterCondition{Type: "ServiceAccountSecretsMigrated", Status: corev1.ConditionTrue})
}

// work has the import do what it can, and the work in the workload cluster that it asks for.
func (h *halfway) work() {
	h.t.Helper()
	h.reconcile()
	for len(h.control.RunningJobs()) > 0 {
		h.control.AwaitJob()
		h.reconcile()
	}
}

// expect asserts what was applied so far.
func (h *halfway) expect(want ...[]string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.applied); diff != "" {
		h.t.Errorf("applied in the workload cluster (-want +got):\n%s", diff)
	}
}

func parts(t *testing.T) (first, last, all []string) {
	t.Helper()
	manifest, err := manifestOf("t0ken", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range manifest.Objects() {
		all = append(all, object.GetKind())
		if object.GetKind() != "Deployment" {
			first = append(first, object.GetKind())
		}
	}
	return first, []string{"Deployment"}, all
}

// Rancher takes a moment until an agent may register. Everything else is installed by then, and that costs no further
// request.
func TestAnInstallationBeginsBeforeRancherIsReady(t *testing.T) {
	first, last, _ := parts(t)
	h := newHalfway(t)
	h.work()
	h.expect(first)
	h.work()
	h.expect(first) // Nothing is done twice while Rancher is not ready.
	h.ready()
	h.work()
	h.expect(first, last)
	h.work()
	h.expect(first, last)
	if got := h.requests["get secrets"]; got != 1 {
		t.Errorf("%d reads of Secrets, want 1", got)
	}
}

// Rancher that is ready when the rest is there has the Deployment applied at once.
func TestAnInstallationGoesOnIfRancherIsReadyMeanwhile(t *testing.T) {
	first, last, _ := parts(t)
	h := newHalfway(t)
	h.then = func() {
		h.then = nil
		h.ready()
	}
	h.work()
	h.expect(first, last)
	h.work()
	h.expect(first, last)
}

// A Rancher that does not tell that it is ready is not waited for without end.
func TestAnInstallationGoesOnWithoutAWord(t *testing.T) {
	first, last, _ := parts(t)
	h := newHalfway(t)
	h.work()
	h.clock.SetTime(h.clock.Now().Add(31 * time.Second))
	h.work()
	h.expect(first, last)
}

// What was prepared for another kubeconfig is of no use, and neither is what an earlier process prepared.
func TestAnInstallationIsDoneAgainIfWhatItDependsOnHasChanged(t *testing.T) {
	first, _, all := parts(t)
	for name, change := range map[string]func(h *halfway){
		"Kubeconfig": func(h *halfway) {
			secret := &corev1.Secret{}
			h.get(client.ObjectKey{Namespace: h.key.Namespace, Name: h.key.Name + "-kubeconfig"}, secret)
			secret.Labels = map[string]string{"another": "version"}
			if err := h.store.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		},
		"Process": func(h *halfway) { h.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHalfway(t)
			h.work()
			h.expect(first)
			change(h)
			h.ready()
			h.work()
			h.expect(first, all)
		})
	}
}

// Of an agent that is there somebody may have to be asked, so nothing is changed before Rancher is ready.
func TestAnAgentThatIsThereIsLeftAloneUntilRancherIsReady(t *testing.T) {
	_, _, all := parts(t)
	h := newHalfway(t)
	h.agent = installed{exists: true}
	h.work()
	h.expect()
	h.ready()
	h.work()
	h.expect(all)
}
