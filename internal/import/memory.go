package importer

import (
	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process remembers of clusters. It enters runs through the Observation, and is changed by actions.
// Safety never rests on it: another process knows none of it.
type memory struct {
	// writes, told, steps, creations and holdings are about what was written, and is not in the cache yet.
	writes    *ownWrites
	told      *told
	steps     *steps
	creations *creations
	holdings  *holdings
	// conflicts, looks, registrations, disconnections and replacements pace what is tried again.
	conflicts      *conflicts
	looks          *looks
	registrations  *patience
	disconnections disconnections
	replacements   *replacements
	// turns, reserved and contests are about clusters that want the same.
	turns    *turns
	reserved *reservations
	contests *contests
	// turtles and takings are about Rancher Turtles.
	turtles turtlesLease
	takings takings
}

func newMemory(switches int) *memory {
	return &memory{
		writes: newOwnWrites(), told: newTold(), steps: newSteps(stepPatience), creations: newCreations(), holdings: newHoldings(),
		conflicts: newConflicts(), looks: newLooks(), registrations: newPatience(registrationPatience), replacements: newReplacements(),
		turns: newTurns(switches), reserved: newReservations(), contests: newContests(),
	}
}

// forgetCluster drops what is known of a cluster that is gone, or that this instance handles no more. What it held is
// dropped later, for its record may yet come.
func (m *memory) forgetCluster(key types.NamespacedName) {
	m.told.forget(key)
	m.conflicts.forget(key)
	m.takings.forget(key)
	m.looks.forget(key)
	m.replacements.forget(key)
}
