package identity

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// checked is what is remembered of one state of a Secret: whether it holds an API key, and what OCI said to it. It has
// nothing of the key.
type checked struct {
	version version
	// flaw is empty if the Secret holds an API key.
	flaw string
	// answer is what OCI said, when it was asked.
	answer answer
	asked  time.Time
}

// userID names a cluster.
type userID struct{ kind, namespace, name string }

// String returns "namespace/name" as people write it.
func (u userID) String() string { return u.namespace + "/" + u.name }

// state is what metrics say of an identity.
type state struct{ status, reason string }

// known is what is remembered of one identity.
type known struct {
	secret checked
	// state and users are what was last published.
	state state
	users map[userID]Verdict
}

// memory is all that the controller knows and cannot read again at no cost. A new process begins with none of it, and
// finds it again.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]known
}

func newMemory() *memory { return &memory{entries: map[types.NamespacedName]known{}} }

// secret returns what is known of a state of the Secret of an identity.
func (m *memory) secret(identity types.NamespacedName, of version) (checked, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.entries[identity].secret
	return found, found.version == of
}

// noteSecret replaces what is known of the Secret of an identity.
func (m *memory) noteSecret(identity types.NamespacedName, found checked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entries[identity]
	entry.secret = found
	m.entries[identity] = entry
}

// notePublished replaces what was last published, and returns the clusters whose verdict is another now, those that
// have gone among them. Nil verdicts are not known and stay what they were.
func (m *memory) notePublished(identity types.NamespacedName, now state, users map[userID]Verdict) []userID {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entries[identity]
	entry.state = now
	var changed []userID
	if users != nil {
		for user, verdict := range users {
			if before, ok := entry.users[user]; !ok || before != verdict {
				changed = append(changed, user)
			}
		}
		for user := range entry.users {
			if _, ok := users[user]; !ok {
				changed = append(changed, user)
			}
		}
		entry.users = users
	}
	m.entries[identity] = entry
	if entry.state == (state{}) && len(entry.users) == 0 {
		delete(m.entries, identity)
	}
	return changed
}

// tally counts identities by state, and clusters by the reason of their refusal, which is empty for those that are
// allowed.
func (m *memory) tally() (map[state]int, map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	identities, clusters := map[state]int{}, map[string]int{}
	for _, entry := range m.entries {
		if entry.state != (state{}) {
			identities[entry.state]++
		}
		for _, verdict := range entry.users {
			clusters[verdict.Reason]++
		}
	}
	return identities, clusters
}
