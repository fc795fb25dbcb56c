package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
	"github.com/archelon-io/archelon/test/simulation"
)

// oracle says whether a cluster may use its identity, by the state of the server. It is written without the code that
// is tested: by the sentences of the proposal and of the policy.
func (w *world) oracle(user User) bool {
	ref := user.IdentityRef()
	if ref == nil {
		return true
	}
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if key.Namespace == "" {
		key.Namespace = user.GetNamespace()
	}
	identity, ok := w.server.Get(simulation.Key{Kind: identityGK, NamespacedName: key}).(*identityv1.OCIClusterIdentity)
	if !ok || ref.Kind != "OCIClusterIdentity" {
		return false
	}
	secretIn := identity.Spec.PrincipalSecret.Namespace
	switch {
	case identity.Spec.Type == "InstancePrincipal" && key.Namespace == "infra":
	case identity.Spec.Type == "UserPrincipal" && key.Namespace == "infra" && secretIn != "b":
	case identity.Spec.Type == "UserPrincipal" && key.Namespace == "a" && secretIn == "a":
	default:
		return false
	}
	raw, err := json.Marshal(identity.Spec.AllowedNamespaces)
	if err != nil {
		w.t.Fatal(err)
	}
	var labels map[string]string
	namespace, exists := w.server.Get(
		simulation.Key{Kind: namespaceGK, NamespacedName: types.NamespacedName{Name: user.GetNamespace()}},
	).(*corev1.Namespace)
	if exists {
		labels = namespace.Labels
	}
	team, in := labels["team"], user.GetNamespace()
	switch string(raw) {
	case `{}`:
		return true
	case `{"list":["a"]}`:
		return in == "a"
	case `{"list":["a","b"]}`:
		return in == "a" || in == "b"
	case `{"selector":{"matchLabels":{"team":"x"}}}`:
		return team == "x"
	case `{"list":["b"],"selector":{"matchLabels":{"team":"x"}}}`:
		return in == "b" || team == "x"
	case `{"selector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}`:
		return exists && team == ""
	default:
		return false
	}
}

func (w *world) users() []User {
	var users []User
	for _, kind := range []schema.GroupKind{clusterGK, managedGK} {
		for _, object := range w.server.Objects(kind) {
			if user, ok := object.(User); ok {
				users = append(users, user)
			}
		}
	}
	return users
}

// seen are the users that the process receives.
func (w *world) seen() []User {
	return slices.DeleteFunc(w.users(), func(user User) bool { return !w.scope.Owns(user.GetNamespace()) })
}

// check is what must hold at every moment.
func (w *world) check() {
	for _, write := range w.server.Writes {
		if write.Key.Kind != identityGK || !write.Status {
			w.t.Fatalf("it wrote %+v", write)
		}
	}
	w.server.Writes = nil
	for _, object := range w.server.Objects(identityGK) {
		identity, ok := object.(*identityv1.OCIClusterIdentity)
		if ok && w.foreign[identity.UID] && identity.Condition("Foreign") == nil {
			w.t.Fatalf("identity %s/%s has lost the condition of somebody else", identity.Namespace, identity.Name)
		}
	}
	users := w.seen()
	if len(users) == 0 {
		return
	}
	user := rapid.SampledFrom(users).Draw(w.t, "asks")
	w.checkPrincipal(user)
}

// checkPrincipal is what must hold of the principal that another controller gets for a cluster.
func (w *world) checkPrincipal(user User) {
	provider, err := w.principals.ConfigurationProvider(w.ctx, user.GetNamespace(), user.IdentityRef())
	refused, isRefused := errors.AsType[*oci.RefusedError](err)
	if provider != nil && !w.oracle(user) {
		w.t.Fatalf("%s %s got a principal that it must not have", user.GetNamespace(), user.GetName())
	}
	broken := isRefused && (refused.Reason == identityv1.SecretNotFoundReason || refused.Reason == identityv1.CredentialInvalidReason)
	if isRefused && !broken && w.oracle(user) {
		w.t.Fatalf("%s %s is refused: %+v", user.GetNamespace(), user.GetName(), refused)
	}
	// What is out of scope is not read.
	reads := user.IdentityRef() != nil && user.IdentityRef().Kind == "OCIClusterIdentity" &&
		(!isRefused || refused.Reason != identityv1.IdentityOutOfScopeReason)
	if w.trouble != nil && reads && (err == nil || isRefused) {
		w.t.Fatalf("an outage is reported as %v", err)
	}
	if err != nil {
		fmt.Fprintln(&w.printed, err)
	}
}

// checkEnd is what must hold when faults have stopped and everything has come to rest.
func (w *world) checkEnd() {
	w.Faulty, w.trouble = "", nil
	if !w.process.Settle(w.ctx, 2000) {
		w.t.Fatal("it does not come to rest")
	}
	for _, object := range w.server.Objects(identityGK) {
		if identity, _ := object.(*identityv1.OCIClusterIdentity); w.scope.Owns(identity.Namespace) {
			w.checkConditions(identity)
		}
	}
	for _, user := range w.seen() {
		if id := (userID{w.server.KeyOf(user).Kind.Kind, user.GetNamespace(), user.GetName()}); !w.told[id] {
			w.t.Fatalf("nobody was told of %v", id)
		}
		if user.IdentityRef() == nil {
			continue
		}
		if got, err := w.control.Resolver.Resolve(w.ctx, user); err != nil || got.Allowed != w.oracle(user) {
			w.t.Fatalf(
				"at rest %s/%s gets %+v, %v; want allowed %t", user.GetNamespace(), user.GetName(), got, err,
				w.oracle(user),
			)
		}
	}
	w.server.Writes = nil
	w.process.Start(w.ctx) // as a resync does
	before := w.requests
	if !w.process.Settle(w.ctx, 2000) || len(w.server.Writes) > 0 || w.requests != before {
		w.t.Fatalf("a settled world is not silent: writes %v, %d requests", w.server.Writes, w.requests-before)
	}
	w.checkSecrets()
}

