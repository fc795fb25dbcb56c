// Package scrape lets those read metrics who may: the API server says who a token belongs to (TokenReview), and whether
// that user may get the path (SubjectAccessReview).
package scrape

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// asking bounds how long the API server may take for both answers.
	asking = 10 * time.Second
	// remembered is how long one who may read is not asked about again. known is how long it is known as a reader, and
	// readers how many are. Nobody else is, so that nobody else can fill the memory.
	remembered = time.Minute
	known      = time.Hour
	readers    = 64
	// perSecond and atOnce bound the questions about others. The API server counts them as the manager's: strangers with
	// made-up tokens would have its other requests wait there.
	perSecond = 5
	atOnce    = 20
	// authenticated is the group of all whom the API server knows.
	authenticated = "system:authenticated"
)

// Only is a filter for a metrics server (metricsserver.Options.FilterProvider): it passes requests on whose
// token the API server knows, of users that may send them, and answers others with 401 or 403, with 429 if there
// are too many of them, or with 500 while the API server does not answer. It needs the verb create on
// tokenreviews and subjectaccessreviews.
//
// filters.WithAuthenticationAndAuthorization of controller-runtime does the same by the machinery of an API server
// (ADR 0063).
func Only(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	return only(config, client, clock.RealClock{})
}

func only(config *rest.Config, client *http.Client, now clock.PassiveClock) (metricsserver.Filter, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // A reader does not wait behind strangers. These have a limit of their own.
	authentication, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("building a client that asks who a token belongs to: %w", err)
	}
	authorization, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("building a client that asks what a user may do: %w", err)
	}
	d := &door{
		tokens: authentication.TokenReviews(), access: authorization.SubjectAccessReviews(),
		clock: now, readers: cache.NewLRUExpireCacheWithClock(readers, now),
		others: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(perSecond, atOnce, now),
	}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			switch status, err := d.admits(request); {
			case err != nil:
				log.Error(err, "Cannot find out whether somebody may read metrics", "path", request.URL.Path)
				http.Error(w, "the API server did not say whether you may", status)
			case status != http.StatusOK:
				log.V(1).Info("Refused to show metrics", "path", request.URL.Path, "status", status)
				http.Error(w, http.StatusText(status), status)
			default:
				metrics.ServeHTTP(w, request)
			}
		}), nil
	}, nil
}

// door is who may enter.
type door struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	clock  clock.PassiveClock
	// readers has when it was last said of a visit that it may happen.
	readers *cache.LRUExpireCache
	others  flowcontrol.PassiveRateLimiter
}

// visit is a request as it is remembered, without the token itself.
type visit struct {
	token      [sha256.Size]byte
	verb, path string
}

// admits returns the status that a request is answered with, 200 for one that is passed on.
func (d *door) admits(request *http.Request) (int, error) {
	token := bearer(request)
	if token == "" {
		return http.StatusUnauthorized, nil
	}
	asks := visit{sha256.Sum256([]byte(token)), strings.ToLower(request.Method), request.URL.Path}
	said, reads := d.readers.Get(asks)
	if at, _ := said.(time.Time); reads && d.clock.Since(at) < remembered {
		return http.StatusOK, nil
	}
	if !reads && !d.others.TryAccept() {
		return http.StatusTooManyRequests, nil
	}
	status, err := d.ask(request.Context(), token, asks)
	switch {
	case err != nil: // It may be a reader still.
	case status == http.StatusOK:
		d.readers.Add(asks, d.clock.Now(), known)
	default:
		d.readers.Remove(asks)
	}
	return status, err
}

// ask has the API server say what a request is answered with.
func (d *door) ask(ctx context.Context, token string, asks visit) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	asked := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	who, err := d.tokens.Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking who a token belongs to: %w", err)
	}
	if !who.Status.Authenticated || who.Status.User.Username == "" {
		return http.StatusUnauthorized, nil
	}
	may, err := d.access.Create(ctx, review(who.Status.User, asks), metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking what %q may do: %w", who.Status.User.Username, err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// bearer returns the token of a request, "" if it has none.
func bearer(request *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(request.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// review asks whether a user may do what is asked for.
func review(who authenticationv1.UserInfo, asks visit) *authorizationv1.SubjectAccessReview {
	groups := slices.Clone(who.Groups)
	if !slices.Contains(groups, authenticated) {
		groups = append(groups, authenticated)
	}
	extra := make(map[string]authorizationv1.ExtraValue, len(who.Extra))
	for key, values := range who.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: asks.verb, Path: asks.path},
	}}
}
