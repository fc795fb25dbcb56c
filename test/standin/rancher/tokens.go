package rancher

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// tokenIndex knows every valid token, as Rancher's cache index does.
type tokenIndex struct {
	mu      sync.RWMutex
	byToken map[string]tokenEntry
	byCRT   map[types.NamespacedName]tokenPair
}

// tokenEntry says whose a token is.
type tokenEntry struct {
	crt         types.NamespacedName
	clusterName string    // spec.clusterName of the ClusterRegistrationToken
	until       time.Time // end of the grace period; zero for a current token
}

// tokenPair are the valid tokens of one ClusterRegistrationToken.
type tokenPair struct {
	current, previous string
	graceUntil        time.Time
	version           string // resourceVersion of the Secret that holds them
}

func newTokenIndex() *tokenIndex {
	return &tokenIndex{
		byToken: map[string]tokenEntry{},
		byCRT:   map[types.NamespacedName]tokenPair{},
	}
}

// set makes exactly these the tokens of the ClusterRegistrationToken.
func (i *tokenIndex) set(crt types.NamespacedName, clusterName string, pair tokenPair) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remove(crt)
	if pair.current == "" {
		return
	}
	i.byCRT[crt] = pair
	if pair.previous != "" {
		i.byToken[pair.previous] = tokenEntry{crt: crt, clusterName: clusterName, until: pair.graceUntil}
	}
	i.byToken[pair.current] = tokenEntry{crt: crt, clusterName: clusterName}
}

// forget invalidates the tokens of the ClusterRegistrationToken.
func (i *tokenIndex) forget(crt types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remove(crt)
}

func (i *tokenIndex) remove(crt types.NamespacedName) {
	pair := i.byCRT[crt]
	delete(i.byToken, pair.current)
	delete(i.byToken, pair.previous)
	delete(i.byCRT, crt)
}

// cluster returns the id of the cluster that the token registers. With strict, that is the
// namespace of the token; else it is the cluster that the ClusterRegistrationToken names.
func (i *tokenIndex) cluster(token string, strict bool) (string, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	entry, ok := i.byToken[token]
	if !ok || token == "" || (!entry.until.IsZero() && time.Now().After(entry.until)) {
		return "", false
	}
	if strict {
		return entry.crt.Namespace, true
	}
	return entry.clusterName, true
}

// current returns the current token of the ClusterRegistrationToken.
func (i *tokenIndex) current(crt types.NamespacedName) string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byCRT[crt].current
}

// version returns the resourceVersion of the Secret that the tokens were read from.
func (i *tokenIndex) version(crt types.NamespacedName) string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byCRT[crt].version
}
