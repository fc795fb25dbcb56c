package rancher

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
)

// facts are what an agent tells of its cluster.
type facts struct {
	version map[string]any
	nodes   int64
}

// workloadOwner is the key under which waits of a workload cluster are kept.
func workloadOwner(name string) string { return "workload/" + name }

// reconcile plays the agent and the clean-up Job of one workload cluster.
func (f *fleet) reconcile(ctx context.Context, w *workload) (time.Duration, error) {
	if w.realAgent {
		return 0, nil
	}
	if !w.synced() {
		return f.standin.opts.Timings.Poll, nil
	}
	cleaning, err := f.runCleanup(ctx, w)
	if err != nil {
		return 0, err
	}
	waiting, err := f.runAgent(ctx, w)
	return soonest(cleaning, waiting), err
}

// runAgent brings the agent's session up or down, whichever follows from its Deployment.
func (f *fleet) runAgent(ctx context.Context, w *workload) (time.Duration, error) {
	deployment := w.deployment()
	if !runs(deployment) {
		f.standin.delays.forget(workloadOwner(w.name), "start")
		f.disconnect(w.name, "its Deployment is gone")
		return 0, nil
	}
	name, managed := envValue(deployment, "CATTLE_CREDENTIAL_NAME"), manages(envValue(deployment, featuresEnv))
	current, connected := f.standin.sessions.ofWorkload(w.name)
	if connected && current.credential == name && current.managed == managed {
		return 0, nil // a running pod has mounted its credentials
	}
	retry := f.standin.opts.Timings.AgentRetry
	if f.standin.refusesAgents() {
		return retry, nil
	}
	secret := w.secret(name)
	if name == "" || secret == nil {
		w.refused(f, "the secret with its credentials is missing")
		return 0, nil // its creation is an event
	}
	if wait := f.standin.delays.remaining(workloadOwner(w.name), "start", f.standin.opts.Timings.AgentStart); wait > 0 {
		return wait, nil
	}
	token := string(secret.Data[tokenKey])
	cluster, reason, err := f.standin.admitAgent(ctx, deployment, string(secret.Data["url"]), token)
	if err != nil {
		return 0, err
	}
	if reason != "" {
		if connected && current.credential != name {
			f.disconnect(w.name, "its Pod has other credentials") // whoever put them there has ended the Pod that had the session
		}
		w.refused(f, reason)
		return retry, nil
	}
	if connected && current.cluster == cluster {
		f.standin.sessions.renew(w.name, name, token, managed) // a rolling update keeps a tunnel up
		f.standin.clusters.add(client.ObjectKey{Name: cluster}, 0)
		return 0, nil
	}
	return 0, f.connect(ctx, w, session{cluster: cluster, credential: name, token: token, managed: managed})
}

// manages says whether an agent with these features opens, beside the tunnel with which it registers, the one that
// makes its cluster connected.
func manages(features string) bool {
	return slices.Contains(strings.Split(features, ","), agentFeature+"=true")
}

// runs says whether the Deployment has a pod.
func runs(deployment *appsv1.Deployment) bool {
	return deployment != nil && deployment.DeletionTimestamp.IsZero() &&
		(deployment.Spec.Replicas == nil || *deployment.Spec.Replicas > 0)
}

func envValue(deployment *appsv1.Deployment, name string) string {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, env := range container.Env {
			if env.Name == name {
				return env.Value
			}
		}
	}
	return ""
}

// admitAgent decides as Rancher's server does, and before it the agent itself. It returns the v3 Cluster, or why the
// agent stays out.
func (s *Standin) admitAgent(ctx context.Context, deployment *appsv1.Deployment, server, token string) (cluster, refusal string, err error) {
	if name := s.requiredAgentEnv(); name != "" && envValue(deployment, name) == "" {
		return "", "without " + name + " it has no way to Rancher", nil
	}
	serverURL, err := setting(ctx, s.api, settingServerURL)
	if err != nil {
		return "", "", err
	}
	if server != serverURL {
		return "", "its credentials name another server", nil
	}
	cacerts, err := setting(ctx, s.api, settingCACerts)
	if err != nil {
		return "", "", err
	}
	if sum := envValue(deployment, "CATTLE_CA_CHECKSUM"); sum != "" && sum != agent.Checksum(cacerts) {
		return "", "it was installed with another CA", nil
	}
	cluster, ok := s.tokens.cluster(token, s.opts.StrictImport)
	if !ok {
		return "", "its token is not valid", nil
	}
	if err := s.api.Get(ctx, client.ObjectKey{Name: cluster}, newObject(clusterGVK)); err != nil {
		return "", "its cluster is not known", client.IgnoreNotFound(err)
	}
	return cluster, "", nil
}

// refused logs why an agent cannot connect, once per reason.
func (w *workload) refused(f *fleet, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lastSeen != reason {
		w.lastSeen = reason
		f.standin.opts.Logger.Info("agent cannot connect: "+reason, "workload", w.name)
	}
}

func (f *fleet) connect(ctx context.Context, w *workload, in session) error {
	known, err := w.learn(ctx)
	if err != nil {
		return err
	}
	in.workload, in.address = w.name, address(w.config)
	in.caCert = base64.StdEncoding.EncodeToString(w.config.CAData)
	in.version, in.nodes = known.version, known.nodes
	before, had := f.standin.sessions.ofWorkload(w.name)
	f.standin.sessions.open(in)
	if had && before.cluster != in.cluster {
		f.standin.clusters.add(client.ObjectKey{Name: before.cluster}, 0) // it has lost its agent
	}
	if registered, ok := f.get(w.name); !ok || registered != w || f.standin.isDown() {
		f.disconnect(w.name, "Rancher or its workload cluster went away meanwhile")
		return nil
	}
	w.mu.Lock()
	w.lastSeen = ""
	w.mu.Unlock()
	f.standin.opts.Logger.V(1).Info("agent opened its session", "cluster", in.cluster, "workload", w.name)
	f.standin.clusters.add(client.ObjectKey{Name: in.cluster}, 0)
	return nil
}

// address returns host and port of the API server.
func address(config *rest.Config) string {
	if parsed, err := url.Parse(config.Host); err == nil && parsed.Host != "" {
		return parsed.Host
	}
	return config.Host
}

// learn asks the workload cluster what its agent reports. There is no kubelet, so an empty
// cluster counts as one of one node.
func (w *workload) learn(ctx context.Context) (*facts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.facts != nil {
		return w.facts, nil
	}
	info, err := w.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking workload cluster %s for its version: %w", w.name, err)
	}
	version, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info)
	if err != nil {
		return nil, fmt.Errorf("converting the version of workload cluster %s: %w", w.name, err)
	}
	nodes := int64(1)
	if list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		nodes = max(nodes, int64(len(list.Items)))
	}
	w.facts = &facts{version: version, nodes: nodes}
	return w.facts, nil
}

// disconnect ends the session of a workload cluster's agent, if it has one.
func (f *fleet) disconnect(name, reason string) {
	if session, ok := f.standin.sessions.dropWorkload(name); ok {
		f.standin.opts.Logger.Info("agent disconnected: "+reason, "cluster", session.cluster, "workload", name)
		f.standin.clusters.add(client.ObjectKey{Name: session.cluster}, 0)
	}
}

// credentials returns the Secret of the agent for the given manifest.
func credentials(d manifestData) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: d.SecretName()},
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			"url":       []byte(d.Server),
			tokenKey:    []byte(d.Token),
			"namespace": []byte(d.Namespace),
		},
	}
}
