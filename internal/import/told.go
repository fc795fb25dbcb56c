package importer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// told remembers the condition that this process applied last to each CAPI cluster. Its event must not
// wake the cluster: after a failure that would be a retry beside the backoff, and without end if the
// next failure reads otherwise.
type told struct {
	mu   sync.Mutex
	last map[types.NamespacedName]telling
}

type telling struct {
	uid       types.UID
	condition metav1.Condition
}

func newTold() *told { return &told{last: map[types.NamespacedName]telling{}} }

// note remembers a condition. It is called before the write, whose event may come before its answer.
func (t *told) note(cluster *clusterv1.Cluster, condition *metav1.Condition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[client.ObjectKeyFromObject(cluster)] = telling{uid: cluster.UID, condition: *condition}
}

// has reports whether the cluster has the condition that was applied last.
func (t *told) has(cluster *clusterv1.Cluster) bool {
	found := meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition)
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.last[client.ObjectKeyFromObject(cluster)]
	return ok && found != nil && last.uid == cluster.UID && sameState(&last.condition, found)
}

// forget drops a cluster that is gone.
func (t *told) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, key)
}

// Conflicts in a row that are no news, and for how long.
const (
	conflictsAtOnce  = 3
	conflictPatience = 5 * time.Second
)

// conflicts counts the writes in a row that met a conflict, by CAPI cluster. One or two are due to somebody who was
// faster. Without end they are due to an API server that serves objects of the past, or to a webhook that refuses
// with the code of a conflict.
type conflicts struct {
	mu  sync.Mutex
	row map[types.NamespacedName]streak
}

type streak struct {
	length int
	since  time.Time
}

func newConflicts() *conflicts { return &conflicts{row: map[types.NamespacedName]streak{}} }

// note counts one more, and returns how many there are in a row by now and for how long.
func (c *conflicts) note(key types.NamespacedName, now time.Time) (int, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.row[key]
	if !ok {
		found.since = now
	}
	found.length++
	c.row[key] = found
	return found.length, now.Sub(found.since)
}

// forget ends a row.
func (c *conflicts) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.row, key)
}

func sameState(before, after *metav1.Condition) bool {
	return before != nil && before.Status == after.Status && before.Reason == after.Reason && before.Message == after.Message
}
