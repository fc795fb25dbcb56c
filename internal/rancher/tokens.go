package rancher

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// DefaultTokenName is the name of the registration token that Rancher makes for every v3 cluster, in
// the namespace of the name of that cluster.
const DefaultTokenName = "default-token"

// systemTokenName is the name of the token that Rancher switches its agent to.
const systemTokenName = "system"

// Keys of the Secret of a registration token.
const (
	tokenKey         = "token"
	previousTokenKey = "previousToken"
	graceEndKey      = "gracePeriodExpiresAt"
)

var (
	// placeholder is where Rancher's manifest URL wants the token.
	placeholder = regexp.MustCompile(`\{token\}|%7[Bb]token%7[Dd]`)
	// tokenPattern is what a token may consist of: anything else could change the URL's meaning.
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,512}$`)
)

// NewRegistrationToken returns an empty registration token, to be read into or to watch. It is
// unstructured because the Go type that Rancher publishes lacks status.tokenSecretName.
func NewRegistrationToken() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(registrationTokenKind(""))
	return u
}

// registrationTokenKind returns the kind of registration tokens, or that of their list.
func registrationTokenKind(suffix string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: "ClusterRegistrationToken" + suffix}
}

// Tokens reads Rancher's registration tokens.
type Tokens struct {
	cached client.Reader
	live   client.Reader
	clock  clock.PassiveClock
}

// NewTokens returns a reader of registration tokens. The tokens come from cached, which must answer
// for unstructured objects (a manager's cache does; its client reads those live by default); their
// Secrets come from live at each use, because Rancher rotates them and no cache should hold them.
func NewTokens(cached, live client.Reader) (*Tokens, error) {
	if cached == nil || live == nil {
		return nil, errors.New("registration tokens need a cached and a live reader")
	}
	return &Tokens{cached: cached, live: live, clock: clock.RealClock{}}, nil
}

// Registration returns the registration of a v3 Rancher cluster from its default token. It knows both
// ways in which Rancher publishes it: in a complete manifest URL, and in a Secret that completes it.
// A token, URL or Secret that is not there yet is a Problem that a watch ends.
func (t *Tokens) Registration(ctx context.Context, cluster string) (Registration, error) {
	crt, manifestURL, err := t.published(ctx, cluster)
	if err != nil {
		return Registration{}, err
	}
	if !placeholder.MatchString(manifestURL) {
		tokens := slices.DeleteFunc([]string{statusField(crt, "token"), tokenInURL(manifestURL, cluster)},
			func(token string) bool { return token == "" })
		return newRegistration(cluster, manifestURL, slices.Compact(tokens))
	}

	tokens, err := t.secretTokens(ctx, crt)
	if err != nil {
		return Registration{}, err
	}
	return newRegistration(cluster, placeholder.ReplaceAllLiteralString(manifestURL, tokens[0]), tokens)
}

// published returns the default token of a v3 Rancher cluster and its manifest URL, which may lack the token.
func (t *Tokens) published(ctx context.Context, cluster string) (*unstructured.Unstructured, string, error) {
	crt := NewRegistrationToken()
	err := t.cached.Get(ctx, client.ObjectKey{Namespace: cluster, Name: DefaultTokenName}, crt)
	if apierrors.IsNotFound(err) {
		return nil, "", waitFor(archelonv1.RegistrationTokenMissingReason,
			"Waiting for Rancher to create ClusterRegistrationToken %s/%s, usually less than 10 seconds. After a minute, check the log of Rancher", cluster, DefaultTokenName)
	}
	if err != nil {
		return nil, "", fmt.Errorf("getting registration token %s/%s: %w", cluster, DefaultTokenName, err)
	}
	manifestURL := statusField(crt, "manifestUrl")
	if manifestURL == "" {
		return nil, "", waitFor(archelonv1.RegistrationURLMissingReason,
			"ClusterRegistrationToken %s/%s has no manifest URL yet. Check that Rancher's setting server-url is set", cluster, DefaultTokenName)
	}
	return crt, manifestURL, nil
}

// Accepted returns all tokens by which an agent of a v3 Rancher cluster may connect: those of the default
// token and those of the token that Rancher switches its agent to after the first contact. Registration
// tokens that are not complete yet contribute nothing, nor do those of others whose Secret must not be read. All of
// it is read live: it is needed for the repair of an agent only, so no cache needs to hold more than default
// tokens. Never log the result.
func (t *Tokens) Accepted(ctx context.Context, cluster string) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(registrationTokenKind("List"))
	if err := t.live.List(ctx, list, client.InNamespace(cluster)); err != nil {
		return nil, fmt.Errorf("listing registration tokens in namespace %s: %w", cluster, err)
	}
	var accepted []string
	for i := range list.Items {
		crt := &list.Items[i]
		if token := statusField(crt, "token"); token != "" {
			accepted = append(accepted, token)
		}
		if statusField(crt, "tokenSecretName") == "" {
			continue
		}
		tokens, err := t.secretTokens(ctx, crt)
		if _, ok := errors.AsType[*outcome.Problem](err); ok {
			continue
		}
		// An isolated instance may read the Secrets of Rancher's own tokens only. Turtles and users make others, which no
		// agent that was installed here connects with; they must not keep it from being repaired. Of Rancher's own the right
		// is missed, and that is told.
		if apierrors.IsForbidden(err) && crt.GetName() != DefaultTokenName && crt.GetName() != systemTokenName {
			continue
		}
		if err != nil {
			return nil, err
		}
		accepted = append(accepted, tokens...)
	}
	slices.Sort(accepted)
	return slices.Compact(accepted), nil
}

// secretTokens returns the tokens in the Secret of a registration token, at least one, the current one first.
func (t *Tokens) secretTokens(ctx context.Context, crt *unstructured.Unstructured) ([]string, error) {
	name := statusField(crt, "tokenSecretName")
	if name == "" {
		return nil, waitFor(archelonv1.TokenSecretMissingReason,
			"ClusterRegistrationToken %s/%s does not name its Secret yet. After a minute, check the log of Rancher", crt.GetNamespace(), crt.GetName())
	}
	secret := &corev1.Secret{}
	err := t.live.Get(ctx, client.ObjectKey{Namespace: crt.GetNamespace(), Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, waitFor(archelonv1.TokenSecretMissingReason,
			"Secret %s/%s of ClusterRegistrationToken %s does not exist. After a minute, delete the ClusterRegistrationToken: Rancher creates it again",
			crt.GetNamespace(), name, crt.GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("getting Secret %s/%s of registration token %s: %w", crt.GetNamespace(), name, crt.GetName(), err)
	}

	current := string(secret.Data[tokenKey])
	if !tokenPattern.MatchString(current) {
		return nil, waitFor(archelonv1.TokenSecretEmptyReason,
			"Secret %s/%s of ClusterRegistrationToken %s has no valid token. Delete the ClusterRegistrationToken: Rancher creates it again",
			crt.GetNamespace(), name, crt.GetName())
	}
	tokens := []string{current}
	if previous := string(secret.Data[previousTokenKey]); tokenPattern.MatchString(previous) && t.inGrace(secret) {
		tokens = append(tokens, previous)
	}
	return tokens, nil
}

// inGrace reports whether the previous token is still accepted. Without a readable end it is not
// counted on: at worst an agent that is disconnected anyway gets the current token.
func (t *Tokens) inGrace(secret *corev1.Secret) bool {
	end, err := time.Parse(time.RFC3339, string(secret.Data[graceEndKey]))
	return err == nil && t.clock.Now().Before(end)
}

// statusField returns a string of the status; empty when it is absent or no string.
func statusField(u *unstructured.Unstructured, name string) string {
	value, _, err := unstructured.NestedString(u.Object, "status", name)
	if err != nil {
		return ""
	}
	return value
}

// tokenInURL returns the token in a complete manifest URL, which ends in <token>_<cluster>.yaml.
func tokenInURL(manifestURL, cluster string) string {
	u, err := url.Parse(manifestURL)
	if err != nil {
		return ""
	}
	file := u.Path[strings.LastIndex(u.Path, "/")+1:]
	token, found := strings.CutSuffix(file, "_"+cluster+".yaml")
	if !found {
		return ""
	}
	return token
}

// waitFor returns a Problem that the watch of an object ends.
func waitFor(reason, format string, args ...any) *outcome.Problem {
	return &outcome.Problem{Kind: outcome.KindWait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}
