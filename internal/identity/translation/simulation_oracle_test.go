package translation

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/test/simulation"
)

// expected is what the oracle says of a credential, by the state of the server. It is written without the code that is
// tested.
type expected struct {
	// oci is whether it is for OCI and not being deleted. Data are nil if it cannot be translated.
	oci  bool
	data map[string][]byte
	// keyless is whether it has no working key, whatever its region is.
	keyless bool
	// regionless is whether it names no region.
	regionless bool
}

func (w *world) oracle(name string) expected {
	credential := w.credential(name)
	if credential == nil || credential.DeletionTimestamp != nil {
		return expected{}
	}
	driver, annotated := credential.Annotations["provisioning.cattle.io/driver"]
	_, part := credential.Data["ocicredentialConfig-tenancyId"]
	if driver != "oracle" && driver != "oci" && (annotated || !part) {
		return expected{}
	}
	region := credential.Annotations["archelon.io/oci-region"]
	is := expected{oci: true, regionless: region == "", keyless: true}
	for _, key := range theKeysList() {
		if !maps.EqualFunc(credential.Data, credentialData(key), slices.Equal) {
			continue
		}
		if is.keyless = false; region != "evil/#" {
			is.data = principalData(key, region)
		}
	}
	return is
}

// snapshot is all that there is on the server.
func (w *world) snapshot() map[simulation.Key]client.Object {
	all := map[simulation.Key]client.Object{}
	for _, object := range append(w.server.Objects(secretGK), w.server.Objects(identityGK)...) {
		all[w.server.KeyOf(object)] = object
	}
	return all
}

// checkStep looks at what one run of the controller has changed.
func (w *world) checkStep(before map[simulation.Key]client.Object) {
	after := w.snapshot()
	keys := map[simulation.Key]bool{}
	for _, state := range []map[simulation.Key]client.Object{before, after} {
		for key := range state {
			keys[key] = true
		}
	}
	for key := range keys {
		was, is := before[key], after[key]
		switch {
		case was != nil && is != nil && was.GetResourceVersion() == is.GetResourceVersion():
		case key.Namespace == CredentialNamespace:
			w.checkCredential(key, was, is)
		case was != nil && was.GetLabels()[infrav1.CredentialUIDLabel] == "":
			w.t.Fatalf("%s is somebody else's, and it was changed", key)
		case is == nil:
			w.checkRemoval(key, was, before)
		case key.Kind == secretGK:
			w.checkSecret(key, is)
		default:
			w.checkIdentity(key, was, is)
		}
	}
}

// checkCredential wants nothing but the two annotations to differ.
func (w *world) checkCredential(key simulation.Key, was, is client.Object) {
	one, _ := was.(*corev1.Secret)
	two, _ := is.(*corev1.Secret)
	if one == nil || two == nil {
		w.t.Fatalf("%s came or went by the controller", key)
	}
	for _, secret := range []*corev1.Secret{one, two} {
		delete(secret.Annotations, infrav1.TranslationAnnotation)
		delete(secret.Annotations, infrav1.CredentialIdentityAnnotation)
		secret.ResourceVersion = ""
	}
	if !equality.Semantic.DeepEqual(one, two) {
		w.t.Fatalf("%s was changed: %s", key, cmp.Diff(one.ObjectMeta, two.ObjectMeta))
	}
}

// checkRemoval wants what is removed to be of a credential that is gone, or has no key, and not used.
func (w *world) checkRemoval(key simulation.Key, was client.Object, before map[simulation.Key]client.Object) {
	credential, want := w.credential(key.Name), w.oracle(key.Name)
	if credential != nil && want.oci && !want.keyless && string(credential.UID) == was.GetLabels()[infrav1.CredentialUIDLabel] {
		w.t.Fatalf("%s is removed, and its credential is there", key)
	}
	identity, _ := before[keyIn(identityGK, "oci", key.Name)].(*identityv1.OCIClusterIdentity)
	if identity == nil || identity.Labels == nil || identity.Spec.PrincipalSecret.Name != key.Name {
		return
	}
	if !w.free(identity) {
		w.t.Fatalf("%s is removed while clusters use the identity, or may use it", key)
	}
}