func (w *world) checkConditions(identity *identityv1.OCIClusterIdentity) {
	key := client.ObjectKeyFromObject(identity).String()
	ready := identity.Condition(identityv1.ReadyCondition)
	if ready == nil {
		w.t.Fatalf("identity %s has no condition", key)
	}
	inUse := identity.Condition(identityv1.InUseCondition)
	if inUse == nil {
		w.t.Fatalf("identity %s has no condition InUse", key)
	}
	if w.scope.All() && inUse.Status == corev1.ConditionUnknown {
		w.t.Fatalf("all namespaces are seen, and identity %s says %q", key, inUse.Message)
	}
	for _, user := range w.users() {
		ref, name := user.IdentityRef(), user.GetNamespace()+"/"+user.GetName()
		if ref == nil || oci.KeyOf(ref, user.GetNamespace()).String() != key || len(w.users()) > maxListed {
			continue
		}
		if w.oracle(user) && inUse.Status == corev1.ConditionFalse {
			w.t.Fatalf("%s may use identity %s, which says %s %q", name, key, inUse.Status, inUse.Message)
		}
		if !w.scope.Owns(user.GetNamespace()) {
			continue
		}
		// One that is refused has the reason behind its name.
		name = w.server.KeyOf(user).Kind.Kind + " " + name
		allowed := strings.Contains(inUse.Message, name) && !strings.Contains(inUse.Message, name+" (")
		if allowed != w.oracle(user) || allowed && inUse.Status != corev1.ConditionTrue {
			w.t.Fatalf("%s may use identity %s: %t, which says %s %q", name, key, w.oracle(user), inUse.Status, inUse.Message)
		}
	}
	w.checkReady(identity, ready)
}

// checkReady says from the server's state what Ready has to be.
func (w *world) checkReady(identity *identityv1.OCIClusterIdentity, ready *identityv1.Condition) {
	ref, want := identity.Spec.PrincipalSecret, identityv1.ReadyReason
	secret, exists := w.server.Get(
		simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}},
	).(*corev1.Secret)
	raw, err := json.Marshal(identity.Spec.AllowedNamespaces)
	if err != nil {
		w.t.Fatal(err)
	}
	trusted := identity.Namespace == "infra"
	switch identity.Spec.Type {
	case "Nonsense":
		want = identityv1.PrincipalTypeUnknownReason
	case identityv1.InstancePrincipal:
		if !trusted {
			want = identityv1.PrincipalTypeForbiddenReason
		}
	default:
		switch {
		case ref.Namespace == "b" || !trusted && ref.Namespace != identity.Namespace:
			want = identityv1.SecretNamespaceForbiddenReason
		case !exists:
			want = identityv1.SecretNotFoundReason
		case len(secret.Data["key"]) == 0 || !matching(secret.Data):
			want = identityv1.CredentialInvalidReason
		}
	}
	if want == identityv1.ReadyReason && strings.Contains(string(raw), `"Is"`) {
		want = identityv1.SelectorInvalidReason
	}
	if ready.Reason != want || (ready.Status == corev1.ConditionTrue) != (want == identityv1.ReadyReason) {
		w.t.Fatalf(
			"identity %s/%s says %s %s (%s), want %s", identity.Namespace, identity.Name, ready.Status, ready.Reason,
			ready.Message, want,
		)
	}
}

func matching(data map[string][]byte) bool {
	for _, key := range []string{string(identitytest.PKCS1(identitytest.One())), string(identitytest.PKCS1(identitytest.Other()))} {
		if string(data["key"]) == key {
			pair := identitytest.One()
			if key == string(identitytest.PKCS1(identitytest.Other())) {
				pair = identitytest.Other()
			}
			return string(data["fingerprint"]) == identitytest.Fingerprint(&pair.PublicKey)
		}
	}
	return false
}

// checkSecrets looks for key material in everything that was printed, and stored elsewhere than in Secrets.
func (w *world) checkSecrets() {
	texts := []string{w.printed.String()}
	for _, kind := range []schema.GroupKind{identityGK, clusterGK, managedGK, namespaceGK} {
		for _, object := range w.server.Objects(kind) {
			raw, err := json.Marshal(object)
			if err != nil {
				w.t.Fatal(err)
			}
			texts = append(texts, string(raw))
		}
	}
	for _, object := range w.server.Objects(secretGK) {
		secret, _ := object.(*corev1.Secret)
		for _, value := range secret.Data {
			for line := range strings.Lines(string(value)) {
				w.checkAbsent(strings.TrimSpace(line), texts)
			}
		}
	}
}

// checkAbsent looks for a line of a Secret in texts. What is short can be there by chance.
func (w *world) checkAbsent(line string, texts []string) {
	if len(line) <= 12 {
		return
	}
	for _, form := range []string{line, base64.StdEncoding.EncodeToString([]byte(line))} {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, form) }) {
			w.t.Fatalf("%q of a Secret is somewhere else too", form)
		}
	}
}
