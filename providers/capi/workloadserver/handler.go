package workloadserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	maxBodyBytes = 4 << 20
	// watchTimeout ends watches whose client names no timeout.
	watchTimeout = 30 * time.Minute
	contentType  = "Content-Type"
	contentJSON  = "application/json"
)

var errStale = errors.New("the object has been modified")

// report is called once for each request.
type report func(verb, resource, name string, code int)

// serve answers a request for the given path of the cluster.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request, path string, done report) {
	if path == "version" {
		write(w, http.StatusOK, version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3", Platform: "linux/amd64"})
		done("get", "", "version", http.StatusOK)
		return
	}
	t, err := parseTarget(path)
	if err != nil {
		http.NotFound(w, r)
		done(verbOf(r, t), "", path, http.StatusNotFound)
		return
	}
	verb := verbOf(r, t)
	if verb == "watch" {
		done(verb, t.resource.Resource, "", http.StatusOK)
		c.serveWatch(w, r, t)
		return
	}
	answer, code, err := c.handle(verb, r, t)
	if err != nil {
		status := statusOf(err)
		answer, code = status, int(status.Code)
	}
	if onlyMetadata(r) {
		answer = metadataOf(answer)
	}
	write(w, code, answer)
	done(verb, t.resource.Resource, t.name, code)
}

// handle returns the answer to everything but a watch.
func (c *cluster) handle(verb string, r *http.Request, t target) (any, int, error) {
	switch verb {
	case "get":
		object, err := c.get(t)
		return object, http.StatusOK, err
	case "list":
		selector, err := selectorOf(r)
		if err != nil {
			return nil, 0, err
		}
		items, reached := c.list(t, selector)
		return listOf(t, items, reached), http.StatusOK, nil
	case "delete":
		selector, err := selectorOf(r)
		if err != nil {
			return nil, 0, err
		}
		return &metav1.Status{Status: metav1.StatusSuccess}, http.StatusOK, c.delete(t, selector)
	case "create", "update", "patch":
		object, err := objectOf(r, t)
		if err != nil {
			return nil, 0, err
		}
		return c.put(t, object, verb != "update", verb != "create")
	default:
		return nil, 0, apierrors.NewMethodNotSupported(t.resource.GroupResource(), verb)
	}
}

// objectOf reads the object of a write, which typed clients send as protobuf. Patches are server-side apply, which here
// replaces the object.
func objectOf(r *http.Request, t target) (*unstructured.Unstructured, error) {
	kind, _, _ := strings.Cut(r.Header.Get(contentType), ";")
	if r.Method == http.MethodPatch && kind != string(types.ApplyYAMLPatchType) {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
			Reason: metav1.StatusReasonUnsupportedMediaType, Message: "Of patches only server-side apply is understood",
		}}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBodyBytes))
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	gvk := t.resource.GroupVersion().WithKind(t.kind)
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest("parsing the body: " + err.Error())
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(decoded)
	if err != nil {
		return nil, apierrors.NewBadRequest("converting the body: " + err.Error())
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(gvk)
	switch {
	case t.name != "":
		object.SetName(t.name)
	case object.GetName() == "" && object.GetGenerateName() != "":
		object.SetName(object.GetGenerateName() + rand.String(5))
	}
	return object, nil
}

// onlyMetadata is whether a client asks for metadata alone.
func onlyMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// metadataOf leaves metadata of what is answered.
func metadataOf(answer any) any {
	switch answer := answer.(type) {
	case *unstructured.Unstructured:
		return metadataOfObject(answer)
	case *unstructured.UnstructuredList:
		list := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, 0, len(answer.Items))}
		list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
		list.SetResourceVersion(answer.GetResourceVersion())
		for i := range answer.Items {
			list.Items = append(list.Items, *metadataOfObject(&answer.Items[i]))
		}
		return list
	default:
		return answer
	}
}

func metadataOfObject(object *unstructured.Unstructured) *unstructured.Unstructured {
	metadata := &unstructured.Unstructured{Object: map[string]any{"metadata": object.Object["metadata"]}}
	metadata.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return metadata
}

func listOf(t target, items []unstructured.Unstructured, reached int) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{Items: items}
	list.SetAPIVersion(t.resource.GroupVersion().String())
	list.SetKind(t.kind + "List")
	list.SetResourceVersion(strconv.Itoa(reached))
	return list
}

func selectorOf(r *http.Request) (labels.Selector, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return selector, nil
}

// serveWatch streams changes. A client may ask for what there is first, as informers do, or
// name the version that it knows.
func (c *cluster) serveWatch(w http.ResponseWriter, r *http.Request, t target) {
	query := r.URL.Query()
	selector, err := selectorOf(r)
	if err != nil {
		write(w, http.StatusBadRequest, statusOf(err))
		return
	}
	timeout := watchTimeout
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()

	w.Header().Set(contentType, contentJSON)
	reached, _ := strconv.Atoi(query.Get("resourceVersion"))
	var events []event
	initial := query.Get("sendInitialEvents") == "true"
	if initial || reached == 0 {
		var items []unstructured.Unstructured
		items, reached = c.list(t, selector)
		for i := range items {
			events = append(events, event{Type: watch.Added, Object: &items[i]})
		}
	}
	if initial {
		events = append(events, event{Type: watch.Bookmark, Object: bookmark(t, reached)})
	}
	for {
		if onlyMetadata(r) {
			for i := range events {
				events[i].Object = metadataOfObject(events[i].Object)
			}
		}
		if !send(w, events) {
			return
		}
		var changed <-chan struct{}
		if events, reached, changed = c.since(t, selector, reached); len(events) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// send writes events of a watch and reports whether the client is still there.
func send(w http.ResponseWriter, events []event) bool {
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			return false
		}
		if _, err := w.Write(raw); err != nil {
			return false
		}
	}
	return http.NewResponseController(w).Flush() == nil
}

// event is metav1.WatchEvent without a detour over bytes.
type event struct {
	Type   watch.EventType            `json:"type"`
	Object *unstructured.Unstructured `json:"object"`
}

// bookmark says that what there was has been sent.
func bookmark(t target, reached int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(t.resource.GroupVersion().String())
	object.SetKind(t.kind)
	object.SetResourceVersion(strconv.Itoa(reached))
	object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return object
}

func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

func write(w http.ResponseWriter, code int, answer any) {
	raw, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set(contentType, contentJSON)
	w.WriteHeader(code)
	_, _ = w.Write(raw) // a client that has gone needs no answer
}
