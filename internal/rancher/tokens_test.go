package rancher

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/archelon-io/archelon/internal/outcome"
	"github.com/archelon-io/archelon/test/problem"
)

const (
	testCluster = "c-abcde"
	testToken   = "bcdfghjklmnpqrstvwxz2456789bcdfghjklmnpqrstvwxz2456789"
	oldToken    = "zzzzzzjklmnpqrstvwxz2456789bcdfghjklmnpqrstvwxz2456789"
)

func crt(name string, status map[string]any) *unstructured.Unstructured {
	u := NewRegistrationToken()
	u.SetNamespace(testCluster)
	u.SetName(name)
	if status != nil {
		u.Object["status"] = status
	}
	return u
}

func tokenSecret(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testCluster, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

func tokensOf(t *testing.T, objects ...client.Object) *Tokens {
	t.Helper()
	// The Go type of registration tokens is left out: the fake would prune what it does not know.
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(registrationTokenKind(""), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(registrationTokenKind("List"), &unstructured.UnstructuredList{})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	tokens, err := NewTokens(c, c)
	if err != nil {
		t.Fatal(err)
	}
	tokens.clock = clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	return tokens
}

func TestRegistration(t *testing.T) {
	placeholderURL := "https://rancher.example.com/v3/import/{token}_c-abcde.yaml"
	inSecret := map[string]any{"manifestUrl": placeholderURL, "tokenSecretName": "crt-token-default-token"}
	wantURL := "https://rancher.example.com/v3/import/" + testToken + "_c-abcde.yaml"

	cases := map[string]struct {
		reason     string
		objects    []client.Object
		wantTokens []string
		refuse     string
	}{
		"PlainMode": {
			reason:     "older Ranchers publish the complete URL",
			objects:    []client.Object{crt("default-token", map[string]any{"manifestUrl": wantURL, "token": testToken})},
			wantTokens: []string{testToken},
		},
		"PlainModeWithoutToken": {
			reason:     "the token is known from the URL",
			objects:    []client.Object{crt("default-token", map[string]any{"manifestUrl": wantURL})},
			wantTokens: []string{testToken},
		},
		"SecretMode": {
			reason:     "newer Ranchers keep the token in a Secret",
			objects:    []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{"token": testToken})},
			wantTokens: []string{testToken},
		},
		"EncodedPlaceholder": {
			reason: "a URL type may have encoded the braces",
			objects: []client.Object{
				crt("default-token", map[string]any{
					"manifestUrl": "https://rancher.example.com/v3/import/%7Btoken%7D_c-abcde.yaml", "tokenSecretName": "crt-token-default-token",
				}),
				tokenSecret("crt-token-default-token", map[string]string{"token": testToken}),
			},
			wantTokens: []string{testToken},
		},
		"PreviousTokenInGrace": {
			reason: "after a rotation both tokens are accepted for a while",
			objects: []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{
				"token": testToken, "previousToken": oldToken, "gracePeriodExpiresAt": "2026-05-01T12:00:01Z",
			})},
			wantTokens: []string{testToken, oldToken},
		},
		"PreviousTokenAfterGrace": {
			reason: "then only the new one",
			objects: []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{
				"token": testToken, "previousToken": oldToken, "gracePeriodExpiresAt": "2026-05-01T12:00:00Z",
			})},
			wantTokens: []string{testToken},
		},
		"PreviousTokenWithoutEnd": {
			reason: "a grace period without an end is not counted on",
			objects: []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{
				"token": testToken, "previousToken": oldToken,
			})},
			wantTokens: []string{testToken},
		},
		"NoToken":     {reason: "Rancher needs a moment", refuse: "RegistrationTokenMissing"},
		"OtherToken":  {reason: "another token is not the default one", objects: []client.Object{crt("system", inSecret)}, refuse: "RegistrationTokenMissing"},
		"NoStatus":    {reason: "a new token is empty", objects: []client.Object{crt("default-token", nil)}, refuse: "RegistrationURLMissing"},
		"NoURL":       {reason: "without server-url there is none", objects: []client.Object{crt("default-token", map[string]any{"token": testToken})}, refuse: "RegistrationURLMissing"},
		"URLNoString": {reason: "a value of another type is none", objects: []client.Object{crt("default-token", map[string]any{"manifestUrl": int64(7)})}, refuse: "RegistrationURLMissing"},
		"PlainHTTP": {
			reason: "a token must not cross the network in the clear", refuse: "RegistrationURLInvalid",
			objects: []client.Object{crt("default-token", map[string]any{"manifestUrl": "http://rancher.example.com/v3/import/" + testToken + "_c-abcde.yaml"})},
		},
		"NoURLAtAll": {
			reason: "what is no URL is refused without quoting it", refuse: "RegistrationURLInvalid",
			objects: []client.Object{crt("default-token", map[string]any{"manifestUrl": "https://\x7f" + testToken})},
		},
		"SecretNotNamed": {
			reason: "the status is not complete yet", refuse: "TokenSecretMissing",
			objects: []client.Object{crt("default-token", map[string]any{"manifestUrl": placeholderURL})},
		},
		"SecretMissing": {reason: "the Secret was deleted", objects: []client.Object{crt("default-token", inSecret)}, refuse: "TokenSecretMissing"},
		"SecretEmpty": {
			reason: "a Secret without a token is of no use", refuse: "TokenSecretEmpty",
			objects: []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{"other": testToken})},
		},
		"SecretWithPath": {
			reason: "a token cannot lead the request elsewhere", refuse: "TokenSecretEmpty",
			objects: []client.Object{crt("default-token", inSecret), tokenSecret("crt-token-default-token", map[string]string{"token": "../" + testToken})},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			registration, err := tokensOf(t, tc.objects...).Registration(t.Context(), testCluster)
			if tc.refuse != "" {
				wantProblem(t, err, outcome.KindWait, tc.refuse)
				wantNoSecret(t, err)
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if registration.ManifestURL() != wantURL {
				t.Errorf("%s: want URL %s, got %s", tc.reason, wantURL, registration.ManifestURL())
			}
			if diff := cmp.Diff(tc.wantTokens, registration.Tokens()); diff != "" {
				t.Errorf("%s: tokens: %s", tc.reason, diff)
			}
			wantNoSecret(t, registration)
		})
	}
}

