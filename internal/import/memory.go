package importer

import (
	"sync"
	"time"

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
	// warnings are about the last installations of agents.
	warnings *warnings
	// halves are installations that began before Rancher was ready for their agents.
	halves *halves
	// reserved, contests and places are about clusters that want the same.
	reserved *reservations
	contests *contests
	places   *earlyPlaces
	// turtles and takings are about Rancher Turtles.
	turtles turtles.Leases
	takings turtles.Takings
}

func newMemory() *memory {
	return &memory{
		incarnations: newIncarnations(),
		writes:       newOwnWrites(), told: newTold(), steps: newSteps(), creations: newCreations(), holdings: newHoldings(),
		conflicts: newConflicts(), looks: newLooks(), registrations: newPatience(registrationPatience), replacements: newReplacements(),
		warnings: newWarnings(), halves: newHalves(), reserved: newReservations(), contests: newContests(), places: newEarlyPlaces(),
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
	m.places.forget(key)
	m.replacements.forget(key)
	m.warnings.forget(key)
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

// disconnections remembers since when this process knows that the agent of a CAPI cluster is disconnected. The
// zero value is ready for use.
type disconnections struct {
	mu    sync.Mutex
	since map[types.NamespacedName]disconnection
}

type disconnection struct {
	// cluster is the v3 Cluster whose agent it is.
	cluster types.UID
	at      time.Time
}

// first returns when the disconnection was seen first.
func (d *disconnections) first(key types.NamespacedName, cluster types.UID, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.since[key]
	if !ok || known.cluster != cluster {
		known = disconnection{cluster: cluster, at: now}
		if d.since == nil {
			d.since = map[types.NamespacedName]disconnection{}
		}
		d.since[key] = known
	}
	return known.at
}

// forget is called when the agent is connected again, or matters no more.
func (d *disconnections) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, key)
}

// Pauses between two looks for a v1 Rancher cluster that the cache does not show. They double.
const (
	namesakeRecheck    = unseenRecheck
	namesakeRecheckMax = 5 * time.Minute
)

// looks remembers when something that no watch shows is looked for again, so that events about the cluster cost no
// request meanwhile.
type looks struct {
	mu   sync.Mutex
	next map[types.NamespacedName]look
}

type look struct {
	pause time.Duration
	at    time.Time
}

func newLooks() *looks { return &looks{next: map[types.NamespacedName]look{}} }

// note remembers that it was found now, and returns the pause until it is looked for again.
func (l *looks) note(key types.NamespacedName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := min(max(namesakeRecheck, 2*l.next[key].pause), namesakeRecheckMax)
	l.next[key] = look{pause: pause, at: now.Add(pause)}
	return pause
}

// left returns how long the pause still is, zero if there is none.
func (l *looks) left(key types.NamespacedName, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.next[key]
	if !ok {
		return 0
	}
	return max(0, found.at.Sub(now))
}

// forget ends the pauses of a cluster.
func (l *looks) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, key)
}

// reservations remember for a moment which CAPI cluster is about to get a display name, until the watch shows the v3
// Cluster that has it. Without them two imports of one process could both find the name free. The second one would
// notice later, with a record that nobody needs.
type reservations struct {
	mu    sync.Mutex
	names map[string]reservation
}

type reservation struct {
	cluster types.UID
	until   time.Time
}

func newReservations() *reservations { return &reservations{names: map[string]reservation{}} }

// take reserves the folded name for the CAPI cluster. If another one has reserved it, it returns for how much longer.
func (r *reservations) take(name string, cluster types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, old := range r.names {
		if !now.Before(old.until) {
			delete(r.names, other)
		}
	}
	if found, ok := r.names[name]; ok && found.cluster != cluster {
		return found.until.Sub(now)
	}
	r.names[name] = reservation{cluster: cluster, until: now.Add(madeTrust)}
	return 0
}
