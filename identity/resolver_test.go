package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/identity/identitytest"
)

// api is an API server that has some objects by their paths. A path with an empty text is an outage.
type api struct {
	objects map[string]string
	asked   []string
}

func (a *api) put(t *testing.T, path string, object any) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	a.objects[path] = string(raw)
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked = append(a.asked, r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	text, found := a.objects[r.URL.Path]
	code := http.StatusNotFound
	switch {
	case found && text == "":
		code, found = http.StatusServiceUnavailable, false
	case found:
		code = http.StatusOK
	}
	if !found {
		reason := map[int]metav1.StatusReason{
			http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		}[code]
		text = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, code, reason)
	}
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, text)
}

// Paths of objects.
const (
	identityPath  = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/a/ociclusteridentities/id"
	secretPath    = "/api/v1/namespaces/a/secrets/key"
	namespacePath = "/api/v1/namespaces/a"
)

// theirs is the type of an OCIClusterIdentity that another Go package has, as CAPOCI's is.
type theirs struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// DeepCopyObject implements runtime.Object.
func (t *theirs) DeepCopyObject() runtime.Object {
	copied := *t
	return &copied
}

// schemes are those that a program may have.
func schemes(t *testing.T) map[string]*runtime.Scheme {
	t.Helper()
	all := map[string]*runtime.Scheme{"OurType": runtime.NewScheme(), "NoType": runtime.NewScheme(), "TheirType": runtime.NewScheme()}
	for name, s := range all {
		if err := corev1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "OurType":
			if err := identityv1.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
		case "TheirType":
			s.AddKnownTypeWithName(identityv1.GroupVersion.WithKind("OCIClusterIdentity"), &theirs{})
		}
	}
	return all
}

func newReader(t *testing.T, a *api, s *runtime.Scheme) client.Reader {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(identityv1.GroupVersion.WithKind("OCIClusterIdentity"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	reader, err := client.New(&rest.Config{Host: server.URL}, client.Options{Scheme: s, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// world returns an API server with an identity that works.
func world(t *testing.T, change ...func(*identityv1.OCIClusterIdentity)) *api {
	t.Helper()
	a := &api{objects: map[string]string{}}
	of := identitytest.Identity("a", change...)
	of.TypeMeta = metav1.TypeMeta{APIVersion: identityv1.GroupVersion.String(), Kind: "OCIClusterIdentity"}
	a.put(t, identityPath, of)
	a.put(t, secretPath, corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "key"}, Data: identitytest.Data(),
	})
	a.objects[namespacePath] = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"a","labels":{"team":"x"}}}`
	return a
}

var allowOwn = Policy{SecretNamespaces: []string{"a"}}

// stored has an identity of the API server as a client of another version may have written it.
func (a *api) stored(allowed string) {
	a.objects[identityPath] = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"OCIClusterIdentity",
"metadata":{"namespace":"a","name":"id"},"spec":{"type":"UserPrincipal",
"principalSecret":{"namespace":"a","name":"key"},"allowedNamespaces":` + allowed + `}}`
}

func TestConfigurationProviderSignsForTheCluster(t *testing.T) {
	for name, s := range schemes(t) {
		t.Run(name, func(t *testing.T) {
			resolver := NewResolver(LiveReaders(newReader(t, world(t), s)), Options{Policy: allowOwn})
			provider, err := resolver.ConfigurationProvider(t.Context(), "a", identitytest.Ref("id"))
			if err != nil {
				t.Fatal(err)
			}
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", http.NoBody)
			request.Header.Set("Date", "Sun, 29 Nov 2026 07:00:00 GMT")
			if err := common.DefaultRequestSigner(provider).Sign(request); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(request.Header.Get("Authorization"), identitytest.Tenancy+"/"+identitytest.User) {
				t.Errorf("the request is signed as %s", request.Header.Get("Authorization"))
			}
		})
	}
}

// A scheme without the type reads what the API server stored, a list that is null among it.
func TestShapesThatOtherSchemesRead(t *testing.T) {
	for allowed, want := range map[string]string{
		`{"list":["a"]}`: "", `{}`: "", `{"selector":{"matchLabels":{"team":"x"}}}`: "",
		`{"list":null}`: "NamespaceNotAllowed", `null`: "NamespaceNotAllowed", `{"list":[]}`: "NamespaceNotAllowed",
		`{"selector":{}}`: "NamespaceNotAllowed", `{"selector":{"matchLabels":{"team":"y"}}}`: "NamespaceNotAllowed",
		`{"selector":{"matchExpressions":[{"key":"team","operator":"Is"}]}}`: "SelectorInvalid",
	} {
		for name, s := range schemes(t) {
			a := world(t)
			a.stored(allowed)
			resolver := NewResolver(LiveReaders(newReader(t, a, s)), Options{Policy: allowOwn})
			_, err := resolver.ConfigurationProvider(t.Context(), "a", identitytest.Ref("id"))
			if got := reasonOf(t, err); got != want {
				t.Errorf("%s, %s: got %q (%v), want %q", allowed, name, got, err, want)
			}
			for _, asked := range a.asked {
				if strings.Contains(asked, "labelSelector") || strings.HasSuffix(asked, "/namespaces") {
					t.Errorf("%s, %s: Namespaces are listed: %s", allowed, name, asked)
				}
			}
		}
	}
}

// reasonOf returns the reason of a refusal, which also says something that quotes no Secret.
func reasonOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return "not known"
	}
	if refused.Message == "" {
		t.Errorf("%s says nothing", refused.Reason)
	}
	checkQuotesNothing(t, identitytest.Data(), refused.Message+refused.Detail)
	return refused.Reason
}

