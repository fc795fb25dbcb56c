package rancher

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/randomtoken"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Keys of a token Secret beside the token, and the default time to live.
const (
	previousTokenKey = "previousToken"
	graceKey         = "gracePeriodExpiresAt"
	expiresKey       = "expiresAt"
	tokenTTL         = 30 * 24 * time.Hour
)

func (r *reactor) setupTokens(_ context.Context, mgr ctrl.Manager) error {
	// A change of a v3 Cluster makes Rancher look at the tokens in its namespace again.
	ofCluster := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		crts := newList(tokenGVK)
		if err := r.client.List(ctx, crts, client.InNamespace(obj.GetName())); err != nil {
			r.log.Error(err, "listing registration tokens", "cluster", obj.GetName())
			return nil
		}
		var out []reconcile.Request
		for i := range crts.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&crts.Items[i])})
		}
		return out
	})
	ofSecret := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		name := strings.TrimPrefix(obj.GetName(), tokenSecretHead)
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	})
	tokenSecrets := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return strings.HasPrefix(obj.GetName(), tokenSecretHead)
	})
	return ctrl.NewControllerManagedBy(mgr).Named("registration-token").
		For(newObject(tokenGVK)).
		Watches(newObject(clusterGVK), ofCluster).
		WatchesMetadata(&corev1.Secret{}, ofSecret, builder.WithPredicates(tokenSecrets)).
		WatchesRawSource(r.crts.source()).
		Complete(r.reconciler("ClusterRegistrationToken", r.reconcileToken))
}

// tokenOwner is the key under which waits of a ClusterRegistrationToken are kept.
func tokenOwner(key types.NamespacedName) string { return "token/" + key.String() }

func (r *reactor) reconcileToken(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	crt := newObject(tokenGVK)
	if err := r.client.Get(ctx, key, crt); err != nil {
		if apierrors.IsNotFound(err) {
			r.fresh.forget(named(crt, key))
			r.tokens.forget(key)
			r.delays.forget(tokenOwner(key), "")
			return 0, nil
		}
		return 0, err
	}
	if r.fresh.stale(crt) {
		return conflictDelay, nil
	}
	if !crt.GetDeletionTimestamp().IsZero() {
		r.tokens.forget(key)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: tokenSecretHead + key.Name}}
		if err := r.api.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting the token of %s: %w", key, err)
		}
		return 0, r.write(ctx, crt, dropFinalizer(finalizerToken))
	}
	if text(crt, "spec", "clusterName") == "" {
		return 0, nil
	}
	if !filled(crt) {
		if r.holdsTokens() {
			return 0, nil // the end of the hold wakes it
		}
		if wait := r.delays.remaining(tokenOwner(key), "token", r.opts.Timings.Token); wait > 0 {
			return wait, nil
		}
	}
	if err := r.write(ctx, crt, addFinalizer(finalizerToken)); err != nil {
		return 0, err
	}
	if r.opts.TokenMode == TokenPlain {
		return r.fillPlain(ctx, key, crt)
	}
	return r.fillPlaceholder(ctx, key, crt)
}

func filled(crt *unstructured.Unstructured) bool {
	return text(crt, "status", "token") != "" || text(crt, "status", "tokenSecretName") != ""
}

// fillPlain writes the token first and the URL with it in a second write.
func (r *reactor) fillPlain(ctx context.Context, key types.NamespacedName, crt *unstructured.Unstructured) (time.Duration, error) {
	token := text(crt, "status", "token")
	if token == "" {
		var err error
		if token, err = randomtoken.Generate(); err != nil {
			return 0, fmt.Errorf("generating a token: %w", err)
		}
		if err := r.writeStatus(ctx, crt, set(token, "status", "token")); err != nil {
			return 0, err
		}
	}
	r.tokens.set(key, text(crt, "spec", "clusterName"), tokenPair{current: token})
	if wait := r.delays.remaining(tokenOwner(key), "url", r.opts.Timings.URL); wait > 0 {
		return wait, nil
	}
	commands, wait, err := r.commands(ctx, crt, token)
	if err != nil || wait > 0 {
		return wait, err
	}
	return 0, r.writeStatus(ctx, crt, commands)
}

