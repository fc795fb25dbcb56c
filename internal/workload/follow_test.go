package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/outcome"
)

const metadataOf = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,"namespace":"n","resourceVersion":"7","labels":{"l":%q}}}`

// following is what a server of lists and watches is asked and what is heard of it.
type following struct {
	mu      sync.Mutex
	changed []string
	said    []string
}

func (f *following) note(into *[]string, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*into = append(*into, text)
}

// has waits until a text was noted.
func (f *following) has(t *testing.T, from *[]string, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		f.mu.Lock()
		found := strings.Contains(strings.Join(*from, "\n"), text)
		f.mu.Unlock()
		if found {
			return
		}
	}
	t.Fatalf("nothing has %q: %q", text, *from)
}

func follow(t *testing.T, s *apiServer) *following {
	t.Helper()
	f := &following{}
	c := connect(t, Options{Timeout: time.Minute}, written(t, s.URL, s.certificate.certPEM))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Follow(ctx, Following{
			Resources: []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("secrets")}, Namespace: "n", Label: "l",
			Changed: func(value string) { f.note(&f.changed, value) },
			Answered: func(_ schema.GroupVersionResource, err error) {
				wantNoSecret(t, err)
				f.note(&f.said, fmt.Sprint(err))
			},
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

func list(w io.Writer, items ...string) {
	_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, strings.Join(items, ","))
}

func TestFollow(t *testing.T) {
	var refuses atomic.Bool
	refuses.Store(true)
	more := make(chan string)
	s := newAPIServer(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case req.URL.Path != "/api/v1/namespaces/n/secrets" || req.URL.Query().Get("labelSelector") != "l":
			t.Errorf("it asks for %s", req.URL)
		case refuses.Load():
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"u cannot list s3cret","code":403}`)
		case req.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusBadRequest) // It has to list, as on an old server.
		case req.URL.Query().Get("watch") == "":
			list(w, fmt.Sprintf(metadataOf, "a", "first"))
		default:
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
			for {
				select {
				case name := <-more:
					_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":`+metadataOf+"}\n", name, name)
					w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
				case <-req.Context().Done():
					return
				}
			}
		}
	})
	f := follow(t, s)
	f.has(t, &f.said, "lacks permission (403)")
	refuses.Store(false)
	f.has(t, &f.changed, "first")
	f.has(t, &f.said, "<nil>")
	more <- "second"
	f.has(t, &f.changed, "second")
	s.Listener.Close() //nolint:errcheck // it goes away
	s.CloseClientConnections()
	f.has(t, &f.said, "No connection")
}

// Servers that send without end cost no more than their bound, and are heard of.
func TestFollowGivesUpOnLists(t *testing.T) {
	s := newAPIServer(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if req.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		list(w, fmt.Sprintf(metadataOf, "a", strings.Repeat("x", maxListBytes)))
	})
	f := follow(t, s)
	f.has(t, &f.said, "more than")
}

