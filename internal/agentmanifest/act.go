package agentmanifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
	"github.com/archelon-io/archelon/internal/condition"
	"github.com/archelon-io/archelon/internal/outcome"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-agent-manifest"

// ManifestKey is the key of the manifest in its Secret.
const ManifestKey = "manifest.yaml"

// secretType is that of Secrets which a ClusterResourceSet can apply. Cluster API refuses others.
const secretType corev1.SecretType = "addons.cluster.x-k8s.io/resource-set"

// maxManifest is how many bytes a Secret can hold.
const maxManifest = corev1.MaxSecretSize

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	// do adds to the observation what came of it.
	do(ctx context.Context, r *Reconciler, o *Observation) error
}

// errOvertaken is that what was decided on has changed meanwhile. The event of that is on its way.
var errOvertaken = errors.New("it has changed meanwhile")

// deliver downloads the manifest and writes it into the Secret.
type deliver struct {
	cluster    *clusterv1.Cluster
	management string
	input      string
	settings   agent.Settings
	// known: the cache shows a Secret of the name.
	known bool
}

// String implements fmt.Stringer.
func (a deliver) String() string {
	return fmt.Sprintf("write the manifest for the agent of v3 Rancher cluster %s into Secret %s", a.management, secretOf(client.ObjectKeyFromObject(a.cluster)))
}

func (a deliver) do(ctx context.Context, r *Reconciler, o *Observation) error {
	written, err := a.write(ctx, r)
	if errors.Is(err, errOvertaken) {
		return err
	}
	if o.Problem = err; err == nil {
		o.Secret = written
	}
	return nil
}

// write returns the metadata of the Secret that it has written.
func (a deliver) write(ctx context.Context, r *Reconciler) (*metav1.PartialObjectMetadata, error) {
	var found *metav1.PartialObjectMetadata
	if a.known {
		var err error
		if found, err = a.look(ctx, r); err != nil {
			return nil, err
		}
	}
	manifest, err := r.manifest(ctx, a.management, a.settings)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return a.create(ctx, r, manifest)
	default:
		return a.update(ctx, r, found, manifest)
	}
}

// look reads whose the Secret is; nil if there is none.
func (a deliver) look(ctx context.Context, r *Reconciler) (*metav1.PartialObjectMetadata, error) {
	key := secretOf(client.ObjectKeyFromObject(a.cluster))
	found := secretMetadata()
	switch err := r.APIReader.Get(ctx, key, found); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("getting Secret %s: %w", key, err)
	case !metav1.IsControlledBy(found, a.cluster):
		return nil, &outcome.Problem{
			Kind: outcome.KindPoll, Reason: TakenReason, After: takenRetry,
			Message: fmt.Sprintf("Secret %s exists already and does not belong to this Cluster, so the manifest of Rancher's agent was not written. "+
				"Rename or delete that Secret", key),
		}
	default:
		return found, nil
	}
}

// create writes the first one. The cache may not have one yet that was created before, or does not show those of
// others.
func (a deliver) create(ctx context.Context, r *Reconciler, manifest []byte) (*metav1.PartialObjectMetadata, error) {
	key := secretOf(client.ObjectKeyFromObject(a.cluster))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:      map[string]string{clusterv1.ClusterNameLabel: a.cluster.Name},
			Annotations: map[string]string{archelonv1.ManifestInputAnnotation: a.input},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: a.cluster.Name, UID: a.cluster.UID, Controller: new(true),
			}},
		},
		Type: secretType,
		Data: map[string][]byte{ManifestKey: manifest},
	}
	err := r.Client.Create(ctx, secret, client.FieldOwner(FieldOwner))
	switch {
	case apierrors.IsAlreadyExists(err):
		found, err := a.look(ctx, r)
		if found == nil {
			return nil, err
		}
		return a.update(ctx, r, found, manifest)
	case err != nil:
		return nil, writing(key, err)
	}
	written := secretMetadata()
	written.ObjectMeta = secret.ObjectMeta
	return written, nil
}

// update replaces the manifest, in the version of the Secret that was looked at.
func (a deliver) update(ctx context.Context, r *Reconciler, found *metav1.PartialObjectMetadata, manifest []byte) (*metav1.PartialObjectMetadata, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": found.UID, "resourceVersion": found.ResourceVersion,
			"labels":      map[string]string{clusterv1.ClusterNameLabel: a.cluster.Name},
			"annotations": map[string]string{archelonv1.ManifestInputAnnotation: a.input},
		},
		"data": map[string][]byte{ManifestKey: manifest},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the change of Secret %s: %w", found.Name, err)
	}
	written := secretMetadata()
	written.Namespace, written.Name = found.Namespace, found.Name
	err = r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil, errOvertaken
	}
	return written, writing(client.ObjectKeyFromObject(found), err)
}

