package importer

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/import/turtles"
)

// memory is what this process remembers of clusters. It enters runs through the Observation, and is changed by actions.
// Safety never rests on it: another process knows none of it.
type memory struct {
	// incarnations says of which CAPI cluster everything else is.
	incarnations *incarnations
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
	turtles turtles.Leases
	takings turtles.Takings
}

// newMemory returns one for so many switches at the same time, and so many clusters that are woken at once by one that has ended.
func newMemory(switches, backlog int) *memory {
	return &memory{
		incarnations: newIncarnations(),
		writes:       newOwnWrites(), told: newTold(), steps: newSteps(stepPatience), creations: newCreations(), holdings: newHoldings(),
		conflicts: newConflicts(), looks: newLooks(), registrations: newPatience(registrationPatience), replacements: newReplacements(),
		turns: newTurns(switches, backlog), reserved: newReservations(), contests: newContests(),
	}
}

// forgetCluster drops what is known of a cluster that is gone, or that this instance handles no more. What it held is
// dropped later, for its record may yet come.
func (m *memory) forgetCluster(key types.NamespacedName) {
	m.incarnations.forget(key)
	m.told.forget(key)
	m.conflicts.forget(key)
	m.takings.Forget(key)
	m.looks.forget(key)
	m.replacements.forget(key)
}

// forgetIncarnation drops what is known of a CAPI cluster by its UID, when it is gone.
func (m *memory) forgetIncarnation(uid types.UID) {
	m.writes.forget(uid)
	m.creations.forget(uid)
	m.steps.forget(uid)
}

// incarnations remembers the UIDs of the CAPI clusters that this process works on, by which it tells one that was
// created again under its name from the one before.
type incarnations struct {
	mu   sync.Mutex
	uids map[types.NamespacedName]types.UID
}

func newIncarnations() *incarnations {
	return &incarnations{uids: map[types.NamespacedName]types.UID{}}
}

// note remembers the cluster, and returns the UID of the earlier one of its name, "" if there was none.
func (i *incarnations) note(cluster *clusterv1.Cluster) (former types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := client.ObjectKeyFromObject(cluster)
	if former = i.uids[key]; former == cluster.UID {
		return ""
	}
	i.uids[key] = cluster.UID
	return former
}

// of returns the UID of the cluster, "" if none is remembered.
func (i *incarnations) of(key types.NamespacedName) types.UID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uids[key]
}

// forget drops a cluster that is gone, or that is worked on no more.
func (i *incarnations) forget(key types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.uids, key)
}