// wantNoSecret fails the test when a value shows a token.
func wantNoSecret(t *testing.T, value any) {
	t.Helper()
	problem.Hides(t, value, testToken, oldToken)
}

func TestRegistrationHidesItselfInsideOthers(t *testing.T) {
	registration, err := newRegistration(testCluster, "https://rancher.example.com/"+testToken, []string{testToken})
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, struct{ inner Registration }{registration})
	wantNoSecret(t, struct{ Outer Registration }{registration})
	wantNoSecret(t, []Registration{registration})
	wantNoSecret(t, &registration)
	if got := (Registration{}).ManifestURL() + strings.Join((Registration{}).Tokens(), ""); got != "" {
		t.Errorf("the zero value is not empty: %s", got)
	}
}

func TestAccepted(t *testing.T) {
	status := func(secret string) map[string]any { return map[string]any{"tokenSecretName": secret} }
	tokens := tokensOf(t,
		crt("default-token", status("crt-token-default-token")), tokenSecret("crt-token-default-token", map[string]string{"token": testToken}),
		crt("system", status("crt-token-system")), tokenSecret("crt-token-system", map[string]string{
			"token": "system-token", "previousToken": oldToken, "gracePeriodExpiresAt": "2026-05-02T00:00:00Z",
		}),
		crt("plain", map[string]any{"token": "plain-token"}),
		crt("without-secret", status("missing")),
		crt("empty", nil),
		tokenSecret("unrelated", map[string]string{"token": "unrelated"}),
	)
	got, err := tokens.Accepted(t.Context(), testCluster)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{testToken, "plain-token", "system-token", oldToken}, got); diff != "" {
		t.Error(diff)
	}
	none, err := tokens.Accepted(t.Context(), "c-other")
	if err != nil || len(none) != 0 {
		t.Errorf("tokens of another cluster: %d, %v", len(none), err)
	}
}

