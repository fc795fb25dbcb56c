package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
)

// Observation is all that a run has read.
type Observation struct {
	// Identity is nil if there is none.
	Identity *identityv1.OCIClusterIdentity
	// OutOfScope is whether the identity is where this instance cannot look. Foreign is whether another instance writes
	// its status.
	OutOfScope, Foreign bool
	// Unseen is where clusters may use the identity that this instance does not receive.
	Unseen Unseen
	// Secret is that of the identity, if it may be read.
	Secret Secret
	// Clusters are those that name the identity, whether there is one or not, in the order of their names.
	Clusters []Cluster
	// Checks are what OCI says of the clusters, nil if it is not asked.
	Checks map[userID]check
	// Trouble is why it could not be read who may use the identity; it does not say what is wrong with the identity.
	Trouble error
}

// Secret is what a run has found out about the Secret of an identity.
type Secret struct {
	// Exists is whether it is there.
	Exists bool
	// Name is its namespace and name.
	Name types.NamespacedName
	// Trouble is why it could not be read. Who uses the identity does not depend on it.
	Trouble error

	checked
}

// Cluster is a cluster that names the identity.
type Cluster struct {
	id userID
	// Ref is its identityRef.
	Ref *corev1.ObjectReference
	// Spec is what is read of its spec.
	Spec *infrav1.ClusterSpec
	// Namespace has labels only if the identity has a selector.
	Namespace oci.Namespace
}

// observe reads. It decides nothing and writes nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (Observation, error) {
	o := Observation{
		OutOfScope: !r.Resolver.Scope.readable(key.Namespace), Foreign: !r.Resolver.Scope.Shard.Owns(key.Namespace),
	}
	var err error
	if !o.OutOfScope {
		if o.Identity, err = r.Resolver.readers().Identity(ctx, key); err != nil {
			return o, err
		}
	}
	if o.Identity != nil {
		o.Unseen = UnseenBy(r.Resolver.Scope.Shard, o.Identity.Spec.AllowedNamespaces)
	}
	if o.Clusters, err = r.readClusters(ctx, key); err != nil {
		return o, err
	}
	o.Trouble = errors.Join(r.readLabels(ctx, &o), r.readChecks(ctx, &o))
	name, ok := r.Resolver.Scope.Policy.SecretOf(o.Identity)
	if !ok || o.Foreign {
		name = types.NamespacedName{}
	}
	if r.memory.use(key, name); name != (types.NamespacedName{}) {
		o.Secret, err = r.readSecret(ctx, name)
		o.Secret.Trouble = err
	}
	return o, nil
}

// readClusters returns the clusters of an identity by the index.
func (r *Reconciler) readClusters(ctx context.Context, key types.NamespacedName) ([]Cluster, error) {
	var clusters []Cluster
	add := func(kind string, user User) {
		clusters = append(clusters, Cluster{
			id:  userID{kind, user.GetNamespace(), user.GetName()},
			Ref: user.IdentityRef(), Spec: user.ClusterSpec(), Namespace: oci.Namespace{Name: user.GetNamespace()},
		})
	}
	named := client.MatchingFields{identityIndex: key.String()}
	plain, managed := &infrav1.OCIClusterList{}, &infrav1.OCIManagedClusterList{}
	if err := r.Resolver.Cached.Objects.List(ctx, plain, named); err != nil {
		return nil, fmt.Errorf("listing OCIClusters: %w", err)
	}
	if err := r.Resolver.Cached.Objects.List(ctx, managed, named); err != nil {
		return nil, fmt.Errorf("listing OCIManagedClusters: %w", err)
	}
	for i := range plain.Items {
		add(infrav1.OCIClusterKind, &plain.Items[i])
	}
	for i := range managed.Items {
		add(infrav1.OCIManagedClusterKind, &managed.Items[i])
	}
	slices.SortFunc(clusters, func(a, b Cluster) int {
		return strings.Compare(a.id.String()+"/"+a.id.kind, b.id.String()+"/"+b.id.kind)
	})
	return clusters, nil
}

// readLabels reads the labels of the clusters' Namespaces if they matter.
func (r *Reconciler) readLabels(ctx context.Context, o *Observation) error {
	if !oci.Selects(o.Identity) {
		return nil
	}
	found := map[string]oci.Namespace{}
	for i := range o.Clusters {
		name := o.Clusters[i].Namespace.Name
		if _, ok := found[name]; !ok {
			namespace, err := r.Resolver.readers().Namespace(ctx, name)
			if err != nil {
				return err
			}
			found[name] = namespace
		}
		o.Clusters[i].Namespace = found[name]
	}
	return nil
}

// readSecret reads the metadata of the Secret from the cache, and the Secret itself only in a state that was not read
// before, whichever identity it was read for.
func (r *Reconciler) readSecret(ctx context.Context, name types.NamespacedName) (Secret, error) {
	metadata := SecretMetadata()
	switch err := r.Resolver.Cached.Metadata.Get(ctx, name, metadata); {
	case apierrors.IsNotFound(err):
		return Secret{Name: name}, nil
	case err != nil:
		return Secret{Name: name}, fmt.Errorf("reading the metadata of Secret %s: %w", name, err)
	}
	found, err := r.check(ctx, name, VersionOf(metadata))
	switch {
	case apierrors.IsNotFound(err):
		return Secret{Name: name}, nil // It was deleted just now.
	case err != nil:
		return Secret{Name: name}, err
	}
	return Secret{Exists: true, Name: name, checked: found}, nil
}

// check returns what is known of a state of a Secret, and reads the Secret if that is nothing. Identities that ask for
// one Secret at the same time read it once.
func (r *Reconciler) check(ctx context.Context, name types.NamespacedName, now Version) (checked, error) {
	if before, ok := r.memory.secret(name, now); ok {
		return before, nil
	}
	found, err, _ := r.reads.Do(name.String(), func() (any, error) {
		if before, ok := r.memory.secret(name, now); ok {
			return before, nil
		}
		read, err := r.Resolver.readSecret(ctx, name)
		if err != nil {
			return checked{}, err
		}
		if before, ok := r.memory.secret(name, read.version); ok {
			return before, nil // The cache lags behind what was read.
		}
		is := checked{version: read.version, flaw: read.flaw}
		r.memory.noteSecret(name, is)
		return is, nil
	})
	is, _ := found.(checked)
	return is, err
}
