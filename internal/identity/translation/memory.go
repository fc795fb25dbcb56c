package translation

import (
	"sync"

	"github.com/archelon-io/archelon/internal/identity"
)

// known is what is remembered of one credential. It has nothing of a key.
type known struct {
	credential, secret identity.Version
	content            Content
	// reason is what became of it, empty if it is not for OCI.
	reason string
}

// memory is all that the controller knows and cannot read again at no cost. A new process begins with none of it, and
// finds it again.
type memory struct {
	mu      sync.Mutex
	entries map[string]known
}

func newMemory() *memory { return &memory{entries: map[string]known{}} }

// content returns what was found in these states of a credential and of its Secret.
func (m *memory) content(name string, credential, secret identity.Version) (Content, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.entries[name]
	return found.content, ok && found.credential == credential && found.secret == secret
}

// noteContent replaces it.
func (m *memory) noteContent(name string, credential, secret identity.Version, found Content) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[name] = known{
		credential: credential, secret: secret, content: found, reason: m.entries[name].reason,
	}
}

// noteReason says what became of a credential. What is gone is forgotten.
func (m *memory) noteReason(name, reason string, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if entry := m.entries[name]; !gone || reason != "" {
		entry.reason = reason
		m.entries[name] = entry
		return
	}
	delete(m.entries, name)
}

// tally counts credentials by what became of them.
func (m *memory) tally() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, entry := range m.entries {
		if entry.reason != "" {
			counts[entry.reason]++
		}
	}
	return counts
}
