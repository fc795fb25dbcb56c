package rancher

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// agentFeatures is CATTLE_FEATURES of an agent that Rancher applied itself. The downloaded manifest has none, and what
// it starts only registers.
const agentFeatures = "fleet=false,managed-system-upgrade-controller=false," + agentFeature + "=true,multi-cluster-management=false," +
	"provisioningprebootstrap=false,provisioningv2=false,rke2=false,turtles=false,ui-sql-cache=true"

// deployAgent has Rancher apply its agent through the tunnel with which an agent registered: with a token of Rancher's
// own system account and with the features that make the agent connect. It is applied again only when Rancher does not
// believe it deployed, when image, features, environment or token changed, or when an annotation asks for it: that it
// was deleted meanwhile and installed anew from the downloaded manifest, Rancher does not notice.
func (r *reactor) deployAgent(ctx context.Context, cluster *unstructured.Unstructured, s session) (time.Duration, error) {
	name := cluster.GetName()
	if wait, err := r.ensureToken(ctx, name, crtSystem); err != nil || wait > 0 {
		return wait, err
	}
	token := r.tokens.current(client.ObjectKey{Namespace: name, Name: crtSystem})
	if token == "" {
		return 0, nil // its filling is an event
	}
	data, err := r.manifestData(ctx, r.client, token, name)
	if err != nil {
		return 0, err
	}
	data.Namespace, data.Features = name, agentFeatures
	for _, field := range []string{"desiredAgentImage", "agentImageOverride"} {
		if image := text(cluster, "spec", field); image != "" && image != "fixed" {
			data.Image = image
		}
	}
	if !mustDeploy(cluster, data) {
		r.delays.forget(clusterOwner(name), stepDeploy)
		return 0, nil
	}
	if wait := r.delays.remaining(clusterOwner(name), stepDeploy, r.opts.Timings.Deploy); wait > 0 {
		return wait, nil
	}
	w, ok := r.fleet.get(s.workload)
	if !ok {
		return 0, nil
	}
	if err := r.writeStatus(ctx, cluster, condition("SystemAccountCreated", statusTrue, "", "")); err != nil {
		return 0, err
	}
	if err := w.applyAgent(ctx, data); err != nil {
		return 0, fmt.Errorf("applying the agent of cluster %s: %w", name, err)
	}
	r.countReapply(name)
	r.log.Info("Rancher applied its agent", "cluster", name, "workload", s.workload)
	return 0, r.noteDeployed(ctx, cluster, data)
}

// mustDeploy says whether Rancher applies its agent.
func mustDeploy(cluster *unstructured.Unstructured, data manifestData) bool {
	annotations := cluster.GetAnnotations()
	if annotations[annotationForceDeploy] == "true" || annotations[annotationTokenHash] != data.tokenHash() ||
		conditionStatus(cluster, "AgentDeployed") != statusTrue {
		return true
	}
	applied := cluster.DeepCopy()
	noteApplied(cluster, data)(applied)
	return !equality.Semantic.DeepEqual(applied.Object, cluster.Object)
}

const appliedCustomizationField = "appliedClusterAgentDeploymentCustomization"

// noteApplied is the change that says what was applied, apart from the token.
func noteApplied(cluster *unstructured.Unstructured, data manifestData) mutate {
	features := map[string]any{}
	for entry := range strings.SplitSeq(data.Features, ",") {
		feature, value, _ := strings.Cut(entry, "=")
		features[feature] = value == "true"
	}
	env, _, _ := unstructured.NestedSlice(cluster.Object, "spec", "agentEnvVars")
	custom, _, _ := unstructured.NestedMap(cluster.Object, "spec", customizationField)
	return func(u *unstructured.Unstructured) {
		set(data.Image, "status", "agentImage")(u)
		set(features, "status", "agentFeatures")(u)
		if len(env) > 0 || hasField(u, "status", "appliedAgentEnvVars") {
			set(append([]any{}, env...), "status", "appliedAgentEnvVars")(u)
		}
		unstructured.RemoveNestedField(u.Object, "status", appliedCustomizationField)
		if custom != nil {
			set(custom, "status", appliedCustomizationField)(u)
		}
	}
}

// noteDeployed reports the deployment. A lost race must not apply the agent once more.
func (r *reactor) noteDeployed(ctx context.Context, cluster *unstructured.Unstructured, data manifestData) error {
	changes := []mutate{annotate(annotationTokenHash, data.tokenHash())}
	if cluster.GetAnnotations()[annotationForceDeploy] == "true" {
		changes = append(changes, annotate(annotationForceDeploy, "false"))
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := newObject(clusterGVK)
		if err := r.api.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
			return err
		}
		if err := r.sequence(ctx, live, true, noteApplied(cluster, data), condition("AgentDeployed", statusTrue, "", "")); err != nil {
			return err
		}
		return r.sequence(ctx, live, false, changes...)
	})
	if err != nil {
		return fmt.Errorf("noting that the agent of cluster %s was applied: %w", cluster.GetName(), err)
	}
	return nil
}

// tokenHash is how Rancher remembers the token that it applied last.
func (d manifestData) tokenHash() string {
	sum := sha256.Sum256([]byte(d.Token))
	return hex.EncodeToString(sum[:])[:10]
}

// applyAgent writes new credentials and points the Deployment at them, as kubectl apply of the
// manifest does. The old credentials stay: the agent removes them an hour later.
func (w *workload) applyAgent(ctx context.Context, data manifestData) error {
	as := metav1.CreateOptions{FieldManager: kubectlManager}
	_, err := w.client.CoreV1().Secrets(agentNamespace).Create(ctx, credentials(data), as)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the agent's credentials: %w", err)
	}
	// The Deployment of a manifest gets an annotation first, for which it is rolled a time of its own.
	err = w.updateAgent(ctx, rancherManager, func(deployment *appsv1.Deployment) bool {
		template := &deployment.Spec.Template
		if template.Annotations[annotationUpgraded] != "" {
			return false
		}
		if template.Annotations == nil {
			template.Annotations = map[string]string{}
		}
		template.Annotations[annotationUpgraded] = "true"
		return true
	})
	if err != nil {
		return err
	}
	return w.updateAgent(ctx, kubectlManager, func(deployment *appsv1.Deployment) bool {
		point(deployment, data)
		return true
	})
}

// updateAgent changes the Deployment, unless change says that there is nothing to do.
func (w *workload) updateAgent(ctx context.Context, manager string, change func(*appsv1.Deployment) bool) error {
	deployments := w.client.AppsV1().Deployments(agentNamespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deployment, err := deployments.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil || !change(deployment) {
			return err
		}
		_, err = deployments.Update(ctx, deployment, metav1.UpdateOptions{FieldManager: manager})
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
	spec.Tolerations = slices.Concat(defaultTolerations(), data.Custom.Tolerations)
	for i := range spec.Containers {
		container := &spec.Containers[i]
		container.Image = data.Image
		container.Resources = corev1.ResourceRequirements{}
		if data.Custom.Resources != nil {
			container.Resources = *data.Custom.Resources
		}
		setEnv(container, "CATTLE_SERVER", data.Server)
		setEnv(container, "CATTLE_CA_CHECKSUM", data.Checksum())
		setEnv(container, "CATTLE_CREDENTIAL_NAME", data.SecretName())
		setEnv(container, featuresEnv, data.Features)
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

// defaultTolerations are those of the manifest.
func defaultTolerations() []corev1.Toleration {
	return []corev1.Toleration{
		{Key: "node-role.kubernetes.io/controlplane", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
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