// writing names what failed. It does not quote the error of a webhook or of a validation, which may quote the manifest
// and the token in it.
func writing(key types.NamespacedName, err error) error {
	if err == nil {
		return nil
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return fmt.Errorf("writing Secret %s: %w", key, err)
	}
	return &outcome.Problem{
		Kind: outcome.KindFail, Reason: FailedReason,
		Message: fmt.Sprintf("The API server refused to write Secret %s (%s, code %d). Check quotas of the namespace, admission webhooks, and the permissions of Archelon",
			key, apierrors.ReasonForError(err), status.Status().Code),
		Err: errRefused,
	}
}

var errRefused = errors.New("the write was refused")

// manifest downloads the manifest for the agent of a v3 Rancher cluster, and marks whose agent it is.
func (r *Reconciler) manifest(ctx context.Context, management string, settings agent.Settings) ([]byte, error) {
	registration, err := r.Tokens.Registration(ctx, management)
	if err != nil {
		return nil, fmt.Errorf("reading the registration: %w", err)
	}
	trust, err := r.Settings.Trust(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	server, err := r.Settings.ServerURL(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading Rancher's settings: %w", err)
	}
	if !registration.FilledInFor(server) {
		return nil, &outcome.Problem{
			Kind: outcome.KindWait, Reason: archelonv1.WaitingForRancherReason,
			Message: "Waiting for Rancher to write its current server-url into the registration token. After 5 minutes, check the log of Rancher",
		}
	}
	manifest, err := r.Downloader.Manifest(ctx, registration, trust)
	if err != nil {
		return nil, fmt.Errorf("downloading the import manifest: %w", err)
	}
	objects := manifest.Objects()
	settings.Mark(objects)
	return encode(objects)
}

// encode returns the objects as one YAML stream.
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var text bytes.Buffer
	for _, object := range objects {
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, errors.New("an object of the manifest cannot be encoded") // The cause may quote it.
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	if text.Len() > maxManifest {
		return nil, &outcome.Problem{
			Kind: outcome.KindStall, Reason: archelonv1.ManifestTooLargeReason,
			Message: fmt.Sprintf("The manifest of Rancher's agent has %d bytes, and a Secret holds at most %d. Remove annotation %s to have Archelon install the agent",
				text.Len(), maxManifest, archelonv1.AgentDeliveryAnnotation),
		}
	}
	return text.Bytes(), nil
}

// remove deletes the Secret if the Cluster is its controller.
type remove struct{ cluster *clusterv1.Cluster }

// String implements fmt.Stringer.
func (a remove) String() string {
	return fmt.Sprintf("delete Secret %s", secretOf(client.ObjectKeyFromObject(a.cluster)))
}

func (a remove) do(ctx context.Context, r *Reconciler, o *Observation) error {
	found := secretMetadata()
	err := r.APIReader.Get(ctx, secretOf(client.ObjectKeyFromObject(a.cluster)), found)
	if err == nil && metav1.IsControlledBy(found, a.cluster) {
		err = r.Client.Delete(ctx, found, client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion})
	}
	if apierrors.IsConflict(err) {
		return errOvertaken
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	o.Secret = nil
	return nil
}

// publish writes the condition, or deletes it.
type publish struct {
	cluster   *clusterv1.Cluster
	condition *metav1.Condition
}

// String implements fmt.Stringer.
func (p publish) String() string {
	key := client.ObjectKeyFromObject(p.cluster)
	if p.condition == nil {
		return "delete condition AgentManifest of " + key.String()
	}
	return fmt.Sprintf("set %s of %s to %s (%s)", p.condition.Type, key, p.condition.Status, p.condition.Reason)
}

func (p publish) do(ctx context.Context, r *Reconciler, _ *Observation) error {
	writer := condition.Writer{Client: r.Client, Live: r.APIReader, Owner: FieldOwner, Type: archelonv1.AgentManifestCondition}
	if _, err := writer.Apply(ctx, p.cluster, p.condition); err != nil {
		return err
	}
	r.written.Note(p.cluster, p.condition)
	return nil
}