// A server that has one page after another, or too many objects, costs no more than its bound either.
func TestFollowIsBounded(t *testing.T) {
	var lists atomic.Int64
	items := make([]string, maxFollowed+1)
	for i := range items {
		items[i] = fmt.Sprintf(metadataOf, fmt.Sprint("n", i), "l")
	}
	var many atomic.Bool
	s := newAPIServer(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case req.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusBadRequest)
		case req.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's is one
			<-req.Context().Done()
		case many.Load():
			list(w, items...)
		default:
			if req.URL.Query().Get("limit") != "" || req.URL.Query().Get("continue") != "" {
				t.Errorf("it asks for pages: %s", req.URL)
			}
			page := fmt.Sprintf(`"continue":"page-%d","resourceVersion":"1"`, lists.Add(1))
			_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{%s},"items":[%s]}`, page, items[0])
		}
	})
	f := follow(t, s)
	f.has(t, &f.changed, "l")
	if lists.Load() != 1 {
		t.Errorf("it was asked for %d pages", lists.Load())
	}
	many.Store(true)
	c := connect(t, Options{Timeout: time.Minute}, written(t, s.URL, s.certificate.certPEM))
	err := c.Follow(t.Context(), Following{
		Resources: []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("secrets")}, Namespace: "n", Label: "l",
		Changed: func(string) {}, Answered: func(schema.GroupVersionResource, error) {},
	})
	if !errors.Is(err, ErrFollowsTooMuch) {
		t.Errorf("it ended with %v", err)
	}
	const want = "Watching secrets failed: the namespace has more than 10000 objects. Use several namespaces"
	if problem, ok := errors.AsType[*outcome.Problem](err); !ok || problem.Message != want {
		t.Errorf("it says %v", err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	_, cancel := context.WithCancel(t.Context())
	b := &bounded{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 100))), left: 64, done: cancel}
	if got, err := io.ReadAll(b); err != nil || len(got) != 64 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestKeepLabel(t *testing.T) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", ResourceVersion: "1", Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"l": "v", "m": "w"},
	}}
	kept, err := keepLabel("l")(object)
	metadata, ok := kept.(*metav1.PartialObjectMetadata)
	if err != nil || !ok || len(metadata.Labels) != 1 || metadata.Labels["l"] != "v" || metadata.Annotations != nil {
		t.Errorf("got %+v, %v", kept, err)
	}
	object.Labels["l"], object.Name = strings.Repeat("x", 64), strings.Repeat("x", 1<<20)
	kept, _ = keepLabel("l")(object)
	if metadata, ok = kept.(*metav1.PartialObjectMetadata); !ok || len(metadata.Labels) != 0 || len(metadata.Name) != 253 {
		t.Errorf("got %+v", kept)
	}
}

// What an object is not is told by the kind of the error, and all else is a Problem.
func TestTyped(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"s3cret","code":%d,"details":{"name":%q,"kind":%q}}`
	type answer struct {
		code               int
		reason, name, kind string
	}
	for name, tc := range map[string]struct {
		answer answer
		is     func(error) bool
	}{
		"not there":            {answer{404, "NotFound", "a", "secrets"}, apierrors.IsNotFound},
		"there already":        {answer{409, "AlreadyExists", "a", "secrets"}, apierrors.IsAlreadyExists},
		"changed":              {answer{409, "Conflict", "a", "secrets"}, apierrors.IsConflict},
		"no namespace":         {answer{404, "NotFound", "a", "namespaces"}, isProblem},
		"another that is gone": {answer{404, "NotFound", "b", "secrets"}, isProblem},
		"no API":               {answer{404, "", "", ""}, isProblem},
		"refused":              {answer{403, "Forbidden", "a", "secrets"}, isProblem},
	} {
		s := newAPIServer(t, func(w http.ResponseWriter, _ *http.Request) {
			if tc.answer.reason == "" {
				http.Error(w, "404 page not found", http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.answer.code)
			_, _ = fmt.Fprintf(w, status, tc.answer.reason, tc.answer.code, tc.answer.name, tc.answer.kind)
		})
		scheme := runtime.NewScheme()
		if err := corev1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		typed, err := connect(t, Options{}, written(t, s.URL, s.certificate.certPEM)).Typed(scheme, newMapper())
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
		for verb, err := range map[string]error{
			"get":    typed.Get(t.Context(), client.ObjectKeyFromObject(secret), secret.DeepCopy()),
			"create": typed.Create(t.Context(), secret.DeepCopy()),
			"patch":  typed.Patch(t.Context(), secret.DeepCopy(), client.MergeFrom(secret)),
			"delete": typed.Delete(t.Context(), secret.DeepCopy()),
		} {
			wantNoSecret(t, err)
			if !tc.is(err) {
				t.Errorf("%s: %s: got %v", name, verb, err)
			}
		}
	}
}

func isProblem(err error) bool {
	return err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err)
}
