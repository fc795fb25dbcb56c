package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Names of what is not told apart by its resource alone.
const (
	clusterSecretsKind = "secrets of CAPI clusters"
	tokenSecrets       = "secrets, registration tokens"
	rancherClusters    = "clusters.management.cattle.io"
	displayNames       = "clusters.management.cattle.io, display names"
	leases             = "leases.coordination.k8s.io"
	// others are requests that fill no cache: reads of single objects, writes, discovery.
	others = "other requests"
)

// tokenSecretSelector is how token Secrets are asked for.
const tokenSecretSelector = "metadata.name=crt-token-default-token"

// Received is what the API server has sent of one kind.
type Received struct {
	// Objects are held in a cache that is filled by the lists and watches, as it is known to the client.
	Objects int `json:"objects"`
	// Events are the objects in lists and the changes in watches, without bookmarks.
	Events int `json:"events"`
	// Bytes are those of the bodies, as they are sent. Caches are filled by watches today, which are not
	// compressed; long lists are.
	Bytes int64 `json:"bytes"`
	// Requests are the lists and watches, one of each for every namespace that is named.
	Requests int `json:"requests"`
}

// plus adds two kinds.
func (a Received) plus(b Received) Received {
	return Received{a.Objects + b.Objects, a.Events + b.Events, a.Bytes + b.Bytes, a.Requests + b.Requests}
}

// since is what came after an earlier state; objects stay what is held.
func (a Received) since(b Received) Received {
	return Received{a.Objects, a.Events - b.Events, a.Bytes - b.Bytes, a.Requests - b.Requests}
}

// traffic counts what the API server sends to a manager. Nothing of it is asked for: a proxy in between sees it.
type traffic struct {
	requests request.RequestInfoResolver

	mu       sync.Mutex
	received map[string]Received            // by kind
	held     map[string]map[string]struct{} // by kind: namespaces and names
	activity time.Time
	failure  error
}

func newTraffic() *traffic {
	return &traffic{
		requests: &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		received: map[string]Received{}, held: map[string]map[string]struct{}{}, activity: time.Now(),
	}
}

// observe counts the body of a response while the manager reads it.
func (t *traffic) observe(response *http.Response) {
	kind, verb := t.classify(response.Request)
	t.note(kind, func(r *Received) {
		r.Requests++
	})
	body := response.Body
	if response.StatusCode != http.StatusOK || verb != "list" && verb != "watch" {
		response.Body = &counted{ReadCloser: body, count: func(n int) { t.note(kind, func(r *Received) { r.Bytes += int64(n) }) }}
		return
	}
	reader, writer := io.Pipe()
	go func() {
		err := t.decode(kind, verb, response.Header, reader)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errBodyClosed) {
			t.mu.Lock()
			t.failure = cmp.Or(t.failure, fmt.Errorf("reading a %s of %s: %w", verb, kind, err))
			t.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, reader) // nobody is held up by what cannot be read
	}()
	response.Body = &counted{
		ReadCloser: teed{Reader: io.TeeReader(body, writer), body: body, copied: writer},
		count:      func(n int) { t.note(kind, func(r *Received) { r.Bytes += int64(n) }) },
	}
}

// classify names what a response is about.
func (t *traffic) classify(r *http.Request) (kind, verb string) {
	info, err := t.requests.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return others, ""
	}
	kind = info.Resource
	if info.APIGroup != "" {
		kind += "." + info.APIGroup
	}
	switch {
	case kind == leases: // whatever is done with them goes on forever
	case info.Verb != "list" && info.Verb != "watch":
		kind = others
	case kind == "secrets" && r.URL.Query().Get("fieldSelector") == tokenSecretSelector:
		kind = tokenSecrets
	case kind == "secrets":
		kind = clusterSecretsKind
	case kind == rancherClusters && r.URL.Query().Get("labelSelector") == "":
		kind = displayNames
	}
	return kind, info.Verb
}

func (t *traffic) decode(kind, verb string, header http.Header, body io.Reader) error {
	if header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return err
		}
	}
	contentType := header.Get("Content-Type")
	if verb == "list" {
		return decodeList(contentType, body, func(found metav1.PartialObjectMetadata) { t.hold(kind, "ADDED", found) })
	}
	return decodeWatch(contentType, body, func(event string, found metav1.PartialObjectMetadata) { t.hold(kind, event, found) })
}

// hold does what a cache does.
func (t *traffic) hold(kind, event string, object metav1.PartialObjectMetadata) {
	t.note(kind, func(r *Received) {
		key := object.Namespace + "/" + object.Name
		switch event {
		case "ADDED", "MODIFIED":
			if t.held[kind] == nil {
				t.held[kind] = map[string]struct{}{}
			}
			t.held[kind][key] = struct{}{}
		case "DELETED":
			delete(t.held[kind], key)
		default: // a bookmark, or that the watch begins anew
			return
		}
		r.Events++
		r.Objects = len(t.held[kind])
	})
}

// note changes the counts of a kind.
func (t *traffic) note(kind string, change func(*Received)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.received[kind]
	before := r
	change(&r)
	t.received[kind] = r
	if kind != leases && (r.Events != before.Events || r.Requests != before.Requests) {
		t.activity = time.Now()
	}
}

// quietSince is when the last object came. Leases are renewed all the time and do not count.
func (t *traffic) quietSince() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.activity
}

// soFar returns what was received by kind.
func (t *traffic) soFar() (map[string]Received, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.received), t.failure
}

// everywhere says whether a kind is received from all namespaces in every mode: what Rancher and the cluster share.
func everywhere(kind string) bool {
	return slices.Contains([]string{
		leases, tokenSecrets, displayNames, others, "clusterregistrationtokens.management.cattle.io", "settings.management.cattle.io",
		"customresourcedefinitions.apiextensions.k8s.io",
	}, kind)
}
