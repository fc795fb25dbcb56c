package rancher

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FaultKind is a way in which the download of an import manifest goes wrong.
type FaultKind string

// Kinds of faults. Where nothing else is said the status is 200.
const (
	// FaultStatus answers with Fault.Status and a short text.
	FaultStatus FaultKind = "status"
	// FaultHTML answers with a login page, as a proxy in between does.
	FaultHTML FaultKind = "html"
	// FaultEmpty answers with no body.
	FaultEmpty FaultKind = "empty"
	// FaultTruncated announces the whole manifest and closes the connection half way.
	FaultTruncated FaultKind = "truncated"
	// FaultCut sends half of the manifest as if it were whole.
	FaultCut FaultKind = "cut"
	// FaultLarge sends a manifest that is followed by Fault.Bytes bytes of comments.
	FaultLarge FaultKind = "large"
	// FaultEndless sends comments until the client goes away.
	FaultEndless FaultKind = "endless"
	// FaultNotYAML sends binary garbage.
	FaultNotYAML FaultKind = "not-yaml"
	// FaultForeignKind adds an object of a kind that has no business in the manifest.
	FaultForeignKind FaultKind = "foreign-kind"
	// FaultNoSecret leaves out the Secret with the agent's credentials.
	FaultNoSecret FaultKind = "no-secret"
	// FaultRedirect redirects to Fault.Location.
	FaultRedirect FaultKind = "redirect"
	// FaultSlow answers properly after Fault.Delay.
	FaultSlow FaultKind = "slow"
	// FaultHang accepts the request and never answers.
	FaultHang FaultKind = "hang"
	// FaultDrop closes the connection without an answer.
	FaultDrop FaultKind = "drop"
)

// Fault is one fault of the import endpoint.
type Fault struct {
	// Cluster is the id of the v3 Cluster whose manifest is affected; empty means all.
	Cluster string
	// Kind is what goes wrong.
	Kind FaultKind
	// Status is the HTTP status of FaultStatus, 500 if zero.
	Status int
	// Bytes is the size of FaultLarge.
	Bytes int64
	// Delay is that of FaultSlow.
	Delay time.Duration
	// Location is the target of FaultRedirect.
	Location string
	// Times is how many requests are affected; 0 means all.
	Times int
}

// faultTable holds at most one fault for each cluster and one for all others.
type faultTable struct {
	mu      sync.Mutex
	faults  map[string]*Fault
	cleared chan struct{} // closed when the faults of its time are cleared
}

func newFaultTable() *faultTable {
	return &faultTable{faults: map[string]*Fault{}, cleared: make(chan struct{})}
}

func (t *faultTable) set(f Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults[f.Cluster] = &f
}

func (t *faultTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.faults)
	close(t.cleared)
	t.cleared = make(chan struct{})
}

// take returns the fault for one request to the cluster's manifest, and a channel that is
// closed when faults are cleared.
func (t *faultTable) take(cluster string) (Fault, bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range []string{cluster, ""} {
		f, ok := t.faults[key]
		if !ok {
			continue
		}
		if f.Times == 1 {
			delete(t.faults, key)
		}
		if f.Times > 1 {
			f.Times--
		}
		return *f, true, t.cleared
	}
	return Fault{}, false, t.cleared
}

// answer serves a request with the fault instead of the given answer. It returns the status
// that was sent, zero if none was.
func (f Fault) answer(w http.ResponseWriter, r *http.Request, good func() (int, string), cleared <-chan struct{}) int {
	switch f.Kind {
	case FaultStatus:
		status := f.Status
		if status == 0 {
			status = http.StatusInternalServerError
		}
		return plain(w, status, http.StatusText(status)+"\n")
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		return send(w, http.StatusOK, "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form action=\"/login\"></form></body></html>\n")
	case FaultEmpty:
		return plain(w, http.StatusOK, "")
	case FaultNotYAML:
		return plain(w, http.StatusOK, "\x00\x01\t{]: @@ %not yaml\x7f\n\t- [\n")
	case FaultRedirect:
		w.Header().Set("Location", f.Location)
		return plain(w, http.StatusFound, "")
	case FaultHang:
		wait(r, cleared, 0)
		panic(http.ErrAbortHandler)
	case FaultDrop:
		panic(http.ErrAbortHandler)
	case FaultSlow:
		wait(r, cleared, f.Delay)
		return plainPair(w, good)
	default:
		return f.spoil(w, r, good)
	}
}

// spoil serves the good answer with something wrong in it.
func (f Fault) spoil(w http.ResponseWriter, r *http.Request, good func() (int, string)) int {
	status, body := good()
	if status != http.StatusOK {
		return plain(w, status, body)
	}
	switch f.Kind {
	case FaultTruncated:
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		plain(w, status, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case FaultCut:
		return plain(w, status, body[:len(body)/2])
	case FaultLarge:
		plain(w, status, body)
		comments(w, r, f.Bytes)
	case FaultEndless:
		plain(w, status, body)
		comments(w, r, -1)
	case FaultForeignKind:
		return plain(w, status, body+foreignDocument)
	case FaultNoSecret:
		return plain(w, status, withoutSecret(body))
	default:
		return plain(w, http.StatusInternalServerError, fmt.Sprintf("unknown fault %q", f.Kind))
	}
	return status
}

const foreignDocument = `
---
apiVersion: v1
kind: Pod
metadata:
  name: not-an-agent
  namespace: kube-system
spec:
  containers:
  - name: main
    image: example.invalid/not-an-agent
`

// withoutSecret returns the manifest without its credentials document.
func withoutSecret(body string) string {
	documents := strings.Split(body, "\n---\n")
	kept := documents[:0]
	for _, document := range documents {
		if !strings.Contains(document, "kind: Secret") {
			kept = append(kept, document)
		}
	}
	return strings.Join(kept, "\n---\n")
}

// comments writes n bytes of YAML comments, or without end if n is negative.
func comments(w http.ResponseWriter, r *http.Request, n int64) {
	line := []byte("\n# " + strings.Repeat("x", 4093))
	for n != 0 && r.Context().Err() == nil {
		if n > 0 && n < int64(len(line)) {
			line = line[:n]
		}
		if _, err := w.Write(line); err != nil {
			return
		}
		if n > 0 {
			n -= int64(len(line))
		}
	}
}

// wait returns when the client goes away, faults are cleared, or the delay is over; no delay
// means no end.
func wait(r *http.Request, cleared <-chan struct{}, delay time.Duration) {
	var over <-chan time.Time
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-r.Context().Done():
	case <-cleared:
	case <-over:
	}
}

func plain(w http.ResponseWriter, status int, body string) int {
	w.Header().Set("Content-Type", "text/plain")
	return send(w, status, body)
}

func plainPair(w http.ResponseWriter, answer func() (int, string)) int {
	status, body := answer()
	return plain(w, status, body)
}

// send writes an answer. A client that went away is no concern of the server's.
func send(w http.ResponseWriter, status int, body string) int {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
	return status
}
