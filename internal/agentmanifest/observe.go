package agentmanifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/rancher"
)

// Observation is all that a run has read, and what came of what it did.
type Observation struct {
	// Cluster is nil if there is none.
	Cluster *clusterv1.Cluster
	// Ours: this instance imports it, or no instance does.
	Ours bool
	// Import and Before are the conditions RancherImported and AgentManifest that it has, nil for none.
	Import, Before *metav1.Condition
	// Management is its v3 Rancher cluster, nil if there is none, or more than one.
	Management *managementv3.Cluster
	// Input digests what the manifest is made from. It is empty if Problem says why that cannot be read.
	Input string
	// Settings are those with which the agent is installed.
	Settings agent.Settings
	// Secret is the one with the manifest, as the cache has it; nil if there is none.
	Secret *metav1.PartialObjectMetadata
	// Problem is why the manifest is not in the Secret.
	Problem error
}

// observe reads, from caches. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	var o Observation
	cluster := &clusterv1.Cluster{}
	switch err := r.Client.Get(ctx, key, cluster); {
	case apierrors.IsNotFound(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("getting Cluster %s: %w", key, err)
	}
	o.Cluster, o.Before = cluster, r.written.Of(cluster, archelonv1.AgentManifestCondition)
	o.Import = meta.FindStatusCondition(cluster.GetConditions(), archelonv1.RancherImportedCondition)
	by := cluster.Annotations[archelonv1.InstanceAnnotation]
	o.Ours = r.Claim.Covers(cluster) && (by == "" || by == r.Self.String())
	if !o.Ours || o.Before == nil && cluster.Annotations[archelonv1.AgentDeliveryAnnotation] == "" {
		return o, nil
	}
	secret := secretMetadata()
	switch err := r.Client.Get(ctx, secretOf(key), secret); {
	case err == nil:
		o.Secret = secret
	case !apierrors.IsNotFound(err):
		return o, fmt.Errorf("getting Secret %s: %w", secretOf(key), err)
	}
	clusters := &managementv3.ClusterList{}
	if err := r.Rancher.List(ctx, clusters, client.MatchingFields{ownerIndex: string(cluster.UID)}); err != nil {
		return o, fmt.Errorf("listing v3 Rancher clusters: %w", err)
	}
	found := slices.DeleteFunc(clusters.Items, func(c managementv3.Cluster) bool { return !c.DeletionTimestamp.IsZero() || ownerOf(&c) != key })
	if len(found) != 1 {
		return o, nil
	}
	o.Management = &found[0]
	o.Input, o.Settings, o.Problem = r.input(ctx, cluster.UID, o.Management)
	return o, nil
}

// secretOf names the Secret with the manifest for a CAPI Cluster.
func secretOf(cluster types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: agent.ManifestSecretName(cluster.Name)}
}

// ownerOf names the CAPI Cluster that a Rancher cluster was created for.
func ownerOf(object client.Object) types.NamespacedName {
	labels := object.GetLabels()
	return types.NamespacedName{Namespace: labels[archelonv1.OwnerNamespaceLabel], Name: labels[archelonv1.OwnerNameLabel]}
}

// input digests what the manifest is made from: the registration, the settings of Rancher and those of the cluster. A
// token that is replaced changes its Secret.
func (r *Reconciler) input(ctx context.Context, owner types.UID, management *managementv3.Cluster) (string, agent.Settings, error) {
	registration, registrationErr := r.Tokens.Fingerprint(ctx, management.Name)
	ofRancher, settingsErr := r.Settings.Fingerprint(ctx)
	values, valuesErr := r.Settings.AgentSettings(ctx)
	if err := errors.Join(registrationErr, settingsErr, valuesErr); err != nil {
		return "", agent.Settings{}, err
	}
	spec, err := rancher.AgentSpecOf(management, values)
	if err != nil {
		return "", agent.Settings{}, err
	}
	token := secretMetadata()
	err = r.TokenSecrets.Get(ctx, types.NamespacedName{Namespace: management.Name, Name: rancher.DefaultTokenSecretName}, token)
	if client.IgnoreNotFound(err) != nil {
		return "", agent.Settings{}, fmt.Errorf("looking for the Secret of the registration token: %w", err)
	}
	parts := append([]string{string(owner), management.Name, registration, ofRancher, string(token.UID), token.ResourceVersion, spec.Digest}, spec.Dropped...)
	settings := agent.Settings{Cluster: management.Name, Digest: spec.Digest, Env: spec.Env, Dropped: spec.Dropped, Strict: spec.Strict}
	return rancher.Digest(strings.Join(parts, "\n")), settings, nil
}
