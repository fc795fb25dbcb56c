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
	token      string  // what the agent authenticated with
	managed    bool    // it is the agent that Rancher applied itself, which opens the second tunnel as well
	tunnel     *tunnel // nil if the agent is played
}

// tunnel is what a session of a real agent rests on: the connections of its Pods. During a rolling update there are
// two, and the session stays.
type tunnel struct {
	connections int
	managed     int           // of these, those of Pods that Rancher applied itself
	ended       chan struct{} // closed when the session is over, whoever ended it
}

// add counts connections of Pods.
func (t *tunnel) add(managed bool, n int) {
	t.connections += n
	if managed {
		t.managed += n
	}
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

// open records a new session. Others of its agent or of its cluster end.
func (s *sessions) open(in session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(in)
}

func (s *sessions) replace(in session) {
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

// renew notes what is new of a session that stays up, as when the agent's pod is rolled.
func (s *sessions) renew(workload, credential, token string, managed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current, ok := s.byWorkload[workload]; ok {
		updated := *current
		updated.credential, updated.token, updated.managed = credential, token, managed
		s.byWorkload[workload], s.byCluster[current.cluster] = &updated, &updated
	}
}

// join adds a connection of a real agent to its session, or opens one, which ends that of another cluster or agent.
// The caller has to leave once.
func (s *sessions) join(in session) *tunnel {
	s.mu.Lock()
	defer s.mu.Unlock()
	current, ok := s.byWorkload[in.workload]
	if ok && current.cluster == in.cluster && current.tunnel != nil {
		updated := *current
		updated.credential, updated.token = in.credential, in.token
		updated.tunnel.add(in.managed, 1)
		updated.managed = updated.tunnel.managed > 0
		s.byWorkload[in.workload], s.byCluster[in.cluster] = &updated, &updated
		return updated.tunnel
	}
	in.tunnel = &tunnel{ended: make(chan struct{})}
	in.tunnel.add(in.managed, 1)
	s.replace(in)
	return in.tunnel
}

// leave takes a connection away. It says whether the session changed with it, and whether that was its end.
func (s *sessions) leave(workload string, t *tunnel, managed bool) (changed, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.add(managed, -1)
	current, ok := s.byWorkload[workload]
	switch {
	case !ok || current.tunnel != t:
		return false, false
	case t.connections == 0:
		s.remove(current)
		return true, true
	case current.managed == (t.managed > 0):
		return false, false
	}
	updated := *current
	updated.managed = !current.managed
	s.byWorkload[workload], s.byCluster[current.cluster] = &updated, &updated
	return true, false
}

func (s *sessions) remove(in *session) {
	if in.tunnel != nil {
		close(in.tunnel.ended)
	}
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
	for _, in := range s.byCluster {
		s.remove(in)
	}
}
