package importer

import (
	"testing"
	"time"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUntilRequest(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := map[string]struct {
		reason   string
		asked    string
		age      time.Duration
		unusable bool
		want     time.Duration
	}{
		"New":        {reason: "Rancher gets its time", age: 10 * time.Second, want: 20 * time.Second},
		"Late":       {reason: "it had its time", age: time.Minute, want: -30 * time.Second},
		"ClockBack":  {reason: "made in the far future: no age can be told, so it is asked at once", age: -time.Hour},
		"ClocksDiff": {reason: "made in the near future: clocks differ a little, and time ends that", age: -2 * time.Second, want: 32 * time.Second},
		"Unusable":   {reason: "without server-url it had no time", age: time.Second, unusable: true},
		"Asked":      {reason: "it was asked", asked: "d1@2026-01-02T03:03:05Z", age: time.Hour, want: 4 * time.Minute},
		"AskedEarly": {reason: "it is asked again", asked: "d1@2026-01-02T02:04:05Z", age: time.Hour, want: -55 * time.Minute},
		"AskedLater": {reason: "asked in the future: at once, for every later look would wait as long", asked: "d1@2027-01-02T03:04:05Z", age: time.Hour},
		"Known":      {reason: "that server-url was unusable before does not matter once it was asked", asked: "d1@2026-01-02T03:04:05Z", unusable: true, want: 5 * time.Minute},
		"OtherURL":   {reason: "another server-url is asked for at once", asked: "d2@2026-01-02T03:04:05Z", age: time.Hour, want: 30*time.Second - time.Hour},
		"NoTime":     {reason: "the form of before has no time", asked: "d1", age: time.Hour, want: 30*time.Second - time.Hour},
		"Rubbish":    {reason: "somebody edited it", asked: "d1@soon", age: time.Hour, want: 30*time.Second - time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-test.age))}}
			if test.asked != "" {
				cluster.Annotations = map[string]string{"archelon.io/registration-requested": test.asked}
			}
			if got := untilRequest(cluster, "d1", test.unusable, now); got != test.want {
				t.Errorf("untilRequest() = %s, want %s: %s", got, test.want, test.reason)
			}
		})
	}
}

// What is written is understood again.
func TestRequestOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		Annotations:       map[string]string{"archelon.io/registration-requested": requestOf("d1", now)},
	}}
	if got := untilRequest(cluster, "d1", false, now.Add(time.Minute)); got != registrationRepeat-time.Minute {
		t.Errorf("untilRequest() = %s a minute after the request, want %s", got, registrationRepeat-time.Minute)
	}
}

// Whatever clocks there were before, Rancher is asked within the time that the first look and a repeat take.
func TestUntilRequestEnds(t *testing.T) {
	const longest = registrationRepeat + 2*registrationPatience
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, skew := range []time.Duration{-24 * time.Hour, -20 * time.Second, 0, time.Second, 20 * time.Second, time.Minute, 24 * time.Hour} {
		for name, annotations := range map[string]map[string]string{
			"created": nil,
			"asked":   {"archelon.io/registration-requested": requestOf("d1", start.Add(skew))},
		} {
			cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(start.Add(skew)), Annotations: annotations}}
			now := start
			for left := untilRequest(cluster, "d1", false, now); left > 0; left = untilRequest(cluster, "d1", false, now) {
				if now = now.Add(left); now.Sub(start) > longest {
					t.Errorf("%s %s from now: Rancher was not asked within %s", name, skew, longest)
					break
				}
			}
		}
	}
}

// withConditions returns a v3 Cluster with conditions as Rancher sets them.
func conditionStatus(value bool) corev1.ConditionStatus {
	if value {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func withConditions(status map[string]corev1.ConditionStatus) *managementv3.Cluster {
	cluster := &managementv3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-abcde"}}
	for kind, value := range status {
		condition := managementv3.ClusterCondition{Status: value}
		condition.Type = managementv3.ClusterConditionType(kind)
		cluster.Status.Conditions = append(cluster.Status.Conditions, condition)
	}
	return cluster
}

func TestViewOf(t *testing.T) {
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	type status = map[string]corev1.ConditionStatus
	for name, test := range map[string]struct {
		reason                     string
		status                     status
		connected, known, deployed bool
	}{
		"New":        {reason: "nothing has happened", status: status{"Connected": no, "Waiting": unknown}},
		"Registered": {reason: "Rancher calls an agent that has only registered disconnected", status: status{"Connected": no, "Waiting": unknown, "Provisioned": yes, "Ready": no}},
		"Deployed":   {reason: "Rancher has applied its agent, which has yet to come back", status: status{"Connected": no, "Waiting": unknown, "Ready": no, "AgentDeployed": yes}, deployed: true},
		"Failed":     {reason: "Rancher could not apply its agent", status: status{"Connected": no, "AgentDeployed": no}},
		"Connected":  {reason: "the first healthy check comes a little later", status: status{"Connected": yes, "Waiting": unknown, "Ready": no, "AgentDeployed": yes}, connected: true, deployed: true},
		"Ready":      {reason: "all is well", status: status{"Connected": yes, "Waiting": yes, "Ready": yes, "AgentDeployed": yes}, connected: true, known: true, deployed: true},
		"Lost":       {reason: "Waiting stays True", status: status{"Connected": no, "Waiting": yes, "Ready": no, "AgentDeployed": yes}, known: true, deployed: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := viewOf(withConditions(test.status))
			if got.connected != test.connected || got.known != test.known || got.deployed != test.deployed {
				t.Errorf("viewOf() = connected %t, known %t, deployed %t, want %t, %t, %t: %s",
					got.connected, got.known, got.deployed, test.connected, test.known, test.deployed, test.reason)
			}
		})
	}
}
