package rolekeeper

import (
	"sync"
	"time"
)

// losses has what is known of the rights in namespaces without a RoleBinding, by the name of the namespace. The zero value is ready to use.
type losses struct {
	mu sync.Mutex
	of map[string]loss
}

// A loss is what is known of rights whose RoleBinding is not there.
type loss struct {
	// sure is whether this process has let the RoleBinding go, in a namespace that stays.
	sure bool
	// since is when the RoleBinding went.
	since time.Time
}

func (l *losses) get(namespace string) (loss, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.of[namespace]
	return known, ok
}

// set notes a loss. One that is sure stays so.
func (l *losses) set(namespace string, found loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]loss{}
	}
	if !l.of[namespace].sure {
		l.of[namespace] = found
	}
}

// drop ends a loss that turned out to be none, unless there is another one by now.
func (l *losses) drop(namespace string, known loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[namespace] == known {
		delete(l.of, namespace)
	}
}

// forget ends what is known: there is a RoleBinding again.
func (l *losses) forget(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, namespace)
}
