package setup

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/archelon-io/archelon/internal/controller"
)

// reviews answers as an API server does whose RBAC refuses some requests.
type reviews struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	refused map[string]bool
	err     error

	mu    sync.Mutex
	asked []string
}

func (r *reviews) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	a := review.Spec.ResourceAttributes
	request := a.Namespace + ": " + a.Verb + " " + schema.GroupResource{Group: a.Group, Resource: a.Resource}.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, request)
	review.Status.Allowed = !r.refused[request]
	return review, r.err
}

// The names are those of the rules in config/isolated/namespace_role.yaml.
func TestAnInstanceWorksWhereItMayListAndWatchAllThatItsCacheHolds(t *testing.T) {
	all := []string{
		"a: list clusters.cluster.x-k8s.io", "a: watch clusters.cluster.x-k8s.io",
		"a: list clusters.provisioning.cattle.io", "a: watch clusters.provisioning.cattle.io",
		"a: list secrets", "a: watch secrets",
	}
	watched, err := scopedResources([]controller.Controller{imports(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := &reviews{}
	a := &access{reviews: r, watched: watched, logger: logr.Discard()}
	if lacks, err := a.lacks(t.Context(), "a"); lacks != "" || err != nil {
		t.Errorf("everything is granted, and the instance lacks %q, %v", lacks, err)
	}
	if diff := cmp.Diff(all, r.asked); diff != "" {
		t.Errorf("rights that are asked for (-want +got):\n%s", diff)
	}
	for _, refused := range all {
		a.reviews = &reviews{refused: map[string]bool{refused: true}}
		granted, lacking := a.divide(t.Context(), []string{"a", "b"})
		if diff := cmp.Diff([]string{"b"}, granted); diff != "" {
			t.Errorf("without %q (-want +got):\n%s", refused, diff)
		}
		if got := "a: " + lacking["a"]; got != refused || len(lacking) != 1 {
			t.Errorf("without %q the instance is said to lack %v", refused, lacking)
		}
	}
}

func TestRightsThatAreNotKnown(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		reason  string
		err     error
		want    string
		wantErr bool
	}{
		"MayNotAsk": {reason: "its first request will tell", err: apierrors.NewForbidden(resource, "", errors.New("no"))},
		"NoAnswer":  {reason: "it is asked again", err: errors.New("no route to host"), want: "not known yet", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &access{reviews: &reviews{err: tc.err}, watched: []schema.GroupResource{resource}}
			lacks, err := a.lacks(t.Context(), "a")
			if lacks != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("%s: lacks %q, error %v", tc.reason, lacks, err)
			}
		})
	}
}

func TestWhatIsMissingIsSaidInAnOrderThatStays(t *testing.T) {
	got := describe(map[string]string{"b": "watch secrets", "a": "list secrets"})
	if want := "a (list secrets), b (watch secrets)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
