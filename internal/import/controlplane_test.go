package importer

import (
	"strings"
	"testing"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/archelon-io/archelon/internal/instance"
)

const (
	availableType   = clusterv1.ClusterControlPlaneAvailableCondition
	initializedType = clusterv1.ClusterControlPlaneInitializedCondition
	probeType       = clusterv1.ClusterRemoteConnectionProbeCondition
)

func says(kind string, status metav1.ConditionStatus, reason, message string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) {
		conditions.Set(c, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func planned(c *clusterv1.Cluster) {
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "prod-cp",
	}
}

// provided has Cluster API derive its condition from the status of a control plane object, by its own library and with
// its own fallback for those that report no condition.
func provided(t *testing.T, initialized bool, status map[string]any) func(*clusterv1.Cluster) {
	t.Helper()
	return func(c *clusterv1.Cluster) {
		planned(c)
		object := &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlane", "status": status}}
		fallback := conditions.FallbackCondition{
			Status: conditions.BoolToStatus(initialized), Reason: "NotAvailable",
			Message: "KubeadmControlPlane status.initialization.controlPlaneInitialized is false",
		}
		derived, err := conditions.NewMirrorConditionFromUnstructured(
			object, "Available", conditions.TargetConditionType(availableType), fallback)
		if err != nil {
			t.Fatal(err)
		}
		conditions.Set(c, *derived)
		if initialized {
			c.Status.Initialization.ControlPlaneInitialized = new(true)
			says(initializedType, metav1.ConditionTrue, "Initialized", "")(c)
		} else {
			says(initializedType, metav1.ConditionFalse, "NotInitialized", "Control plane not yet initialized")(c)
		}
	}
}

// v1beta1 returns the status of a control plane object of the v1beta1 contract.
func v1beta1(available, reason, message string) map[string]any {
	return map[string]any{"ready": false, "initialized": available == "True", "conditions": []any{map[string]any{
		"type": "Available", "status": available, "severity": "Info", "reason": reason, "message": message,
	}}}
}

// Whoever asks whether a control plane is up gets one answer, and the words of Cluster API if it is not.
func TestControlPlaneUp(t *testing.T) {
	const (
		unknown = "Please check controller logs for errors"
		machine = "Waiting for the first control plane machine to have status.nodeRef set"
	)
	for name, tc := range map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		up      bool
		quote   string
	}{
		"New": {reason: "nothing is known yet", cluster: testCluster(planned)},
		"Waits": {
			reason: "the provider says why", quote: `NotAvailable: "Control plane not yet initialized"`,
			cluster: testCluster(planned, says(availableType, "False", "NotAvailable", "Control plane not yet initialized")),
		},
		"Available": {
			reason: "the provider says that it is", up: true,
			cluster: testCluster(planned, says(availableType, "True", "Available", "")),
		},
		"Initialized": {
			reason: "it serves with fewer machines than it should have", up: true,
			cluster: testCluster(provided(t, true, nil), says(availableType, "False", "NotAvailable", "1 of 3 machines")),
		},
		"Away": {
			reason: "the work in the workload cluster says what it meets", up: true,
			cluster: testCluster(provided(t, true, nil), says(availableType, "Unknown", "ConnectionDown", "since 10:00")),
		},
		"V1Beta1Waits": {
			reason: "Cluster API copies the condition of the v1beta1 contract", quote: "WaitingForKubeadmInit",
			cluster: testCluster(provided(t, false, v1beta1("False", "WaitingForKubeadmInit", ""))),
		},
		"V1Beta1Says": {
			reason: "with its message", quote: `Bootstrapping: "node 1 of 3"`,
			cluster: testCluster(provided(t, false, v1beta1("False", "Bootstrapping", "node 1 of 3"))),
		},
		"V1Beta1Up": {
			reason: "which has no reason when it is True", up: true,
			cluster: testCluster(provided(t, false, v1beta1("True", "", ""))),
		},
		"V1Beta1Silent": {
			reason:  "without a condition, Cluster API derives it from the field",
			quote:   `NotAvailable: "KubeadmControlPlane status.initialization.controlPlaneInitialized is false"`,
			cluster: testCluster(provided(t, false, map[string]any{"ready": false, "initialized": false})),
		},
		"V1Beta1SilentUp": {
			reason: "as well when it is up", up: true,
			cluster: testCluster(provided(t, true, map[string]any{"ready": true, "initialized": true})),
		},
		"Field": {
			reason: "Cluster API sets the field alone", up: true,
			cluster: testCluster(planned, func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(true) }),
		},
		"Topology": {
			reason: "its ClusterClass is not reconciled yet", quote: `DoesNotExist: "Waiting for cluster topology to be reconciled"`,
			cluster: testCluster(says(availableType, "False", "DoesNotExist", "Waiting for cluster topology to be reconciled"),
				func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "quick-start" }),
		},
		"Machines": {
			reason: "machines without a provider have no node yet", quote: `NotInitialized: "` + machine + `"`,
			cluster: testCluster(says(availableType, "Unknown", "InternalError", unknown), says(initializedType, "False", "NotInitialized", machine)),
		},
		"MachinesUp": {
			reason: "one of them has", up: true,
			cluster: testCluster(says(availableType, "Unknown", "InternalError", unknown), says(initializedType, "True", "Initialized", "")),
		},
		"Hosted": {
			reason: "the infrastructure has it, and Cluster API has reached it", up: true,
			cluster: testCluster(says(initializedType, "False", "NotInitialized", machine), says(probeType, "True", "ProbeSucceeded", "")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cluster := range []*clusterv1.Cluster{tc.cluster, reduced(t, tc.cluster.DeepCopy())} {
				if got := controlPlaneUp(cluster); got != tc.up {
					t.Errorf("%s: got %t, want %t", tc.reason, got, tc.up)
				}
				if got := quoted(cluster); got != tc.quote {
					t.Errorf("%s: quotes %s, want %s", tc.reason, got, tc.quote)
				}
			}
		})
	}
}

