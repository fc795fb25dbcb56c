package identity

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	oci "github.com/archelon-io/archelon/identity"
)

// checked is what is remembered of one state of a Secret: whether it holds an API key, and what OCI said to it. It has
// nothing of the key.
type checked struct {
	version Version
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

// held is what is remembered of one Secret, and of the identities that use it.
type held struct {
	checked
	users map[types.NamespacedName]bool
}

// known is what is remembered of one identity.
type known struct {
	// secret is the one that it uses.
	secret types.NamespacedName
	// state and users are what was last published.
	state  state
	users  map[userID]oci.Verdict
	checks map[userID]finding
}

// memory is all that the controller knows and cannot read again at no cost. A new process begins with none of it, and
// finds it again.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]known
	secrets map[types.NamespacedName]held
}

func newMemory() *memory {
	return &memory{entries: map[types.NamespacedName]known{}, secrets: map[types.NamespacedName]held{}}
}

// secret returns what is known of a state of a Secret.
func (m *memory) secret(name types.NamespacedName, of Version) (checked, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.secrets[name]
	return found.checked, ok && found.version == of
}

// noteSecret replaces what is known of a Secret that identities use. Many identities can use one.
func (m *memory) noteSecret(name types.NamespacedName, found checked) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is, ok := m.secrets[name]; ok {
		is.checked = found
		m.secrets[name] = is
	}
}

// use notes which Secret an identity uses, the empty name for none. What no identity uses any more is forgotten.
func (m *memory) use(identity, name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entries[identity]
	if entry.secret == name {
		return
	}
	m.unused(identity, entry.secret)
	if entry.secret = name; name != (types.NamespacedName{}) {
		is, ok := m.secrets[name]
		if !ok {
			is.users = map[types.NamespacedName]bool{}
			m.secrets[name] = is
		}
		is.users[identity] = true
	}
	m.entries[identity] = entry
}

// unused notes that an identity does not use a Secret any more.
func (m *memory) unused(identity, name types.NamespacedName) {
	is := m.secrets[name]
	if delete(is.users, identity); len(is.users) == 0 {
		delete(m.secrets, name)
	}
}

// noteChecks replaces what OCI said of the clusters of an identity, and returns those of which it says something else
// now.
func (m *memory) noteChecks(identity types.NamespacedName, checks map[userID]finding) []userID {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry, ok := m.entries[identity]
	if !ok {
		return nil
	}
	var changed []userID
	for user, found := range checks {
		if before, ok := entry.checks[user]; ok && before != found || !ok && found.result != pending {
			changed = append(changed, user)
		}
	}
	entry.checks = checks
	m.entries[identity] = entry
	return changed
}

// notePublished replaces what was last published, and returns the clusters whose verdict is another now, those that
// have gone among them. Nil verdicts are not known and stay what they were.
func (m *memory) notePublished(identity types.NamespacedName, now state, users map[userID]oci.Verdict) []userID {
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
		m.unused(identity, entry.secret)
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
