package rancher

import (
	"sync"
)

// session is the tunnel between an agent and Rancher.
type session struct {
	id         int    // differs between two sessions of one agent
	cluster    string // name of the v3 Cluster
	workload   string // name under which the workload cluster is registered
	credential string // name of the Secret with the agent's credentials
	address    string // host and port of the workload's API server
	caCert     string // base64 PEM of that API server's CA
	version    map[string]any
	nodes      int64
	token      string // what the agent authenticated with
}

// sessions are the tunnels that are up. One agent has at most one, and so has one cluster.
type sessions struct {
	mu         sync.RWMutex
	next       int
	byCluster  map[string]*session
	byWorkload map[string]*session
}

func newSessions() *sessions {
	return &sessions{byCluster: map[string]*session{}, byWorkload: map[string]*session{}}
}

// open records a new session and returns the workloads that lose theirs to it.
func (s *sessions) open(in session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.byWorkload[in.workload]; ok {
		s.remove(old)
	}
	if old, ok := s.byCluster[in.cluster]; ok {
		s.remove(old)
	}
	s.next++
	in.id = s.next
	s.byCluster[in.cluster], s.byWorkload[in.workload] = &in, &in
}

// renew notes new credentials of a session that stays up, as when the agent's pod is rolled.
func (s *sessions) renew(workload, credential, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.byWorkload[workload]; ok {
		updated := *current
		updated.credential, updated.token = credential, token
		s.byWorkload[workload], s.byCluster[current.cluster] = &updated, &updated
	}
}

func (s *sessions) remove(in *session) {
	delete(s.byCluster, in.cluster)
	delete(s.byWorkload, in.workload)
}

func (s *sessions) ofCluster(cluster string) (session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if in, ok := s.byCluster[cluster]; ok {
		return *in, true
	}
	return session{}, false
}

func (s *sessions) ofWorkload(workload string) (session, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if in, ok := s.byWorkload[workload]; ok {
		return *in, true
	}
	return session{}, false
}

func (s *sessions) dropCluster(cluster string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.byCluster[cluster]
	if !ok {
		return session{}, false
	}
	s.remove(in)
	return *in, true
}

func (s *sessions) dropWorkload(workload string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.byWorkload[workload]
	if !ok {
		return session{}, false
	}
	s.remove(in)
	return *in, true
}

func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byCluster)
	clear(s.byWorkload)
}
