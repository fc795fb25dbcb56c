package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestTraffic(t *testing.T) {
	const clusters = "/apis/cluster.x-k8s.io/v1beta2/clusters"
	watched := event("ADDED", "a") + event("ADDED", "b") + event("MODIFIED", "a") + event("DELETED", "b") + event("BOOKMARK", "")
	listed := `{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	compressed := zipped(t, listed)
	cases := map[string]struct {
		reason string
		target string
		status int
		header http.Header
		body   string
		kind   string
		want   Received
	}{
		"Watch": {
			reason: "what was deleted is not held, and a bookmark is no object",
			target: clusters + "?watch=true", body: watched,
			kind: "clusters.cluster.x-k8s.io", want: Received{Objects: 1, Events: 4, Bytes: int64(len(watched)), Requests: 1},
		},
		"List": {
			reason: "a list fills a cache as well", target: "/apis/cluster.x-k8s.io/v1beta2/namespaces/x/clusters", body: listed,
			kind: "clusters.cluster.x-k8s.io", want: Received{Objects: 2, Events: 2, Bytes: int64(len(listed)), Requests: 1},
		},
		"Compressed": {
			reason: "bytes are those that are sent", target: clusters, header: http.Header{"Content-Encoding": {"gzip"}}, body: compressed,
			kind: "clusters.cluster.x-k8s.io", want: Received{Objects: 2, Events: 2, Bytes: int64(len(compressed)), Requests: 1},
		},
		"Protobuf": {
			reason: "metadata is sent as frames of protobuf", target: "/api/v1/secrets?watch=true&labelSelector=cluster.x-k8s.io%2Fcluster-name",
			header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf + ";stream=watch"}}, body: frame(t, "ADDED", "a"),
			kind: clusterSecretsKind, want: Received{Objects: 1, Events: 1, Bytes: int64(len(frame(t, "ADDED", "a"))), Requests: 1},
		},
		"TokenSecrets": {
			reason: "the two caches of Secrets are told apart", target: "/api/v1/secrets?watch=true&fieldSelector=" + tokenSecretSelector, body: event("ADDED", "a"),
			kind: tokenSecrets, want: Received{Objects: 1, Events: 1, Bytes: int64(len(event("ADDED", "a"))), Requests: 1},
		},
		"DisplayNames": {
			reason: "so are those of v3 Clusters", target: "/apis/management.cattle.io/v3/clusters?watch=true", body: event("ADDED", "a"),
			kind: displayNames, want: Received{Objects: 1, Events: 1, Bytes: int64(len(event("ADDED", "a"))), Requests: 1},
		},
		"Get": {
			reason: "a single object is in no cache", target: "/api/v1/namespaces/x/secrets/a", body: `{"metadata":{"name":"a"}}`,
			kind: others, want: Received{Bytes: 25, Requests: 1},
		},
		"Refused": {
			reason: "what is refused holds nothing", target: clusters, status: http.StatusForbidden, body: "{}",
			kind: "clusters.cluster.x-k8s.io", want: Received{Bytes: 2, Requests: 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counts := newTraffic()
				response := &http.Response{
					StatusCode: max(tc.status, http.StatusOK), Header: tc.header, Body: io.NopCloser(bytes.NewBufferString(tc.body)),
					Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.target, http.NoBody),
				}
				counts.observe(response)
				passed, err := io.ReadAll(response.Body)
				if err != nil || string(passed) != tc.body {
					t.Errorf("%s: the manager got %q and error %v", tc.reason, passed, err)
				}
				if err := response.Body.Close(); err != nil {
					t.Errorf("%s: closing the body: %v", tc.reason, err)
				}
				synctest.Wait() // it is read aside
				got, err := counts.soFar()
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				if diff := cmp.Diff(map[string]Received{tc.kind: tc.want}, got); diff != "" {
					t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
				}
			})
		})
	}
}

func TestTrafficUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := newTraffic()
		body := event("ADDED", "a") + "{no JSON"
		response := &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBufferString(body)),
			Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces?watch=true", http.NoBody),
		}
		counts.observe(response)
		if passed, err := io.ReadAll(response.Body); err != nil || string(passed) != body {
			t.Errorf("the manager gets what was sent, whatever it is: got %q and error %v", passed, err)
		}
		synctest.Wait()
		if _, err := counts.soFar(); err == nil {
			t.Error("what was not understood is not counted as nothing")
		}
	})
}

func TestScopesAdd(t *testing.T) {
	s := &Scopes{}
	for _, clusters := range []int64{100, 10} {
		received := Received{Objects: int(clusters), Bytes: 5 * clusters}
		s.add(&Scoped{
			Start:   map[string]Received{"clusters.cluster.x-k8s.io": received, tokenSecrets: {Objects: 1000, Bytes: 1000}},
			Changes: map[string]Received{"clusters.cluster.x-k8s.io": {Events: int(clusters), Bytes: clusters}, leases: {Bytes: 1000}},
		})
	}
	got := s.Instances[1]
	if want := (Received{Objects: 1000, Bytes: 1000}); got.Everywhere != want {
		t.Errorf("what no scope limits is apart: got %v, want %v", got.Everywhere, want)
	}
	if r := got.Ratios; r.Objects != 0.1 || r.Bytes != 0.1 || r.Changed != 0.1 {
		t.Errorf("ratios are of what the scope limits: got %+v", r)
	}
}

func event(kind, name string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q},"spec":{"metadata":1}}}`, kind, name)
}

// frame returns an event as the API server sends it to clients that want protobuf.
func frame(t *testing.T, kind, name string) string {
	t.Helper()
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{Raw: raw}
	wrapped, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	event := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: append(protobufPrefix(), wrapped...)}}
	body, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func TestStray(t *testing.T) {
	received := map[string]Received{
		"clusters.management.cattle.io": {Objects: 5, Events: 7}, tokenSecrets: {Objects: 5, Events: 5}, leases: {Objects: 1, Events: 9},
	}
	if got := stray(received); got != 2 {
		t.Errorf("a renewed Lease is no change of the stage, and what fills a cache is none: got %d, want 2", got)
	}
}