// free reports whether an identity may go: all clusters that may use it are seen, and none does, or somebody says so.
func (w *world) free(identity *identityv1.OCIClusterIdentity) bool {
	inUse := identity.Condition(identityv1.InUseCondition)
	unused := inUse != nil && inUse.Status == corev1.ConditionFalse && !w.narrow
	return unused || identity.Annotations["archelon.io/allow-deletion"] == "true"
}

// checkSecret wants a Secret that was written to have what its credential says, and its UID.
func (w *world) checkSecret(key simulation.Key, is client.Object) {
	secret, _ := is.(*corev1.Secret)
	credential := w.credential(key.Name)
	if credential == nil || secret.Labels[infrav1.CredentialUIDLabel] != string(credential.UID) {
		w.t.Fatalf("%s is written, and is of no credential", key)
	}
	if want := w.oracle(key.Name).data; want == nil || !maps.EqualFunc(want, secret.Data, slices.Equal) {
		w.t.Fatalf("%s is written with something else than its credential has", key)
	}
}

// checkIdentity wants an identity that was written to be for the namespaces of the policy, and no others.
func (w *world) checkIdentity(key simulation.Key, was, is client.Object) {
	identity, _ := is.(*identityv1.OCIClusterIdentity)
	before, _ := was.(*identityv1.OCIClusterIdentity)
	if before != nil && equality.Semantic.DeepEqual(before.Spec, identity.Spec) {
		one, other := before.Condition(identityv1.InUseCondition), identity.Condition(identityv1.InUseCondition)
		if !equality.Semantic.DeepEqual(one, other) {
			w.t.Fatalf("%s has lost the condition of somebody else", key)
		}
		return
	}
	raw, err := json.Marshal(identity.Spec)
	if err != nil {
		w.t.Fatal(err)
	}
	want := `{"type":"UserPrincipal","principalSecret":{"name":"` + key.Name +
		`","namespace":"oci"},"allowedNamespaces":{"list":["tenant"]}}`
	if string(raw) != want {
		w.t.Fatalf("%s is written as %s", key, raw)
	}
}

// checkEnd is what must hold when faults have stopped and everything has come to rest.
func (w *world) checkEnd() {
	w.Faulty, w.trouble = "", nil
	w.settle()
	for _, name := range simNames {
		// Its own controller says of each identity at some time whether it is used.
		if identity := w.identity(name); identity != nil && identity.Condition(identityv1.InUseCondition) == nil {
			w.use(name, corev1.ConditionFalse)
		}
	}
	w.settle()
	for _, name := range simNames {
		w.checkName(name)
	}
	w.server.Writes = nil
	w.process.Start(w.ctx) // as a resync does
	requests := w.requests
	w.settle()
	if len(w.server.Writes) > 0 || w.requests != requests {
		w.t.Fatalf("a settled world is not silent: writes %v, %d requests", w.server.Writes, w.requests-requests)
	}
	w.start()
	w.settle()
	if len(w.server.Writes) > 0 {
		w.t.Fatalf("the next process writes %v", w.server.Writes)
	}
	w.checkPrinted()
}

