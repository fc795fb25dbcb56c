package rancher

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Steps of waits that belong to an agent's session or to its absence.
const (
	stepSession = "session/"
	stepAbsence = "absence/"
)

// followAgent reports the agent's session in the status of the cluster, step by step.
func (r *reactor) followAgent(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	session, ok := r.sessions.ofCluster(cluster.GetName())
	if !ok {
		r.delays.forget(clusterOwner(cluster.GetName()), stepSession)
		return r.reportAbsence(ctx, cluster)
	}
	r.delays.forget(clusterOwner(cluster.GetName()), stepAbsence)
	return r.reportSession(ctx, cluster, session)
}

// reportAbsence is the checker's view of a cluster without a session.
func (r *reactor) reportAbsence(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	connected := conditionStatus(cluster, "Connected")
	if connected == statusFalse && conditionStatus(cluster, "Ready") != statusTrue {
		return 0, nil
	}
	if connected != statusFalse {
		step, patience := stepAbsence+"connected", r.opts.Timings.Connect
		if connected == statusTrue {
			patience = r.opts.Timings.Disconnect
		}
		if wait := r.delays.remaining(clusterOwner(cluster.GetName()), step, patience); wait > 0 {
			return wait, nil
		}
		r.log.Info("no agent is connected", "cluster", cluster.GetName())
	}
	changes := []mutate{condition("Connected", statusFalse, "", "")}
	if conditionStatus(cluster, "Provisioned") == statusTrue {
		changes = append(changes, condition("Ready", statusFalse, "Disconnected", "Cluster agent is not connected"))
	}
	return 0, r.sequence(ctx, cluster, true, changes...)
}

// reportSession plays what follows a first contact; on later ones most writes change nothing.
func (r *reactor) reportSession(ctx context.Context, cluster *unstructured.Unstructured, s session) (time.Duration, error) {
	if err := r.reportContact(ctx, cluster, s); err != nil {
		return 0, err
	}
	for _, stage := range []struct {
		step string
		wait time.Duration
		run  func(context.Context, *unstructured.Unstructured, session) error
	}{
		{"connected", r.opts.Timings.Connect, r.reportConnected},
		{"ready", r.opts.Timings.Health, r.reportReady},
		{"deployed", r.opts.Timings.Deploy, r.reportDeployed},
	} {
		step := stepSession + strconv.Itoa(s.id) + "/" + stage.step
		if wait := r.delays.remaining(clusterOwner(cluster.GetName()), step, stage.wait); wait > 0 {
			return wait, nil
		}
		if err := stage.run(ctx, cluster, s); err != nil {
			return 0, err
		}
	}
	return r.redeploy(ctx, cluster, s)
}

// reportContact stores what the agent presented of itself.
func (r *reactor) reportContact(ctx context.Context, cluster *unstructured.Unstructured, s session) error {
	if text(cluster, "status", "driver") == "" {
		if err := r.writeStatus(ctx, cluster, set(driverImported, "status", "driver")); err != nil {
			return err
		}
	}
	if err := r.sequence(ctx, cluster, true,
		set("https://"+s.address, "status", "apiEndpoint"),
		set(s.caCert, "status", "caCert")); err != nil {
		return err
	}
	if err := r.ensureAccountSecret(ctx, cluster); err != nil {
		return err
	}
	if err := r.write(ctx, cluster, annotate(annotationDriverUpdate, "updated")); err != nil {
		return err
	}
	return r.sequence(ctx, cluster, true,
		condition("Provisioned", statusTrue, "", ""),
		condition("Pending", statusTrue, "", ""))
}

// ensureAccountSecret keeps the token of the agent's service account, here a made-up one.
func (r *reactor) ensureAccountSecret(ctx context.Context, cluster *unstructured.Unstructured) error {
	if text(cluster, "status", "serviceAccountTokenSecret") != "" {
		return nil
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    globalDataNamespace,
			GenerateName: "cluster-serviceaccounttoken-",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterGVK.GroupVersion().String(),
				Kind:       clusterGVK.Kind,
				Name:       cluster.GetName(),
				UID:        cluster.GetUID(),
			}},
		},
		StringData: map[string]string{"credential": "not-a-real-service-account-token"},
	}
	if err := r.api.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the secret of the agent's service account: %w", err)
	}
	return r.writeStatus(ctx, cluster, set(secret.Name, "status", "serviceAccountTokenSecret"))
}

func (r *reactor) reportConnected(ctx context.Context, cluster *unstructured.Unstructured, s session) error {
	if conditionStatus(cluster, "Connected") != statusTrue {
		r.log.Info("agent connected", "cluster", cluster.GetName(), "workload", s.workload)
	}
	mode, err := setting(ctx, r.client, settingTLSMode)
	if err != nil {
		return err
	}
	changes := []mutate{condition("Connected", statusTrue, "", "")}
	if mode == tlsStrict {
		changes = append(changes, condition("AgentTlsStrictCheck", statusTrue, "", ""))
	}
	return r.sequence(ctx, cluster, true, changes...)
}

func (r *reactor) reportReady(ctx context.Context, cluster *unstructured.Unstructured, s session) error {
	if conditionStatus(cluster, "Ready") != statusTrue {
		r.log.Info("cluster is ready", "cluster", cluster.GetName())
	}
	return r.sequence(ctx, cluster, true,
		condition("Ready", statusTrue, "", ""),
		condition("Waiting", statusTrue, "", ""),
		set(s.version, "status", "version"),
		set(s.nodes, "status", "nodeCount"))
}

func (r *reactor) reportDeployed(ctx context.Context, cluster *unstructured.Unstructured, _ session) error {
	return r.sequence(ctx, cluster, true,
		condition("SystemAccountCreated", statusTrue, "", ""),
		condition("AgentDeployed", statusTrue, "", ""))
}