func TestRefusalsAndWhatIsNotKnown(t *testing.T) {
	typed := func(is identityv1.PrincipalType) func(*identityv1.OCIClusterIdentity) {
		return func(i *identityv1.OCIClusterIdentity) { i.Spec.Type = is }
	}
	trusted := Policy{SecretNamespaces: []string{"a"}, TrustedNamespaces: []string{"a"}}
	broken := Providers{Instance: func() (common.ConfigurationProvider, error) { return nil, errors.New("no metadata service") }}
	for name, tc := range map[string]struct {
		change    func(*identityv1.OCIClusterIdentity)
		namespace string
		ref       *corev1.ObjectReference
		objects   map[string]string
		without   string
		options   Options
		want      string
	}{
		"OtherNamespace":   {namespace: "b", ref: &corev1.ObjectReference{Namespace: "a"}, options: Options{Policy: allowOwn}, want: "NamespaceNotAllowed"},
		"NoPolicy":         {want: "SecretNamespaceForbidden"},
		"NoSecret":         {without: secretPath, options: Options{Policy: allowOwn}, want: "SecretNotFound"},
		"NoIdentity":       {without: identityPath, options: Options{Policy: allowOwn}, want: "IdentityNotFound"},
		"KeyInWrongField":  {objects: map[string]string{secretPath: swapped(t)}, options: Options{Policy: allowOwn}, want: "CredentialInvalid"},
		"Instance":         {change: typed("InstancePrincipal"), options: Options{Policy: allowOwn, Providers: broken}, want: "PrincipalTypeForbidden"},
		"InstanceTrusted":  {change: typed("InstancePrincipal"), options: Options{Policy: trusted, Providers: broken}, want: "not known"},
		"NoInstance":       {change: typed("InstancePrincipal"), options: Options{Policy: trusted}, want: "PrincipalUnavailable"},
		"NotReadable":      {options: Options{Policy: allowOwn, Readable: func(string) bool { return false }}, want: "IdentityOutOfScope"},
		"OutageOfIdentity": {objects: map[string]string{identityPath: ""}, options: Options{Policy: allowOwn}, want: "not known"},
		"OutageOfSecret":   {objects: map[string]string{secretPath: ""}, options: Options{Policy: allowOwn}, want: "not known"},
		"OutageOfNamespace": {
			change: func(i *identityv1.OCIClusterIdentity) {
				i.Spec.AllowedNamespaces = &identityv1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}}
			},
			objects: map[string]string{namespacePath: ""}, options: Options{Policy: allowOwn}, want: "not known",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*identityv1.OCIClusterIdentity)
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			a := world(t, changes...)
			maps.Copy(a.objects, tc.objects)
			delete(a.objects, tc.without)
			ref, namespace := identitytest.Ref("id"), "a"
			if tc.ref != nil {
				ref.Namespace, namespace = tc.ref.Namespace, tc.namespace
			}
			provider, err := NewResolver(LiveReaders(newReader(t, a, schemes(t)["NoType"])), tc.options).
				ConfigurationProvider(t.Context(), namespace, ref)
			if got := reasonOf(t, err); got != tc.want || provider != nil {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

// swapped is a Secret whose private key is in the field of the user.
func swapped(t *testing.T) string {
	t.Helper()
	data := identitytest.Data()
	data["user"], data["key"] = data["key"], data["user"]
	raw, err := json.Marshal(corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "key"}, Data: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestClustersWithoutIdentityRefHaveThePrincipalOfTheProcess(t *testing.T) {
	own, flaw := ParseCredential(identitytest.Data())
	if flaw != "" {
		t.Fatal(flaw)
	}
	resolver := NewResolver(Readers{}, Options{Providers: Providers{
		Process: func() (common.ConfigurationProvider, error) { return own, nil },
	}})
	if got, err := resolver.ConfigurationProvider(t.Context(), "a", nil); err != nil || got != common.ConfigurationProvider(own) {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := NewResolver(Readers{}, Options{}).ConfigurationProvider(t.Context(), "a", nil)
	if got := reasonOf(t, err); got != identityv1.PrincipalUnavailableReason {
		t.Errorf("without a principal of the process: got %v", err)
	}
}

// What is decided from caches reads no Secret, and the wiring that lacks a reader fails instead of deciding.
func TestVerdictReadsNoSecret(t *testing.T) {
	reader := newReader(t, world(t), schemes(t)["NoType"])
	cached := NewResolver(Readers{Identities: reader}, Options{Policy: allowOwn})
	if got, err := cached.Verdict(t.Context(), "a", identitytest.Ref("id")); err != nil || !got.Allowed {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := cached.ConfigurationProvider(t.Context(), "a", identitytest.Ref("id"))
	if got := reasonOf(t, err); got != "not known" {
		t.Errorf("without a reader of Secrets: got %v", err)
	}
	_, err = NewResolver(Readers{}, Options{Policy: allowOwn}).Verdict(t.Context(), "a", identitytest.Ref("id"))
	if got := reasonOf(t, err); got != "not known" {
		t.Errorf("without any reader: got %v", err)
	}
}