func (w *world) checkName(name string) {
	want, credential, secret, identity := w.oracle(name), w.credential(name), w.secret(name), w.identity(name)
	ofSecret, ofIdentity, uid := "absent", "absent", ""
	if secret != nil {
		ofSecret = secret.Labels[infrav1.CredentialUIDLabel]
	}
	if identity != nil {
		ofIdentity = identity.Labels[infrav1.CredentialUIDLabel]
	}
	if want.oci {
		uid = string(credential.UID)
	}
	for what, label := range map[string]string{"Secret": ofSecret, "identity": ofIdentity} {
		if obsolete := label != uid || want.keyless; label != "absent" && label != "" && obsolete && !w.held(name) {
			w.t.Fatalf("%s %s is left of a credential that is gone, or has no key", what, name)
		}
	}
	reason := ""
	switch {
	case !want.oci:
	case want.keyless && ofIdentity == uid:
		reason = infrav1.CredentialWithdrawnReason
	case want.data == nil:
		reason = identityv1.CredentialInvalidReason
	case ofSecret != uid || ofIdentity != uid:
		reason = infrav1.CollisionReason
		if ofSecret == "absent" && (ofIdentity == "absent" || ofIdentity == uid) {
			w.t.Fatalf("nothing is in the way of %s, and it is not translated", name)
		}
	default:
		reason = infrav1.TranslatedReason
		if want.regionless {
			reason = infrav1.RegionMissingReason
		}
		w.checkTranslated(want, credential, secret, identity)
	}
	if credential != nil && credential.DeletionTimestamp == nil {
		w.checkSaid(credential, reason, want.oci && ofIdentity == uid)
	}
	w.checkCondition(identity, uid, reason)
}

// checkSaid looks at the two annotations of a credential.
func (w *world) checkSaid(credential *corev1.Secret, reason string, owns bool) {
	said, _, _ := strings.Cut(credential.Annotations[infrav1.TranslationAnnotation], ":")
	if said != reason {
		w.t.Fatalf("credential %s says %q, want %q", credential.Name, said, reason)
	}
	named := ""
	if owns {
		named = "oci/" + credential.Name
	}
	if got := credential.Annotations[infrav1.CredentialIdentityAnnotation]; got != named {
		w.t.Fatalf("credential %s names identity %q, want %q", credential.Name, got, named)
	}
}

func (w *world) checkTranslated(
	want expected, credential, secret *corev1.Secret, identity *identityv1.OCIClusterIdentity,
) {
	same := maps.EqualFunc(want.data, secret.Data, slices.Equal)
	if !same || !equality.Semantic.DeepEqual(identity.Spec, simPolicy.Spec(credential.Name)) {
		w.t.Fatalf("%s is not what its credential says", credential.Name)
	}
}

// held reports whether something keeps what is left of a credential: use, or an identity that names the Secret.
func (w *world) held(name string) bool {
	for _, object := range w.server.Objects(identityGK) {
		identity, _ := object.(*identityv1.OCIClusterIdentity)
		if identity.Name == name && identity.Labels != nil && !w.free(identity) {
			return true
		}
		if identity.Spec.PrincipalSecret.Name == name && (identity.Labels == nil || identity.Name != name) {
			return true
		}
	}
	return false
}

func (w *world) checkCondition(identity *identityv1.OCIClusterIdentity, uid, reason string) {
	if identity == nil || identity.Labels == nil {
		return
	}
	want := reason
	if identity.Labels[infrav1.CredentialUIDLabel] != uid {
		want = infrav1.CredentialGoneReason
	}
	if got := identity.Condition(infrav1.TranslatedCondition); got == nil || got.Reason != want {
		w.t.Fatalf("identity %s says %+v, want %s", identity.Name, got, want)
	}
}

// checkPrinted looks for key material in everything that was printed, and stored elsewhere than in data of Secrets.
func (w *world) checkPrinted() {
	texts := []string{w.printed.String()}
	for _, object := range w.snapshot() {
		if secret, ok := object.(*corev1.Secret); ok {
			for _, value := range secret.Annotations {
				texts = append(texts, value)
			}
			continue
		}
		raw, err := json.Marshal(object)
		if err != nil {
			w.t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	for _, key := range theKeysList() {
		for _, value := range credentialData(key) {
			w.checkAbsent(string(value), texts)
		}
	}
}

// checkAbsent looks for the lines of a value in texts.
func (w *world) checkAbsent(value string, texts []string) {
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		for _, form := range []string{line, base64.StdEncoding.EncodeToString([]byte(line))} {
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, form) }) {
				w.t.Fatalf("%q of a credential is somewhere else too", form)
			}
		}
	}
}