// fillPlaceholder keeps the token in a Secret and leaves its place in the URL open.
func (r *reactor) fillPlaceholder(ctx context.Context, key types.NamespacedName, crt *unstructured.Unstructured) (time.Duration, error) {
	expires, err := r.ensureTokenSecret(ctx, key, crt)
	if err != nil {
		return 0, err
	}
	commands, wait, err := r.commands(ctx, crt, placeholder)
	if err != nil {
		return 0, err
	}
	return wait, r.writeStatus(ctx, crt, func(u *unstructured.Unstructured) {
		set(tokenSecretHead+key.Name, "status", "tokenSecretName")(u)
		set("", "status", "token")(u)
		if expires != "" {
			set(expires, "status", "expiresAt")(u)
		}
		if wait == 0 {
			commands(u)
		}
	})
}

// ensureTokenSecret makes the Secret and the index of valid tokens agree and returns when the token
// expires, or "" if nothing changed since the last call.
func (r *reactor) ensureTokenSecret(ctx context.Context, key types.NamespacedName, crt *unstructured.Unstructured) (string, error) {
	name := types.NamespacedName{Namespace: key.Namespace, Name: tokenSecretHead + key.Name}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.client.Get(ctx, name, seen); err == nil && r.tokens.version(key) == seen.ResourceVersion {
		return "", nil
	}
	secret := &corev1.Secret{}
	err := r.api.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		secret, err = r.createTokenSecret(ctx, name, crt)
	}
	if err != nil {
		return "", fmt.Errorf("keeping the token of %s: %w", key, err)
	}
	pair := tokenPair{
		current: string(secret.Data[tokenKey]),
		version: secret.ResourceVersion,
	}
	if grace, err := time.Parse(time.RFC3339, string(secret.Data[graceKey])); err == nil {
		pair.previous, pair.graceUntil = string(secret.Data[previousTokenKey]), grace
	}
	r.tokens.set(key, text(crt, "spec", "clusterName"), pair)
	return string(secret.Data[expiresKey]), nil
}

func (r *reactor) createTokenSecret(ctx context.Context, name types.NamespacedName, crt *unstructured.Unstructured) (*corev1.Secret, error) {
	token := text(crt, "status", "token") // of a Rancher that kept it there
	if token == "" {
		var err error
		if token, err = randomtoken.Generate(); err != nil {
			return nil, err
		}
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace,
			Name:      name.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: tokenGVK.GroupVersion().String(),
				Kind:       tokenGVK.Kind,
				Name:       crt.GetName(),
				UID:        crt.GetUID(),
			}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			tokenKey:   []byte(token),
			expiresKey: []byte(crt.GetCreationTimestamp().Add(tokenTTL).UTC().Format(time.RFC3339)),
		},
	}
	return secret, r.api.Create(ctx, secret)
}

// commands returns the change that fills in the URL and the commands. Without a server URL they
// stay as they are until something else wakes the token; without the cluster it waits.
func (r *reactor) commands(ctx context.Context, crt *unstructured.Unstructured, token string) (mutate, time.Duration, error) {
	cluster := text(crt, "spec", "clusterName")
	if err := r.client.Get(ctx, client.ObjectKey{Name: cluster}, newObject(clusterGVK)); err != nil {
		return func(*unstructured.Unstructured) {}, r.opts.Timings.Poll, client.IgnoreNotFound(err)
	}
	server, err := setting(ctx, r.client, settingServerURL)
	if err != nil {
		return nil, 0, err
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return nil, 0, fmt.Errorf("parsing setting %s: %w", settingServerURL, err)
	}
	if parsed.Host == "" {
		return func(*unstructured.Unstructured) {}, 0, nil
	}
	base := parsed.Scheme + "://" + parsed.Host
	manifest := base + "/v3/import/" + token + "_" + cluster + ".yaml"
	node := " -fL " + base + "/system-agent-install.sh | sudo sh -s - --server " + base + " --token " + token
	windows := " -fL " + base + "/wins-agent-install.ps1 -o install.ps1; ./install.ps1 -Server " + base + " -Token " + token
	return func(u *unstructured.Unstructured) {
		for field, value := range map[string]string{
			"manifestUrl":                manifest,
			"command":                    "kubectl apply -f " + manifest,
			"insecureCommand":            "curl --insecure -sfL " + manifest + " | kubectl apply -f -",
			"nodeCommand":                "curl" + node,
			"insecureNodeCommand":        "curl --insecure" + node,
			"windowsNodeCommand":         "curl.exe" + windows,
			"insecureWindowsNodeCommand": "curl.exe --insecure" + windows,
		} {
			set(value, "status", field)(u)
		}
	}, 0, nil
}
