package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/rolekeeper"
	"github.com/archelon-io/archelon/internal/shard"
)

// accessPoll is how often rights that are missing are asked for again. Nobody who lacks them can watch them come.
const accessPoll = 10 * time.Second

// retryPause is the pause after a question that was not answered.
const retryPause = time.Second

// accessQuestions is about how many namespaces the API server is asked at a time. There are six questions about each.
const accessQuestions = 10

// unknown is lacking as long as the API server has not answered.
const unknown = "not known yet"

// access asks the API server in which namespaces of a scope this instance may work. A cache that may not list or watch
// one of its kinds in one of its namespaces never syncs and holds up all others, so a namespace in which anything is
// not granted is left out until all is.
type access struct {
	reviews authorizationclient.SelfSubjectAccessReviewInterface
	scope   shard.Scope
	watched []schema.GroupResource
	lacking prometheus.Gauge
	logger  logr.Logger
	// suspect holds a suspicion that permissions were lost.
	suspect chan func(namespace string) bool
}

func newAccess(config *rest.Config, scope shard.Scope, controllers []controller.Controller, lacking prometheus.Gauge) (*access, error) {
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for access reviews: %w", err)
	}
	watched, err := scopedResources(controllers)
	if err != nil {
		return nil, err
	}
	return &access{
		reviews: client.SelfSubjectAccessReviews(), scope: scope, watched: watched, lacking: lacking,
		logger: ctrl.Log.WithName("setup"), suspect: make(chan func(string) bool, 1),
	}, nil
}

// granted waits until the instance may work somewhere, and returns where, and what is missing, which it counts;
// it calls waiting when it may nowhere. To lack the rights for a scope that is not a list of names is an error:
// there is nothing to begin with.
func (a *access) granted(ctx context.Context, waiting func()) (scope shard.Scope, missing []string, err error) {
	names := a.scope.Included()
	if len(names) == 0 {
		names = []string{metav1.NamespaceAll}
	}
	reported := ""
	err = wait.PollUntilContextCancel(ctx, accessPoll, true, func(ctx context.Context) (bool, error) {
		granted, lacking := a.divide(ctx, names)
		missing = slices.Sorted(maps.Keys(lacking))
		if names[0] == metav1.NamespaceAll {
			scope = a.scope
			if len(missing) > 0 {
				return false, fmt.Errorf("this instance is to work in %s and may not %s there: bind it to the ClusterRole of config/rbac, or name its namespaces with --namespace", a.scope, lacking[names[0]])
			}
			return true, nil
		}
		if ctx.Err() == nil {
			a.lacking.Set(float64(len(lacking)))
		}
		if text := describe(lacking); text != reported && text != "" {
			reported = text
			a.logger.Info("This instance may not work in some of its namespaces; waiting for a RoleBinding to ClusterRole archelon-isolated-namespace there", "lacking", text)
		}
		if len(granted) == 0 {
			if ctx.Err() == nil {
				waiting()
			}
			return false, nil
		}
		var err error
		scope, err = shard.New(granted, nil)
		return true, err
	})
	return scope, missing, err
}

// mayWatchBindings reports whether the instance may watch the RoleBindings that give it its namespaces. It asks until
// there is an answer: a moment's failure costs no restart.
func (a *access) mayWatchBindings(ctx context.Context) bool {
	var may bool
	_ = wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
		var err error
		if may, err = rolekeeper.MayWatch(ctx, a.reviews); err != nil && ctx.Err() == nil {
			a.logger.Error(err, "Asking whether RoleBindings may be watched failed; trying again")
		}
		return err == nil, nil
	})
	return may
}

// describe names namespaces and what is not granted there, in an order that stays.
func describe(lacking map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, lacking[name]))
	}
	return strings.Join(parts, ", ")
}

// divide tells the namespaces in which the instance may work from those in which it lacks a right, and says which. When
// the API server does not answer it is asked again, so that a moment's failure costs no restart.
func (a *access) divide(ctx context.Context, names []string) (granted []string, lacking map[string]string) {
	lacks := make([]string, len(names))
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), accessQuestions, len(names), func(i int) { lacks[i] = a.ask(ctx, names[i]) })
	lacking = map[string]string{}
	for i, name := range names {
		if lacks[i] == "" {
			granted = append(granted, name)
		} else {
			lacking[name] = lacks[i]
		}
	}
	return granted, lacking
}

// ask is lacks, until there is an answer.
func (a *access) ask(ctx context.Context, name string) string {
	lacks := unknown // It stays so when the context ends.
	// It ends with the answer or the context.
	_ = wait.PollUntilContextCancel(ctx, retryPause, true, func(ctx context.Context) (bool, error) {
		var err error
		if lacks, err = a.lacks(ctx, name); err != nil && ctx.Err() == nil {
			a.logger.Error(err, "Asking for this instance's rights failed; trying again")
		}
		return err == nil, nil
	})
	return lacks
}

// lacks returns the first right that the instance lacks in a namespace, in all if it is empty: to list and to
// watch whatever its cache holds of namespaces. It is "" if none is missing. Where nobody has granted anything
// the first answer is enough.
func (a *access) lacks(ctx context.Context, namespace string) (string, error) {
	for _, resource := range a.watched {
		for _, verb := range verbs() {
			one := right{verb: verb, resource: resource}
			may, err := a.may(ctx, namespace, one)
			if err != nil {
				return unknown, err
			}
			if !may {
				return one.String(), nil
			}
		}
	}
	return "", nil
}

// verbs are what a cache needs.
func verbs() []string { return []string{"list", "watch"} }

// may reports whether the instance has one right. Whoever may not even ask is believed to.
func (a *access) may(ctx context.Context, namespace string, one right) (bool, error) {
	review, err := a.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: one.verb, Group: one.resource.Group, Resource: one.resource.Resource},
	}}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for this instance's rights: %w", err)
	}
	return review.Status.Allowed, nil
}
