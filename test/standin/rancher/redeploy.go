package rancher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentFeatures is CATTLE_FEATURES of an agent that Rancher applied itself.
const agentFeatures = "embedded-cluster-api=false,fleet=false,managed-system-upgrade-controller=false,multi-cluster-management=false," +
	"multi-cluster-management-agent=true,provisioningv2=false,rke2=false"

// redeploy applies the agent with the token of Rancher's own system account, when that was
// not done yet, when the token changed, or when an annotation forces it. The manifest then
// differs from the downloaded one, so an importer must not insist on what it applied.
func (r *reactor) redeploy(ctx context.Context, cluster *unstructured.Unstructured, s session) (time.Duration, error) {
	name := cluster.GetName()
	step := stepSession + strconv.Itoa(s.id) + "/redeploy"
	if wait := r.delays.remaining(clusterOwner(name), step, r.opts.Timings.Redeploy); wait > 0 {
		return wait, nil
	}
	if wait, err := r.ensureToken(ctx, name, crtSystem); err != nil || wait > 0 {
		return wait, err
	}
	token := r.tokens.current(client.ObjectKey{Namespace: name, Name: crtSystem})
	if token == "" {
		return 0, nil // its filling is an event
	}
	sum := sha256.Sum256([]byte(token))
	hash := hex.EncodeToString(sum[:])
	forced := cluster.GetAnnotations()[annotationForceDeploy] == "true"
	if !forced && cluster.GetAnnotations()[annotationTokenHash] == hash {
		return 0, nil
	}
	w, ok := r.fleet.get(s.workload)
	if !ok {
		return 0, nil
	}
	data, err := r.manifestData(ctx, token, name)
	if err != nil {
		return 0, err
	}
	data.Namespace, data.Features = name, agentFeatures
	for _, field := range []string{"desiredAgentImage", "agentImageOverride"} {
		if image := text(cluster, "spec", field); image != "" && image != "fixed" {
			data.Image = image
		}
	}
	if err := w.applyAgent(ctx, data); err != nil {
		return 0, fmt.Errorf("applying the agent of cluster %s again: %w", name, err)
	}
	r.countReapply(name)
	r.log.Info("Rancher applied its agent again", "cluster", name, "workload", s.workload)
	changes := []mutate{annotate(annotationTokenHash, hash)}
	if forced {
		changes = append(changes, annotate(annotationForceDeploy, "false"))
	}
	// A lost race must not apply the agent once more.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := newObject(clusterGVK)
		if err := r.api.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
			return err
		}
		return r.sequence(ctx, live, false, changes...)
	})
	if err != nil {
		return 0, fmt.Errorf("noting that the agent of cluster %s was applied: %w", name, err)
	}
	return 0, nil
}

// applyAgent writes new credentials and points the Deployment at them, as kubectl apply of the
// manifest does. The old credentials stay: the agent removes them an hour later.
func (w *workload) applyAgent(ctx context.Context, data manifestData) error {
	as := metav1.CreateOptions{FieldManager: kubectlManager}
	_, err := w.client.CoreV1().Secrets(agentNamespace).Create(ctx, credentials(data), as)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the agent's credentials: %w", err)
	}
	deployments := w.client.AppsV1().Deployments(agentNamespace)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment, err := deployments.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		point(deployment, data)
		_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{FieldManager: kubectlManager})
		return err
	})
	if err != nil {
		return fmt.Errorf("updating the agent's Deployment: %w", err)
	}
	return nil
}

// point changes the Deployment to what the manifest data says.
func point(deployment *appsv1.Deployment, data manifestData) {
	spec := &deployment.Spec.Template.Spec
	for i := range spec.Containers {
		container := &spec.Containers[i]
		container.Image = data.Image
		setEnv(container, "CATTLE_SERVER", data.Server)
		setEnv(container, "CATTLE_CA_CHECKSUM", data.Checksum())
		setEnv(container, "CATTLE_CREDENTIAL_NAME", data.SecretName())
		setEnv(container, "CATTLE_FEATURES", data.Features)
		setEnv(container, "STRICT_VERIFY", strconv.FormatBool(data.Strict))
		for _, env := range data.Env {
			setEnv(container, env.Name, env.Value)
		}
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].Secret != nil && spec.Volumes[i].Name == "cattle-credentials" {
			spec.Volumes[i].Secret.SecretName = data.SecretName()
		}
	}
}

func setEnv(container *corev1.Container, name, value string) {
	for i := range container.Env {
		if container.Env[i].Name == name {
			container.Env[i].Value = value
			return
		}
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
}