// TestAcceptedWithoutRights reads as an isolated instance, which may get the Secrets of
// Rancher's own tokens by their names.
func TestAcceptedWithoutRights(t *testing.T) {
	status := func(secret string) map[string]any { return map[string]any{"tokenSecretName": secret} }
	tokens := tokensOf(t,
		crt("c-abcde", status("crt-token-c-abcde")), tokenSecret("crt-token-c-abcde", map[string]string{"token": oldToken}),
		crt("default-token", status("crt-token-default-token")), tokenSecret("crt-token-default-token", map[string]string{"token": testToken}),
		crt("system", status("crt-token-system")),
	)
	for name, tc := range map[string]struct {
		reason  string
		secret  string
		refusal error
		fails   bool
	}{
		"Forbidden": {reason: "what must not be read is left out", secret: "crt-token-c-abcde", refusal: apierrors.NewForbidden(corev1.Resource("secrets"), "crt-token-c-abcde", nil)},
		"Failed":    {reason: "nobody knows what it would have said", secret: "crt-token-c-abcde", refusal: apierrors.NewInternalError(errors.New("etcd")), fails: true},
		"Default":   {reason: "this one has to be readable", secret: "crt-token-default-token", refusal: apierrors.NewForbidden(corev1.Resource("secrets"), "crt-token-default-token", nil), fails: true},
		"System":    {reason: "so has this one", secret: "crt-token-system", refusal: apierrors.NewForbidden(corev1.Resource("secrets"), "crt-token-system", nil), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			live, ok := tokens.live.(client.WithWatch)
			if !ok {
				t.Fatal("the fake client does not watch")
			}
			limited := *tokens
			limited.live = interceptor.NewClient(live, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if key.Name == tc.secret {
						return tc.refusal
					}
					return c.Get(ctx, key, object, options...)
				},
			})
			got, err := limited.Accepted(t.Context(), testCluster)
			if (err != nil) != tc.fails {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if !tc.fails && !slices.Equal(got, []string{testToken}) {
				t.Errorf("%s: got %d tokens", tc.reason, len(got))
			}
		})
	}
}

func TestTokensFingerprint(t *testing.T) {
	status := map[string]any{"manifestUrl": "https://rancher.example.com/v3/import/" + testToken + "_c-abcde.yaml"}
	first, err := tokensOf(t, crt("default-token", status)).Fingerprint(t.Context(), testCluster)
	if err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, first)
	status["manifestUrl"] = "https://other.example.com/v3/import/" + testToken + "_c-abcde.yaml"
	second, err := tokensOf(t, crt("default-token", status)).Fingerprint(t.Context(), testCluster)
	if err != nil || first == second {
		t.Errorf("another URL does not change the fingerprint: %v", err)
	}
	_, err = tokensOf(t).Fingerprint(t.Context(), testCluster)
	wantProblem(t, err, outcome.KindWait, "RegistrationTokenMissing")
}

func TestFilledInFor(t *testing.T) {
	const server = "https://rancher.example.com"
	cases := map[string]struct {
		reason   string
		manifest string
		server   string
		want     bool
	}{
		"Same":        {reason: "nothing changed", manifest: server + "/v3/import/{token}_c-abcde.yaml", server: server, want: true},
		"Path":        {reason: "Rancher drops the path of server-url", manifest: server + "/v3/import/{token}_c-abcde.yaml", server: server + "/below/", want: true},
		"Case":        {reason: "names of hosts have no case", manifest: "https://Rancher.example.com/v3/import/x_c-abcde.yaml", server: server, want: true},
		"Plain":       {reason: "older Ranchers write the token into the URL", manifest: server + "/v3/import/" + testToken + "_c-abcde.yaml", server: server, want: true},
		"OtherHost":   {reason: "Rancher has moved", manifest: "https://old.example.com/v3/import/{token}_c-abcde.yaml", server: server},
		"OtherPort":   {reason: "a port belongs to the address", manifest: server + ":8443/v3/import/{token}_c-abcde.yaml", server: server},
		"OtherScheme": {reason: "server-url was corrected", manifest: "http://rancher.example.com/v3/import/{token}_c-abcde.yaml", server: server},
		"NoURL":       {reason: "what is no URL is filled in again", manifest: "https://\x7f", server: server},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			parsed, err := url.Parse(tc.server)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tokensOf(t, crt("default-token", map[string]any{"manifestUrl": tc.manifest})).FilledInFor(t.Context(), testCluster, parsed)
			if err != nil || got != tc.want {
				t.Errorf("%s: FilledInFor() = %t, %v, want %t", tc.reason, got, err, tc.want)
			}
		})
	}
	t.Run("NoToken", func(t *testing.T) {
		_, err := tokensOf(t).FilledInFor(t.Context(), testCluster, &url.URL{Scheme: "https", Host: "rancher.example.com"})
		if problem, ok := errors.AsType[*outcome.Problem](err); !ok || problem.Reason != "RegistrationTokenMissing" {
			t.Errorf("FilledInFor() without a token: %v", err)
		}
	})
}
