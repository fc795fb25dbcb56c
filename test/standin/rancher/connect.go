package rancher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
)

const (
	// heartbeat is how often a connected agent hears of Rancher.
	heartbeat = 2 * time.Second
	// paramsLimit is the size of parameters above which they are no agent's.
	paramsLimit = 256 << 10
	// identifyTimeout bounds the question to a workload cluster who it is.
	identifyTimeout = time.Minute
)

// refusal is why an agent may not connect.
type refusal struct {
	status int
	reason string
}

// serveConnect is where real agents connect. The answer, without an end, is the session: a real
// Rancher opens a websocket here.
func (i *importServer) serveConnect(w http.ResponseWriter, r *http.Request) {
	s := i.standin
	in, no, err := s.admitConnection(r)
	if err != nil {
		s.opts.Logger.V(1).Info("agent failed to connect", "cause", err.Error())
		no = &refusal{http.StatusInternalServerError, "Rancher failed to look at it"}
	}
	if no != nil {
		s.opts.Logger.V(1).Info("agent was refused", "reason", no.reason)
		plain(w, no.status, no.reason+"\n")
		return
	}
	t := s.sessions.join(in)
	defer func() {
		changed, ended := s.sessions.leave(in.workload, t, in.managed)
		if ended {
			s.opts.Logger.Info("agent disconnected", "cluster", in.cluster, "workload", in.workload)
		}
		if changed {
			s.clusters.add(client.ObjectKey{Name: in.cluster}, 0)
		}
	}()
	// What was checked before the session existed did not end it.
	if _, registered := s.fleet.get(in.workload); !registered || s.isDown() || s.ctx.Err() != nil {
		plain(w, http.StatusServiceUnavailable, "Rancher or the workload cluster went away meanwhile\n")
		return
	}
	s.opts.Logger.Info("agent opened a connection", "cluster", in.cluster, "workload", in.workload)
	s.clusters.add(client.ObjectKey{Name: in.cluster}, 0)
	beat(w, r, t.ended)
}

// beat keeps a connection open until the agent goes away or the session ends.
func beat(w http.ResponseWriter, r *http.Request, ended <-chan struct{}) {
	w.Header().Set("Content-Type", "text/plain")
	control := http.NewResponseController(w)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		if _, err := w.Write([]byte("\n")); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ended:
			return
		case <-ticker.C:
		}
	}
}

// admitConnection decides about a real agent as admitAgent does about one that is played. That the CA is the right one
// the agent has found out by itself.
func (s *Standin) admitConnection(r *http.Request) (session, *refusal, error) {
	none := session{}
	ctx := r.Context()
	if s.refusesAgents() {
		return none, &refusal{http.StatusServiceUnavailable, "Rancher takes no agents at the moment"}, nil
	}
	token, params, no := readConnection(r)
	if no != nil {
		return none, no, nil
	}
	server, err := setting(ctx, s.api, settingServerURL)
	if err != nil {
		return none, nil, err
	}
	if hostOf(server) != r.Host {
		return none, &refusal{http.StatusMisdirectedRequest, "its credentials name another server"}, nil
	}
	cluster, ok := s.tokens.cluster(token, s.opts.StrictImport)
	if !ok {
		return none, &refusal{http.StatusUnauthorized, "its token is not valid"}, nil
	}
	if err := s.api.Get(ctx, client.ObjectKey{Name: cluster}, newObject(clusterGVK)); err != nil {
		if apierrors.IsNotFound(err) {
			return none, &refusal{http.StatusNotFound, "its cluster is not known"}, nil
		}
		return none, nil, fmt.Errorf("reading cluster %s: %w", cluster, err)
	}
	w, err := s.fleet.identify(ctx, params.SystemUID)
	if err != nil {
		s.opts.Logger.V(1).Info("a workload cluster does not say who it is", "cause", err.Error())
	}
	if w == nil {
		return none, &refusal{http.StatusServiceUnavailable, "no workload cluster with its identity is reachable"}, nil
	}
	return session{
		cluster:    cluster,
		workload:   w.name,
		credential: params.Credential,
		token:      token,
		address:    params.Cluster.Address,
		caCert:     params.Cluster.CACert,
		version:    params.Version,
		nodes:      params.Nodes,
		managed:    manages(params.Features),
	}, nil, nil
}

// hostOf returns host and port of a URL, "" if there is none.
func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// readConnection reads what an agent presents.
func readConnection(r *http.Request) (string, agent.Params, *refusal) {
	token := r.Header.Get(agent.TokenHeader)
	if token == "" {
		token, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	if token == "" {
		return "", agent.Params{}, &refusal{http.StatusUnauthorized, "it has no token"}
	}
	value := r.Header.Get(agent.ParamsHeader)
	if len(value) > paramsLimit {
		return "", agent.Params{}, &refusal{http.StatusRequestHeaderFieldsTooLarge, "its parameters are too large"}
	}
	params, err := agent.DecodeParams(value)
	if err != nil {
		return "", agent.Params{}, &refusal{http.StatusBadRequest, err.Error()}
	}
	if params.SystemUID == "" || params.Cluster.Address == "" {
		return "", agent.Params{}, &refusal{http.StatusBadRequest, "it does not say which cluster is its own"}
	}
	return token, params, nil
}

// identify returns the workload cluster with a real agent whose namespace kube-system has the UID, nil if none is
// registered. The error is that of clusters that did not answer.
func (f *fleet) identify(ctx context.Context, uid string) (*workload, error) {
	f.mu.RLock()
	var candidates []*workload
	for _, w := range f.workloads {
		if w.realAgent {
			candidates = append(candidates, w)
		}
	}
	f.mu.RUnlock()
	var errs []error
	for _, w := range candidates {
		identity, err := w.identify(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if identity == uid {
			return w, nil
		}
	}
	return nil, errors.Join(errs...)
}

// identify asks a workload cluster, once, for the UID of its namespace kube-system.
func (w *workload) identify(ctx context.Context) (string, error) {
	w.mu.Lock()
	known := w.identity
	w.mu.Unlock()
	if known != "" {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	ns, err := w.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("asking workload cluster %s for its identity: %w", w.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.identity = string(ns.UID)
	return w.identity, nil
}
