package rancher

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Steps of waits that belong to an agent's session, to its absence, and to an agent that Rancher applies.
const (
	stepSession = "session/"
	stepAbsence = "absence/"
	stepDeploy  = "deploy"
	stepMigrate = "migrate"
)

// conditionMigrated has to be True before the agent of a cluster registers: it is never connected else.
const conditionMigrated = "ServiceAccountSecretsMigrated"

// migrateSecrets says that no secret is left in the status of a cluster.
func (r *reactor) migrateSecrets(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	if conditionStatus(cluster, conditionMigrated) == statusTrue || text(cluster, "status", "driver") != "" {
		return 0, nil
	}
	if wait := r.delays.remaining(clusterOwner(cluster.GetName()), stepMigrate, r.opts.Timings.Migrate); wait > 0 {
		return wait, nil
	}
	return 0, r.writeStatus(ctx, cluster, condition(conditionMigrated, statusTrue, "", ""))
}

// followAgent reports the agent's session in the status of the cluster, step by step. An agent that only registers has
// Rancher apply it, and it is connected once it comes back as what Rancher applied.
func (r *reactor) followAgent(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	owner := clusterOwner(cluster.GetName())
	session, ok := r.sessions.ofCluster(cluster.GetName())
	if !ok {
		r.delays.forget(owner, stepSession)
		r.delays.forget(owner, stepDeploy)
		return r.reportAbsence(ctx, cluster)
	}
	if err := r.reportContact(ctx, cluster, session); err != nil {
		return 0, err
	}
	if conditionStatus(cluster, conditionMigrated) != statusTrue {
		return 0, nil // Two controllers of Rancher write against each other from now on.
	}
	var reporting time.Duration
	var err error
	if session.managed {
		r.delays.forget(owner, stepAbsence)
		reporting, err = r.reportSession(ctx, cluster, session)
	} else {
		r.delays.forget(owner, stepSession)
		reporting, err = r.reportAbsence(ctx, cluster)
	}
	if err != nil {
		return 0, err
	}
	deploying, err := r.deployAgent(ctx, cluster, session)
	return soonest(reporting, deploying), err
}

// reportAbsence is the checker's view of a cluster whose agent is not connected, which includes one that has registered
// and is about to be.
func (r *reactor) reportAbsence(ctx context.Context, cluster *unstructured.Unstructured) (time.Duration, error) {
	connected, ready := conditionStatus(cluster, "Connected"), conditionStatus(cluster, "Ready")
	registered := conditionStatus(cluster, "Provisioned") == statusTrue
	if connected == statusFalse && (!registered || ready == statusFalse) {
		return 0, nil
	}
	step, patience := stepAbsence+"connected", r.opts.Timings.Connect
	switch {
	case connected == statusTrue:
		patience = r.opts.Timings.Disconnect
	case connected == statusFalse && ready == "":
		step = stepAbsence + "ready"
	case connected == statusFalse:
		patience = 0
	}
	if wait := r.delays.remaining(clusterOwner(cluster.GetName()), step, patience); wait > 0 {
		return wait, nil
	}
	if connected != statusFalse {
		r.log.Info("no agent is connected", "cluster", cluster.GetName())
	}
	changes := []mutate{condition("Connected", statusFalse, "", "")}
	if registered {
		changes = append(changes, disconnected)
	}
	return 0, r.sequence(ctx, cluster, true, changes...)
}

// disconnected is what Ready says of a registered cluster without a connected agent, also before the first connection.
func disconnected(cluster *unstructured.Unstructured) {
	condition("Ready", statusFalse, "Disconnected", "Cluster agent is not connected")(cluster)
}

// reportSession plays what follows the tunnel of an agent that Rancher applied; on later ones most writes change
// nothing.
func (r *reactor) reportSession(ctx context.Context, cluster *unstructured.Unstructured, s session) (time.Duration, error) {
	for _, stage := range []struct {
		step string
		wait time.Duration
		run  func(context.Context, *unstructured.Unstructured, session) error
	}{
		{"connected", r.opts.Timings.Connect, r.reportConnected},
		{"ready", r.opts.Timings.Health, r.reportReady},
	} {
		step := stepSession + strconv.Itoa(s.id) + "/" + stage.step
		if wait := r.delays.remaining(clusterOwner(cluster.GetName()), step, stage.wait); wait > 0 {
			return wait, nil
		}
		if err := stage.run(ctx, cluster, s); err != nil {
			return 0, err
		}
	}
	return 0, nil
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
	now := time.Now().UTC().Format(time.RFC3339)
	if err := r.sequence(ctx, cluster, false,
		annotateNew(annotationDriverUpdate, "updating/"+now),
		annotate(annotationDriverUpdate, "updated"),
		annotate(lifecyclePrefix+strings.TrimPrefix(finalizerProvision, finalizerPrefix), "true")); err != nil {
		return err
	}
	changes := []mutate{condition("Provisioned", statusTrue, "", ""), condition("Pending", statusTrue, "", "")}
	mode, err := setting(ctx, r.client, settingTLSMode)
	if err != nil {
		return err
	}
	if mode == tlsStrict {
		changes = append(changes, condition("AgentTlsStrictCheck", statusTrue, "", ""))
	}
	return r.sequence(ctx, cluster, true, changes...)
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
	var changes []mutate
	if conditionStatus(cluster, "Ready") == "" {
		changes = append(changes, disconnected) // the checker has looked before
	}
	return r.sequence(ctx, cluster, true, append(changes, condition("Connected", statusTrue, "", ""))...)
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
