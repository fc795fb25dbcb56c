package setup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/internal/shard"
)

// accessPoll is how often rights that are missing are asked for again. Nobody who lacks them can watch them come.
const accessPoll = 10 * time.Second

// retryPause is the pause after a question that was not answered.
const retryPause = time.Second

// access asks the API server in which namespaces of a scope this instance may work. A cache that may not list in one of its namespaces never
// syncs and holds up all others, so what is not granted is left out until it is.
type access struct {
	reviews authorizationclient.SelfSubjectAccessReviewInterface
	scope   shard.Scope
	logger  logr.Logger
}

func newAccess(config *rest.Config, scope shard.Scope) (*access, error) {
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for access reviews: %w", err)
	}
	return &access{reviews: client.SelfSubjectAccessReviews(), scope: scope, logger: ctrl.Log.WithName("setup")}, nil
}

// granted waits until the instance may work somewhere, and returns where, and what is missing. To lack the rights for a scope that is not a
// list of names is an error: there is nothing to begin with.
func (a *access) granted(ctx context.Context) (scope shard.Scope, missing []string, err error) {
	names := a.scope.Included()
	if len(names) == 0 {
		names = []string{metav1.NamespaceAll}
	}
	reported := ""
	err = wait.PollUntilContextCancel(ctx, accessPoll, true, func(ctx context.Context) (bool, error) {
		var granted []string
		granted, missing = a.divide(ctx, names)
		if names[0] == metav1.NamespaceAll {
			scope = a.scope
			if len(missing) > 0 {
				return false, fmt.Errorf("this instance is to work in %s and may not list CAPI Clusters there: bind it to the ClusterRole of config/rbac, or name its namespaces with --namespace", a.scope)
			}
			return true, nil
		}
		if text := strings.Join(missing, ", "); text != reported && text != "" {
			reported = text
			a.logger.Info("This instance may not work in some of its namespaces; waiting for a RoleBinding to ClusterRole archelon-isolated-namespace there", "namespaces", text)
		}
		if len(granted) == 0 {
			return false, nil
		}
		var err error
		scope, err = shard.New(granted, nil)
		return true, err
	})
	return scope, missing, err
}

// divide tells the namespaces in which the instance may work from those in which it may not. When the API server does not answer it is asked
// again, so that a moment's failure costs no restart.
func (a *access) divide(ctx context.Context, names []string) (granted, missing []string) {
	for _, name := range names {
		var may bool
		// It ends with the answer or the context.
		_ = wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
			var err error
			if may, err = a.may(ctx, name); err != nil && ctx.Err() == nil {
				a.logger.Error(err, "Asking for this instance's rights failed; trying again")
			}
			return err == nil, nil
		})
		if may {
			granted = append(granted, name)
		} else {
			missing = append(missing, name)
		}
	}
	return granted, missing
}

// grow returns when the instance may work in one more of the namespaces, or when the context ends.
func (a *access) grow(ctx context.Context, missing []string) {
	if len(missing) == 0 {
		<-ctx.Done()
		return
	}
	// It ends with the context only: a question that fails is asked again.
	_ = wait.PollUntilContextCancel(ctx, accessPoll, false, func(ctx context.Context) (bool, error) {
		for _, name := range missing {
			if may, err := a.may(ctx, name); err == nil && may {
				a.logger.Info("This instance may work in one more namespace; starting over with it", "namespace", name)
				return true, nil
			}
		}
		return false, nil
	})
}

// may reports whether the instance may list CAPI clusters in a namespace, in all if it is empty. Whoever may not even ask is believed to.
func (a *access) may(ctx context.Context, namespace string) (bool, error) {
	review, err := a.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Group: clusterv1.GroupVersion.Group, Resource: "clusters"},
	}}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for this instance's rights: %w", err)
	}
	return review.Status.Allowed, nil
}
