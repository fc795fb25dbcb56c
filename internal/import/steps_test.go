package importer

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What one import alone is told after three seconds, it is told later where many are on their way, and never later than
// after half a minute.
func TestStepsAreToldLaterInABacklog(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := newSteps()
	uid := func(i int) types.UID { return types.UID(strconv.Itoa(i)) }
	backlog := 0
	for _, tc := range []struct {
		onTheWay int
		want     time.Duration
	}{
		{0, 3 * time.Second}, {1, 3 * time.Second}, {11, 4 * time.Second}, {101, 13 * time.Second}, {300, 30 * time.Second}, {3000, 30 * time.Second},
	} {
		for ; backlog < tc.onTheWay; backlog++ {
			s.note(uid(backlog), &metav1.Condition{}, now, s.patience())
		}
		if got := s.patience(); got != tc.want {
			t.Errorf("with %d on their way a step is told after %s, want %s", tc.onTheWay, got, tc.want)
		}
	}
	if left := s.note(uid(0), &metav1.Condition{Reason: "WaitingForAgent"}, now.Add(20*time.Second), s.patience()); left != 10*time.Second {
		t.Errorf("the step after one that was not told begins anew: %s are left", left)
	}
	for i := range backlog {
		s.forget(uid(i))
	}
	if got := s.patience(); got != 3*time.Second || len(s.untold) != 0 {
		t.Errorf("a backlog that has gone leaves %s, and %d conditions", got, len(s.untold))
	}
}
