package importer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Principals knows whether the infrastructure of CAPI clusters may work with the principal that it names. It knows
// nothing of imports, and an import nothing of principals but this.
type Principals interface {
	// Permits returns nil if it may, or if nothing decides about it. Else the error is an outcome.Problem: a Stall that says
	// why not, or a Wait while there is nothing to decide on. Any other error means that it is not known.
	Permits(ctx context.Context, cluster *clusterv1.Cluster) error
	// Subscribe has changed called, with the kind and the name of the infrastructure of a cluster, when the answer may be
	// another.
	Subscribe(changed func(kind string, infrastructure types.NamespacedName))
}

// checkPrincipal keeps a cluster from being imported while its infrastructure may not work with its principal. What is
// imported stays imported, and it is told: what is taken away in another system is no reason to disconnect a cluster.
func (r *Reconciler) checkPrincipal(ctx context.Context, s *scope) outcome.Outcome {
	if r.Principals == nil {
		return outcome.Done()
	}
	out := outcome.FromError(r.Principals.Permits(ctx, s.cluster), archelonv1.InternalErrorReason)
	if imported := s.hasRecord() || s.cluster.Annotations[archelonv1.RecordAnnotation] != ""; out.IsDone() || !imported {
		return out
	}
	if out.Kind == outcome.KindStall {
		s.refused = fmt.Sprintf("imported before, and its identity is refused now (%s): %s", out.Reason, out.Message)
	}
	return outcome.Done()
}

// withRefusal puts what is to be said about a principal before the other things that a condition says.
func withRefusal(s *scope, message string) string {
	if s.refused == "" || message == "" {
		return s.refused + message
	}
	return s.refused + "; " + message
}

// principalChanged wakes the clusters whose infrastructure may work with another principal now.
func (r *Reconciler) principalChanged() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.Principals.Subscribe(func(kind string, infrastructure types.NamespacedName) {
			for _, request := range r.clusters(ctx, client.InNamespace(infrastructure.Namespace),
				client.MatchingFields{infrastructureIndex: infrastructureKey(kind, infrastructure.Name)}) {
				queue.Add(request)
			}
		})
		return nil
	})
}

func infrastructureKey(kind, name string) string { return kind + "/" + name }

// infrastructureKeys returns the infrastructure of a CAPI cluster.
func infrastructureKeys(object client.Object) []string {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.InfrastructureRef.Name == "" {
		return nil
	}
	return []string{infrastructureKey(cluster.Spec.InfrastructureRef.Kind, cluster.Spec.InfrastructureRef.Name)}
}