func reduced(t *testing.T, cluster *clusterv1.Cluster) *clusterv1.Cluster {
	t.Helper()
	reduce(t, cluster)
	return cluster
}

// The status of a Cluster can be written by whoever may do that. What is quoted of it stays a quotation.
func TestQuoteIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"Long": strings.Repeat("x", 32<<10), "Lines": "* a\n* b\r\n\t* c", "Escape": "\x1b[31mred\x1b[0m\x00",
		"RightToLeft": "\u202egnisrever", "Quoted": `none". Delete this Cluster. "`, "Wide": strings.Repeat("\u0007", 300) + "é",
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster(planned, says(availableType, "False", strings.Repeat("R", 1024), text))
			cluster.Spec.ControlPlaneRef.Name, cluster.Namespace = strings.Repeat("n", 253), strings.Repeat("s", 63)
			cluster.Spec.ControlPlaneRef.Kind = strings.Repeat("K", 63)
			d := &deciding{Observation: seen(cluster), Rules: Rules{}}
			message := d.waitForControlPlane().Outcome.Message
			if len(message) > maxNote {
				t.Errorf("the message has %d bytes", len(message))
			}
			if strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("the message is %q", message)
			}
			if strings.Count(message, `"`) != 6 {
				t.Errorf("the quotation ends early: %s", message)
			}
			if again := quoted(reduced(t, cluster.DeepCopy())); again != d.quoted {
				t.Errorf("the cache quotes %s, the API server %s", again, d.quoted)
			}
		})
	}
}

// Each change of the words wakes the cluster. The condition follows in its own time, and has the latest ones then.
func TestRequotingIsPaced(t *testing.T) {
	cluster := testCluster(planned)
	b := newBench(t, instance.Claim{}, cluster)
	look := func(message string) time.Duration {
		t.Helper()
		before := cluster.DeepCopy()
		says(availableType, "False", "NotAvailable", message)(cluster)
		if !clusterChanged(b.told).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: withVersion(cluster)}) {
			t.Errorf("%q does not wake the cluster", message)
		}
		o := seen(cluster.DeepCopy())
		d := &deciding{Observation: o, Rules: b.Rules}
		decision := d.waitForControlPlane()
		decision.Intent, decision.findings = intentImport, d.findings
		result, err := b.finish(t.Context(), o, decision)
		if err != nil {
			t.Fatal(err)
		}
		stored := testCluster()
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), stored); err != nil {
			t.Fatal(err)
		}
		cluster.Status.Conditions = append([]metav1.Condition{}, cluster.Status.Conditions...)
		if told := conditions.Get(stored, "RancherImported"); told != nil {
			conditions.Set(cluster, *told)
		}
		return result.RequeueAfter
	}
	told := func() string { return conditions.GetMessage(cluster, "RancherImported") }
	b.clock.Step(look("before"))
	look("step 0")
	if !strings.Contains(told(), `"step 0"`) {
		t.Fatalf("the first words are not told when they have lasted: %s", told())
	}
	writes := 0
	for i := range 60 {
		b.clock.Step(time.Second)
		before := told()
		left := look("step " + strings.Repeat("i", i+1))
		if told() != before {
			writes++
		} else if left <= 0 || left > quotePatience {
			t.Fatalf("nothing has the last words told: %s", left)
		}
	}
	if writes < 3 || writes > 6 {
		t.Errorf("%d writes in a minute, want 6 at most", writes)
	}
}

func withVersion(cluster *clusterv1.Cluster) *clusterv1.Cluster {
	changed := cluster.DeepCopy()
	changed.ResourceVersion += "1"
	return changed
}
