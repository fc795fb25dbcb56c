package members

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	managementv3 "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/condition"
)

// FieldOwner is the name under which the API server records what this controller writes.
const FieldOwner = "archelon-members"

// Action is one thing to do. It decides nothing, and prints as what it does.
type Action interface {
	fmt.Stringer
	// do adds to the observation what came of it.
	do(ctx context.Context, r *Reconciler, o *Observation) error
}

// errOvertaken is that what was decided on has changed meanwhile. The event of that is on its way.
var errOvertaken = errors.New("it has changed meanwhile")

// create creates a binding.
type create struct {
	binding *managementv3.ClusterRoleTemplateBinding
}

// String implements fmt.Stringer.
func (c create) String() string {
	return fmt.Sprintf("create ClusterRoleTemplateBinding %s/%s of role template %s", c.binding.Namespace, c.binding.Name, c.binding.RoleTemplateName)
}

func (c create) do(ctx context.Context, r *Reconciler, o *Observation) error {
	made := c.binding.DeepCopy()
	err := r.Rancher.Create(ctx, made, client.FieldOwner(FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return c.look(ctx, r, o)
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		o.Bindings = append(o.Bindings, *made)
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		o.Pending[made.Name] = true
	case errors.As(err, &status) && refusal(status.Status().Code):
		o.Refused[made.Name] = status.Status().Message
	default:
		return err
	}
	return nil
}

// look finds out whose the binding is that has the name: the cache may not have it yet that was created here.
func (c create) look(ctx context.Context, r *Reconciler, o *Observation) error {
	found := &managementv3.ClusterRoleTemplateBinding{}
	switch err := r.RancherReader.Get(ctx, client.ObjectKeyFromObject(c.binding), found); {
	case apierrors.IsNotFound(err):
		o.Pending[c.binding.Name] = true
	case err != nil:
		return err
	case isOurs(found, o.Cluster.UID):
		o.Bindings = append(o.Bindings, *found)
	default:
		o.Refused[c.binding.Name] = fmt.Sprintf("ClusterRoleTemplateBinding %s/%s exists already and does not belong to Archelon, which left it unchanged. Delete it",
			found.Namespace, found.Name)
	}
	return nil
}

// refusal reports whether a status is worth telling. Rancher's webhook uses several, and 500 is that it does not
// answer; others pass by themselves.
func refusal(code int32) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return code >= http.StatusBadRequest
}

// remove deletes a binding, in the state that was decided on.
type remove struct {
	binding *managementv3.ClusterRoleTemplateBinding
}

// String implements fmt.Stringer.
func (x remove) String() string {
	return fmt.Sprintf("delete ClusterRoleTemplateBinding %s/%s of role template %s", x.binding.Namespace, x.binding.Name, x.binding.RoleTemplateName)
}

func (x remove) do(ctx context.Context, r *Reconciler, o *Observation) error {
	gone := *x.binding // The observation is changed below.
	err := r.Rancher.Delete(ctx, gone.DeepCopy(), client.Preconditions{UID: &gone.UID, ResourceVersion: &gone.ResourceVersion})
	if apierrors.IsConflict(err) {
		return errOvertaken
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	o.Bindings = slices.DeleteFunc(slices.Clone(o.Bindings), func(b managementv3.ClusterRoleTemplateBinding) bool { return b.UID == gone.UID })
	if err == nil {
		o.Pending[gone.Name] = true // Rancher may hold it for a moment.
	}
	return nil
}

// publish writes the condition, or takes it away.
type publish struct {
	cluster   *clusterv1.Cluster
	condition *metav1.Condition
}

// String implements fmt.Stringer.
func (p publish) String() string {
	key := client.ObjectKeyFromObject(p.cluster)
	if p.condition == nil {
		return "remove the condition of " + key.String()
	}
	return fmt.Sprintf("set %s of %s to %s (%s)", p.condition.Type, key, p.condition.Status, p.condition.Reason)
}

func (p publish) do(ctx context.Context, r *Reconciler, _ *Observation) error {
	writer := condition.Writer{
		Client: r.Client, Live: r.APIReader, Owner: FieldOwner, Type: archelonv1.RancherMembersCondition,
	}
	_, err := writer.Apply(ctx, p.cluster, p.condition)
	return err
}
