package setup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/shard"
)

// timedReviews answers by what an administrator has done until then.
type timedReviews struct {
	authorizationclient.SelfSubjectAccessReviewInterface
	begin  time.Time
	answer func(at time.Duration, namespace, right string) (bool, error)
}

func (r *timedReviews) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	a := review.Spec.ResourceAttributes
	var err error
	review.Status.Allowed, err = r.answer(time.Since(r.begin), a.Namespace, a.Verb+" "+a.Resource)
	return review, err
}

func TestAProcessEndsWhenTheNamespacesHaveChanged(t *testing.T) {
	const never = time.Hour
	within := func(at, from, to time.Duration) bool { return at >= from && at < to }
	silent := errors.New("no route to host")
	for name, tc := range map[string]struct {
		reason           string
		granted, missing []string
		quiet            bool // nothing happens to RoleBindings, else once a minute
		unbound          func(namespace string) bool
		answer           func(at time.Duration, namespace, right string) (bool, error)
		want             time.Duration
	}{
		"Nothing": {
			reason: "what works is left alone", granted: []string{"a", "b"}, want: never,
			answer: func(time.Duration, string, string) (bool, error) { return true, nil },
		},
		"NamespaceDeleted": {
			reason: "its watches would be refused for ever", granted: []string{"a", "b"}, want: 100 * time.Second,
			answer: func(at time.Duration, namespace, _ string) (bool, error) {
				return namespace != "b" || at < 10*time.Second, nil
			},
		},
		"AllWithdrawn": {
			reason: "the next one waits for permissions", granted: []string{"a", "b"}, want: 100 * time.Second,
			answer: func(at time.Duration, _, _ string) (bool, error) { return at < 10*time.Second, nil },
		},
		"OneRightOfSix": {
			reason: "each is asked for in turn", granted: []string{"a"}, want: 6*time.Minute + 40*time.Second,
			answer: func(_ time.Duration, _, right string) (bool, error) { return right != "watch secrets", nil },
		},
		"RoleBindingReplaced": {
			reason: "it was away for a moment", granted: []string{"a"}, want: never,
			answer: func(at time.Duration, _, _ string) (bool, error) {
				return !within(at, 55*time.Second, 95*time.Second), nil
			},
		},
		"RoleBindingComesAndGoes": {
			reason: "a new process each time is no help", granted: []string{"a"}, want: never,
			answer: func(at time.Duration, _, _ string) (bool, error) { return at%(20*time.Second) >= 10*time.Second, nil },
		},
		"NoAnswer": {
			reason: "silence is no refusal", granted: []string{"a"}, want: never,
			answer: func(time.Duration, string, string) (bool, error) { return false, silent },
		},
		"NoAnswerMeanwhile": {
			reason: "a refusal that is not confirmed waits for the next look", granted: []string{"a"}, want: 2*time.Minute + 40*time.Second,
			answer: func(at time.Duration, _, _ string) (bool, error) {
				if within(at, 75*time.Second, 100*time.Second) {
					return false, silent
				}
				return at < 10*time.Second, nil
			},
		},
		"Granted": {
			reason: "one more is taken up when that is certain", granted: []string{"a"}, missing: []string{"c"}, want: 70 * time.Second,
			answer: func(at time.Duration, namespace, _ string) (bool, error) {
				return namespace != "c" || at > 35*time.Second, nil
			},
		},
		"GrantedOneByOne": {
			reason: "one end is enough for both", granted: []string{"a"}, missing: []string{"c", "d"}, want: 60 * time.Second,
			answer: func(at time.Duration, namespace, _ string) (bool, error) {
				return at > 25*time.Second || namespace == "c" && at > 5*time.Second, nil
			},
		},
		"GrantedNowAndThen": {
			reason: "a process that ends again and again is kept waiting by the kubelet", granted: []string{"a"}, missing: []string{"c"}, quiet: true, want: never,
			answer: func(at time.Duration, _, _ string) (bool, error) { return at%(40*time.Second) >= 10*time.Second, nil },
		},
		"Unbound": {
			reason: "an API server that grants what is gone, or grants it otherwise, is asked by the next process", granted: []string{"a", "b"}, want: 100 * time.Second,
			unbound: func(namespace string) bool { return namespace == "b" },
			answer:  func(time.Duration, string, string) (bool, error) { return true, nil },
		},
		"NoSuspicion": {
			reason: "it asks for nothing by itself", granted: []string{"a"}, quiet: true, want: never,
			answer: func(time.Duration, string, string) (bool, error) { return false, nil },
		},
		"NoList": {
			reason: "a scope that is not a list has nothing to go on with", want: never,
			answer: func(time.Duration, string, string) (bool, error) { return false, nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			watched, err := scopedResources([]controller.Controller{imports(t)})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				a := &access{
					reviews: &timedReviews{begin: begin, answer: tc.answer}, watched: watched, logger: logr.Discard(), suspect: make(chan func(string) bool, 1),
				}
				ctx, stop := context.WithTimeout(t.Context(), never)
				defer stop()
				if !tc.quiet {
					go suspectEachMinute(ctx, a, tc.unbound)
				}
				a.watch(ctx, tc.granted, tc.missing, func(string, ...any) { stop() })
				if got := time.Since(begin); got != tc.want {
					t.Errorf("%s: it ends after %s, want %s", tc.reason, got, tc.want)
				}
			})
		})
	}
}

func suspectEachMinute(ctx context.Context, a *access, unbound func(string) bool) {
	for pause(ctx, time.Minute) {
		a.suspectLoss(unbound)
	}
}

func TestNamespacesWithoutRightsAreCounted(t *testing.T) {
	scope, err := shard.New([]string{"a", "b", "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := scopedResources([]controller.Controller{imports(t)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		until  map[string]time.Duration // when it is granted
		counts []float64                // every 10 seconds, from the beginning
	}{
		"All":  {reason: "nothing is missing", counts: []float64{0}},
		"Some": {reason: "it begins with the others", until: map[string]time.Duration{"b": time.Hour, "c": time.Hour}, counts: []float64{2}},
		"None": {
			reason: "it counts while it waits",
			until:  map[string]time.Duration{"a": 15 * time.Second, "b": time.Hour, "c": time.Hour}, counts: []float64{3, 3, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				gauge, err := newLacking(registry)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				a := &access{
					reviews: &timedReviews{begin: begin, answer: func(at time.Duration, namespace, _ string) (bool, error) { return at >= tc.until[namespace], nil }},
					scope:   scope, watched: watched, lacking: gauge, logger: logr.Discard(),
				}
				done := make(chan error, 1)
				go func() {
					_, _, err := a.granted(t.Context(), func() {})
					done <- err
				}()
				var counts []float64
				for range tc.counts {
					synctest.Wait()
					counts = append(counts, valueOf(t, registry))
					pause(t.Context(), accessPoll)
				}
				if diff := cmp.Diff(tc.counts, counts); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// valueOf returns the value of the one gauge of a registry.
func valueOf(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "archelon_namespaces_without_rights" {
		t.Fatalf("got %v, want archelon_namespaces_without_rights", families)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}
