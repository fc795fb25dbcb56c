package workload

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/archelon-io/archelon/internal/outcome"
)

// object returns one to apply.
func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// serving answers for the kinds of some group versions, by their path, and takes whatever is applied. It notes what it
// is asked.
func serving(resources map[string]string, asked *[]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		served, ok := resources[r.URL.Path]
		switch {
		case r.Method == http.MethodPatch:
			applied, _ := io.ReadAll(r.Body)
			if !strings.Contains(r.URL.Path, "/namespaces/") && strings.Contains(string(applied), "namespace") {
				*asked = append(*asked, "a namespace for what has none")
			}
			_, _ = w.Write(applied)
		case ok:
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","resources":[`+served+`]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

// A kind that is not in the table is looked up where it is applied.
func TestApplyOfOtherKinds(t *testing.T) {
	const (
		classes = `{"name":"priorityclasses","kind":"PriorityClass","namespaced":false}`
		maps    = `{"name":"configmaps","kind":"ConfigMap","namespaced":true},{"name":"secrets","kind":"Secret","namespaced":true}`
		sets    = `{"name":"statefulsets/status","kind":"StatefulSet","namespaced":true},{"name":"statefulsets","kind":"StatefulSet","namespaced":true},` +
			`{"name":"replicasets","kind":"ReplicaSet","namespaced":true}`
	)
	secret := object("v1", "Secret", "cattle-system", "s")
	class := object("scheduling.k8s.io/v1", "PriorityClass", "", "c")
	for name, tc := range map[string]struct {
		reason  string
		objects []*unstructured.Unstructured
		served  map[string]string
		asked   []string
		refused string
	}{
		"Known": {
			reason: "nothing is asked for what is known", objects: []*unstructured.Unstructured{secret},
			asked: []string{"PATCH /api/v1/namespaces/cattle-system/secrets/s"},
		},
		"ClusterScoped": {
			reason: "it is applied before what runs with it", served: map[string]string{"/apis/scheduling.k8s.io/v1": classes},
			objects: []*unstructured.Unstructured{object("apps/v1", "Deployment", "cattle-system", "d"), class},
			asked: []string{
				"GET /apis/scheduling.k8s.io/v1", "PATCH /apis/scheduling.k8s.io/v1/priorityclasses/c", "PATCH /apis/apps/v1/namespaces/cattle-system/deployments/d",
			},
		},
		"StrayNamespace": {
			reason: "Rancher gives cluster-scoped objects a namespace", served: map[string]string{"/apis/scheduling.k8s.io/v1": classes},
			objects: []*unstructured.Unstructured{object("scheduling.k8s.io/v1", "PriorityClass", "cattle-system", "c")},
			asked:   []string{"GET /apis/scheduling.k8s.io/v1", "PATCH /apis/scheduling.k8s.io/v1/priorityclasses/c"},
		},
		"Core": {
			reason: "the core group has a path of its own", served: map[string]string{"/api/v1": maps},
			objects: []*unstructured.Unstructured{object("v1", "ConfigMap", "cattle-system", "m"), secret},
			asked:   []string{"GET /api/v1", "PATCH /api/v1/namespaces/cattle-system/secrets/s", "PATCH /api/v1/namespaces/cattle-system/configmaps/m"},
		},
		"Two": {
			reason: "one question tells of both", served: map[string]string{"/apis/apps/v1": sets},
			objects: []*unstructured.Unstructured{object("apps/v1", "ReplicaSet", "cattle-system", "r"), object("apps/v1", "StatefulSet", "cattle-system", "s")},
			asked: []string{
				"GET /apis/apps/v1", "PATCH /apis/apps/v1/namespaces/cattle-system/replicasets/r", "PATCH /apis/apps/v1/namespaces/cattle-system/statefulsets/s",
			},
		},
		"NoNamespace": {
			reason: "it would land anywhere, so not even the others are applied", served: map[string]string{"/api/v1": maps},
			objects: []*unstructured.Unstructured{secret, object("v1", "ConfigMap", "", "m")}, asked: []string{"GET /api/v1"}, refused: "names no namespace",
		},
		"NoGroup": {
			reason: "an older cluster does not have it", objects: []*unstructured.Unstructured{secret, class},
			asked: []string{"GET /apis/scheduling.k8s.io/v1"}, refused: "404",
		},
		"NoKind": {
			reason: "an older cluster does not have it", objects: []*unstructured.Unstructured{secret, class},
			served: map[string]string{"/apis/scheduling.k8s.io/v1": sets}, asked: []string{"GET /apis/scheduling.k8s.io/v1"}, refused: "does not know kind PriorityClass",
		},
		"NoName": {
			reason: "what a stranger says becomes part of no path unless it is a name", objects: []*unstructured.Unstructured{class},
			served: map[string]string{"/apis/scheduling.k8s.io/v1": `{"name":"../../../s3cret","kind":"PriorityClass"},{"name":"a/status","kind":"PriorityClass"}`},
			asked:  []string{"GET /apis/scheduling.k8s.io/v1"}, refused: "does not know kind PriorityClass",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := newAPIServer(t, serving(tc.served, &asked))
			var before []*unstructured.Unstructured
			for _, o := range tc.objects {
				before = append(before, o.DeepCopy())
			}
			err := connect(t, Options{}, written(t, server.URL, server.certificate.certPEM)).Apply(t.Context(), tc.objects, true)
			if tc.refused == "" && err != nil {
				t.Error(err)
			} else if tc.refused != "" {
				wantProblem(t, err, outcome.KindFail, "WorkloadRejected")
				if !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v does not say %q", err, tc.refused)
				}
			}
			if !slices.Equal(asked, tc.asked) {
				t.Errorf("%s: asked %q, want %q", tc.reason, asked, tc.asked)
			}
			if diff := cmp.Diff(before, tc.objects); diff != "" {
				t.Errorf("the caller's objects were changed: %s", diff)
			}
		})
	}
}
