package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/workload"
)

// Observation is all that a run has read.
type Observation struct {
	// Claim is the source, nil if there is none.
	Claim *metal3v1.HostClaim
	// Paused is whether it is to be left as it is.
	Paused bool
	// RealKind is the kind that its target is to have.
	RealKind string
	// Wait is how long it is to wait because it has asked the other cluster too often; nothing below is known then.
	Wait time.Duration
	// Problem is why the other cluster was not asked, or did not answer. Nothing below is known then.
	Problem *Problem
	// Failure is what it failed of, if it was asked.
	Failure error
	// Place is where its credentials lead to.
	Place workload.Place
	// Target is what has the name of the target, nil if there is nothing.
	Target *metal3v1.HostClaim
	// Earlier is the target of an earlier source of this name, nil if there is none. It is looked for before a target is
	// created.
	Earlier *metav1.PartialObjectMetadata
	// Copies are the metadata of the Secrets of the source that are beside the target, by their names.
	Copies map[string]*metav1.PartialObjectMetadata
	// Sources are the metadata of the Secrets that the source names.
	Sources map[hostclaim.Role]*metav1.PartialObjectMetadata
}

// Readers are what a run reads from.
type Readers struct {
	// Claims and Secrets are caches. Of Secrets there is metadata.
	Claims, Secrets client.Reader
	// Clusters is a cache of CAPI Clusters, Namespaces one of the metadata of Namespaces.
	Clusters, Namespaces client.Reader
	// Live reads from the API server.
	Live client.Reader
}

// Remotes lead to other clusters.
type Remotes interface {
	// Use returns where the credentials of a source lead to. A Problem, as an error, says why nobody can be asked there;
	// the source is woken when that ends, and whenever something changes there that has its origin.
	Use(ctx context.Context, source types.NamespacedName, origin string, credentials Credentials) (*Remote, error)
	// Leave is told that a source uses none any more.
	Leave(source types.NamespacedName)
}

// Cluster reads and writes objects in another cluster.
type Cluster interface {
	client.Reader
	Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error
	Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error
}

// Remote is a namespace of another cluster.
type Remote struct {
	// Cluster has it.
	Cluster Cluster
	// Place says where that is.
	Place workload.Place
	// Release ends the use. It is told what went wrong, if something did.
	Release func(error)
}

// observe reads. It decides nothing and writes nothing. The Remote is nil if nobody was asked; it is to be released.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, *Remote, error) {
	var o Observation
	claim, err := r.Read.claim(ctx, key)
	if err != nil {
		return o, nil, err
	}
	if claim == nil {
		r.Remotes.Leave(key)
		return o, nil, nil
	}
	o.Claim = claim
	if o.Paused, err = r.paused(ctx, claim); err != nil || o.Paused || !held(claim) {
		return o, nil, err
	}
	var credentials Credentials
	if o.RealKind, credentials, o.Problem = requestOf(claim); o.Problem != nil {
		r.Remotes.Leave(key)
		return o, nil, nil
	}
	if err := r.observeSources(ctx, &o); err != nil {
		return o, nil, err
	}
	if ready, err := r.held(ctx, credentials.Secret); err != nil || !ready {
		o.Problem = &Problem{metal3v1.RemoteConnectingReason, "The Secret with the kubeconfig is about to be held"}
		return o, nil, err
	}
	remote, err := r.Remotes.Use(ctx, key, originKept(claim), credentials)
	if soon, ok := errors.AsType[*tooSoonError](err); ok {
		o.Wait = soon.wait
		return o, nil, nil
	}
	if o.Problem = problemOf(err); err != nil {
		return o, nil, unless(o.Problem, err)
	}
	err = remote.observe(ctx, &o)
	o.Problem, o.Failure = problemOf(err), err
	return o, remote, unless(o.Problem, err)
}

// paused reports whether a source is to be left as it is.
func (r *Reconciler) paused(ctx context.Context, claim *metal3v1.HostClaim) (bool, error) {
	clusters := r.Read.Clusters
	if r.NoClusters {
		clusters = nil
	}
	goes, err := hostclaim.GoesWithNamespace(ctx, r.Read.Namespaces, claim)
	switch {
	case err != nil:
		return false, err
	case goes:
		return hostclaim.IsPausedByOthers(ctx, clusters, claim)
	default:
		return hostclaim.IsPaused(ctx, clusters, claim)
	}
}

