package rancher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/randomtoken"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddWorkload registers a workload cluster under a name of the caller's choice and plays the
// agent there from now on, unless it is told that there is a real one. A cluster of the same name is replaced. The API
// server need not answer yet.
func (s *Standin) AddWorkload(name string, config *rest.Config, how ...Workload) error {
	for _, h := range how {
		if h != RealAgent && h != Ephemeral {
			return fmt.Errorf("unknown kind of workload cluster %q", h)
		}
	}
	if err := s.fleet.add(name, config, slices.Contains(how, RealAgent)); err != nil {
		return err
	}
	if slices.Contains(how, Ephemeral) {
		return nil
	}
	return s.keepWorkload(name, config, how)
}

// RemoveWorkload ends the session of the agent in a workload cluster and lets no other come up:
// to Rancher it is unreachable.
func (s *Standin) RemoveWorkload(name string) {
	s.fleet.remove(name)
	s.dropWorkload(name)
}

// HoldTokens makes Rancher leave new ClusterRegistrationTokens empty until it is called with false.
func (s *Standin) HoldTokens(ctx context.Context, hold bool) error {
	s.state.mu.Lock()
	s.state.holdTokens = hold
	s.state.mu.Unlock()
	if hold {
		return nil
	}
	crts := newList(tokenGVK)
	if err := s.api.List(ctx, crts); err != nil {
		return fmt.Errorf("listing registration tokens: %w", err)
	}
	for i := range crts.Items {
		s.crts.add(client.ObjectKeyFromObject(&crts.Items[i]), 0)
	}
	return nil
}

// HoldConnect keeps agents from getting a session, and those that have only registered from becoming connected, until
// it is called with false.
func (s *Standin) HoldConnect(hold bool) {
	s.state.mu.Lock()
	s.state.holdConnect = hold
	s.state.mu.Unlock()
	if !hold {
		s.fleet.wakeAll()
	}
}

// RequireAgentEnv has agents that are played reach Rancher only with the given environment variable, as where a proxy
// is the only way, until it is called with an empty name. Sessions stay.
func (s *Standin) RequireAgentEnv(name string) {
	s.state.mu.Lock()
	s.state.agentEnv = name
	s.state.mu.Unlock()
	s.fleet.wakeAll()
}

func (s *Standin) requiredAgentEnv() string {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.agentEnv
}

func (s *Standin) holdsTokens() bool {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.holdTokens
}

// refusesAgents says whether no new session can come up.
func (s *Standin) refusesAgents() bool {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.holdConnect || s.state.down
}

// Connected returns the name of the workload cluster whose agent is connected for the given v3
// Cluster. One that has only registered is not.
func (s *Standin) Connected(cluster string) (workload string, ok bool) {
	session, ok := s.sessions.ofCluster(cluster)
	if !ok || !session.managed {
		return "", false
	}
	return session.workload, true
}

// Reapplies returns how often Rancher has applied its agent by itself for the given v3 Cluster.
func (s *Standin) Reapplies(cluster string) int {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.state.reapplies[cluster]
}

func (s *Standin) countReapply(cluster string) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.reapplies[cluster]++
}

// SetServerURL changes setting server-url. As in Rancher, manifest URLs follow only when something
// else makes Rancher look at the registration token again.
func (s *Standin) SetServerURL(ctx context.Context, url string) error {
	return s.setSetting(ctx, settingServerURL, url)
}

// SetAgentTLSMode changes setting agent-tls-mode to "strict" or "system-store".
func (s *Standin) SetAgentTLSMode(ctx context.Context, mode string) error {
	return s.setSetting(ctx, settingTLSMode, mode)
}

// RotateCA replaces Rancher's CA and certificate, and setting cacerts. Connected agents stay
// connected; one that was installed with the old CA cannot connect anew.
func (s *Standin) RotateCA(ctx context.Context) error {
	if err := s.server.rotate(ctx); err != nil {
		return err
	}
	return s.setSetting(ctx, settingCACerts, string(s.server.caCert()))
}

// RotateToken gives every ClusterRegistrationToken of the cluster a new token, as at the end of its time to live.
// The old ones stay valid for Timings.TokenGrace; URLs do not change. It is an error in mode
// TokenPlain, in which Rancher does not rotate.
func (s *Standin) RotateToken(ctx context.Context, cluster string) error {
	if s.opts.TokenMode != TokenPlaceholder {
		return errors.New("tokens rotate in placeholder mode only")
	}
	crts := newList(tokenGVK)
	if err := s.api.List(ctx, crts, client.InNamespace(cluster)); err != nil {
		return fmt.Errorf("listing registration tokens of %s: %w", cluster, err)
	}
	for i := range crts.Items {
		if err := s.rotate(ctx, &crts.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Standin) rotate(ctx context.Context, crt *unstructured.Unstructured) error {
	key := client.ObjectKeyFromObject(crt)
	until := time.Now().Add(s.opts.Timings.TokenGrace).UTC()
	pair := tokenPair{graceUntil: until}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret := &corev1.Secret{}
		if err := s.api.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: tokenSecretHead + key.Name}, secret); err != nil {
			return err
		}
		token, err := randomtoken.Generate()
		if err != nil {
			return err
		}
		pair.previous, pair.current = string(secret.Data[tokenKey]), token
		secret.Data[tokenKey] = []byte(pair.current)
		secret.Data[previousTokenKey] = []byte(pair.previous)
		secret.Data[graceKey] = []byte(until.Format(time.RFC3339))
		secret.Data[expiresKey] = []byte(time.Now().Add(tokenTTL).UTC().Format(time.RFC3339))
		if err := s.api.Update(ctx, secret); err != nil {
			return err
		}
		pair.version = secret.ResourceVersion
		return nil
	})
	if err != nil {
		return fmt.Errorf("rotating the token of %s: %w", key, err)
	}
	s.tokens.set(key, text(crt, "spec", "clusterName"), pair)
	s.crts.add(key, 0)
	s.clusters.add(client.ObjectKey{Name: key.Namespace}, 0)
	return nil
}

// SetFault makes downloads of the import manifest fail in the given way until ClearFaults, or
// until another fault is set for the same cluster.
func (s *Standin) SetFault(f Fault) { s.faults.set(f) }

// ClearFaults ends all faults, also requests that hang.
func (s *Standin) ClearFaults() { s.faults.clear() }

// ImportRequests returns every download of a manifest that was attempted, oldest first.
func (s *Standin) ImportRequests() []Request { return s.server.log.all() }
