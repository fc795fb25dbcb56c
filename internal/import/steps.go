package importer

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// How long the condition of a CAPI cluster may be behind the steps of its import. A step takes less as a rule: to write
// each of them would cost half of the writes of an import, and nobody could read them. In a backlog each step takes
// longer, while the API server has less time for what nobody reads. So it grows with the imports whose steps are not
// told yet.
const (
	stepPatience    = 3 * time.Second
	stepPatienceFor = 100 * time.Millisecond // more for each of them
	stepPatienceMax = 30 * time.Second
)

// quotePatience is the same of the words of Cluster API that a condition quotes: a control plane that comes up can
// change them with each of its own steps, and each change would be a write.
const quotePatience = 10 * time.Second

// onTheWay are the reasons that an import has one after the other if all goes well.
var onTheWay = []string{ //nolint:gochecknoglobals // it is never changed
	archelonv1.WaitingForControlPlaneReason, archelonv1.WaitingForRancherReason, archelonv1.ConnectingAgentReason, archelonv1.WaitingForAgentReason,
}

// steps remembers the conditions that are not written yet, because the step of the import that they tell of has only
// just begun.
type steps struct {
	// atOnce: nothing is told later.
	atOnce bool

	mu     sync.Mutex
	untold map[types.UID]step
}

type step struct {
	condition metav1.Condition
	// since is when the first step began that is not told.
	since time.Time
}

func newSteps() *steps { return &steps{untold: map[types.UID]step{}} }

// of returns the condition of a cluster that is not written yet, nil if there is none.
func (s *steps) of(cluster types.UID) *metav1.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.untold[cluster]; ok {
		return &known.condition
	}
	return nil
}

// patience returns how long a step may last before the condition tells of it.
func (s *steps) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(stepPatience+time.Duration(max(0, len(s.untold)-1))*stepPatienceFor, stepPatienceMax)
}

// note remembers a condition that can be told later by some time, and returns for how much longer it can.
func (s *steps) note(
	cluster types.UID, condition *metav1.Condition, now time.Time, patience time.Duration,
) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atOnce {
		return 0
	}
	known, ok := s.untold[cluster]
	if !ok {
		known.since = now
	}
	known.condition = *condition
	s.untold[cluster] = known
	return patience - now.Sub(known.since)
}

// forget drops a cluster whose condition says what is so, or that is gone.
func (s *steps) forget(cluster types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.untold, cluster)
}