// claim returns nil if there is no claim of this kind.
func (r Readers) claim(ctx context.Context, key types.NamespacedName) (*metal3v1.HostClaim, error) {
	claim := &metal3v1.HostClaim{}
	err := r.Claims.Get(ctx, key, claim)
	if err == nil && !hostclaim.IsKept(claim) {
		*claim = metal3v1.HostClaim{}
		err = r.Live.Get(ctx, key, claim)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading HostClaim %s: %w", key, err)
	case !handled(claim):
		return nil, nil
	default:
		hostclaim.Spell(claim)
		return claim, nil
	}
}

// held reports whether the Secret with the kubeconfig stays as long as a source uses it. One that is not there, or is
// on its way out, is not held up by that.
func (r *Reconciler) held(ctx context.Context, secret types.NamespacedName) (bool, error) {
	found := secretMetadata()
	if err := r.Read.Secrets.Get(ctx, secret, found); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	return found.DeletionTimestamp != nil || controllerutil.ContainsFinalizer(found, metal3v1.CredentialsFinalizer), nil
}

func (r *Reconciler) observeSources(ctx context.Context, o *Observation) error {
	o.Sources = map[hostclaim.Role]*metav1.PartialObjectMetadata{}
	for role, ref := range hostclaim.Sources(o.Claim) {
		if !hostclaim.MayRead(o.Claim, ref) {
			continue
		}
		found := secretMetadata()
		err := r.Read.Secrets.Get(ctx, types.NamespacedName{Namespace: o.Claim.Namespace, Name: ref.Name}, found)
		if err == nil {
			o.Sources[role] = found
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the metadata of Secret %s: %w", ref.Name, err)
		}
	}
	return nil
}

// observe asks the other cluster.
func (r *Remote) observe(ctx context.Context, o *Observation) error {
	o.Place = r.Place
	origin := originKept(o.Claim)
	target := &metal3v1.HostClaim{}
	err := r.Cluster.Get(ctx, types.NamespacedName{Namespace: r.Place.Namespace, Name: targetName(origin)}, target)
	switch {
	case err == nil && !plausible(target, r.Place.Namespace, targetName(origin)):
		return refuse(metal3v1.RemoteRejectedReason,
			"The remote cluster answers with an object that no API server has. Check that the kubeconfig leads to a Kubernetes API server")
	case err == nil:
		o.Target = target
	case !apierrors.IsNotFound(err):
		return err
	}
	if o.Target == nil && o.Claim.Status.Remote == nil && o.Claim.DeletionTimestamp == nil {
		if err := r.observeEarlier(ctx, o); err != nil {
			return err
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err = r.Cluster.List(ctx, list, client.InNamespace(r.Place.Namespace), client.MatchingLabels{metal3v1.OriginLabel: origin})
	if err != nil {
		return err
	}
	o.Copies = map[string]*metav1.PartialObjectMetadata{}
	for i := range list.Items {
		found := &list.Items[i]
		// What a server says to be ours and is not is not touched.
		if found.Namespace == r.Place.Namespace && found.Labels[metal3v1.OriginLabel] == origin {
			o.Copies[found.Name] = found
		}
	}
	return nil
}

// plausible reports whether an API server can have answered with a target. Its UID is stored here.
func plausible(target *metal3v1.HostClaim, namespace, name string) bool {
	return target.Namespace == namespace && target.Name == name && target.UID != "" && len(validation.IsValidLabelValue(string(target.UID))) == 0
}

// observeEarlier looks for what stands for a source of this name with another UID: this source was restored, or created
// again, and a target of its own would take a second host.
func (r *Remote) observeEarlier(ctx context.Context, o *Observation) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metal3v1.GroupVersion.WithKind(metal3v1.HostClaimKind + "List"))
	if err := r.Cluster.List(ctx, list, client.InNamespace(r.Place.Namespace), client.HasLabels{metal3v1.OriginLabel}); err != nil {
		return err
	}
	source := client.ObjectKeyFromObject(o.Claim).String()
	for i := range list.Items {
		found := &list.Items[i]
		if found.Annotations[metal3v1.OriginAnnotation] == source && found.DeletionTimestamp == nil {
			o.Earlier = found
			return nil
		}
	}
	return nil
}

// unless returns an error that is no Problem.
func unless(problem *Problem, err error) error {
	if problem != nil {
		return nil
	}
	return err
}
