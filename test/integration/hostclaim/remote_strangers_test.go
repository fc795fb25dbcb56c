package hostclaim_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// stranger is a server that a kubeconfig can lead to. It answers lists as an API server does that has nothing, and
// keeps watches open; what else it is asked, its answer says.
type stranger struct {
	server *httptest.Server
	answer http.HandlerFunc

	mu      sync.Mutex
	tokens  []string
	watches int
}

func newStranger(answer http.HandlerFunc) *stranger {
	s := &stranger{answer: answer}
	s.server = httptest.NewTLSServer(s)
	DeferCleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *stranger) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.tokens = append(s.tokens, req.Header.Get("Authorization"))
	s.mu.Unlock()
	watches := req.URL.Query().Get("watch") != ""
	lists := strings.HasSuffix(req.URL.Path, "/hostclaims") || strings.HasSuffix(req.URL.Path, "/secrets")
	switch {
	case s.answer != nil && (!lists || req.Method != http.MethodGet):
		s.answer(w, req)
	case watches:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		s.watching(1)
		defer s.watching(-1)
		<-req.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	}
}

// fickle keeps a claim, and says something else of it whenever it is asked. An empty UID is none.
type fickle struct {
	uid string

	mu    sync.Mutex
	asked int
	claim map[string]any
}

// isCreated reports whether somebody has created a claim there.
func (f *fickle) isCreated() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claim != nil
}

func (f *fickle) answer(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	sent := map[string]any{}
	if req.Method == http.MethodPost && json.NewDecoder(req.Body).Decode(&sent) == nil && req.URL.Query().Get("dryRun") == "" {
		f.claim = sent
	}
	said := f.claim
	if req.Method == http.MethodPost {
		said = sent
	}
	w.Header().Set("Content-Type", "application/json")
	if said == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":%q,"kind":"hostclaims"}}`,
			req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:])
		return
	}
	if meta, ok := said["metadata"].(map[string]any); ok {
		meta["uid"], meta["resourceVersion"] = f.uid, fmt.Sprint(f.asked)
	}
	said["status"] = map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Preparing", "message": fmt.Sprint("answer ", f.asked), "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	raw, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw)
}

func (s *stranger) watching(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches += more
}

// watched returns how many watches are open.
func (s *stranger) watched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// heard returns the values of the header Authorization, each once.
func (s *stranger) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := slices.Clone(s.tokens)
	slices.Sort(found)
	return slices.Compact(found)
}

// kubeconfig leads to the server with a token.
func (s *stranger) kubeconfig(token string) []byte {
	GinkgoHelper()
	return write(func(c *clientcmdapi.Config) {
		c.Clusters["x"].Server = s.server.URL
		c.Clusters["x"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
		c.AuthInfos["x"].Token = token
	})
}

// write writes a kubeconfig that has been changed.
func write(change func(*clientcmdapi.Config)) []byte {
	GinkgoHelper()
	config := &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"x": {Server: "https://127.0.0.1:1"}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"x": {Token: "t0ken-of-the-tenant"}},
		Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "x", AuthInfo: "x", Namespace: "user"}}, CurrentContext: "x",
	}
	change(config)
	raw, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// line forwards connections to a server, until it is told to be silent.
type line struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	silent chan struct{} // nil while it is not
}

func newLine(server string) *line {
	GinkgoHelper()
	u, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	l := &line{to: u.Host}
	l.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		l.speak()
		Expect(l.listener.Close()).To(Succeed())
	})
	go func() {
		for {
			conn, err := l.listener.Accept()
			if err != nil {
				return
			}
			go l.forward(conn)
		}
	}()
	return l
}

func (l *line) forward(conn net.Conn) {
	l.wait()
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.to)
	if err != nil {
		_ = conn.Close()
		return
	}
	both := func(from, into net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			l.wait()
			if _, failed := into.Write(buffer[:n]); err != nil || failed != nil {
				_, _ = from.Close(), into.Close()
				return
			}
		}
	}
	go both(conn, to)
	both(to, conn)
}

func (l *line) wait() {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

func (l *line) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = make(chan struct{})
}

func (l *line) speak() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent != nil {
		close(l.silent)
		l.silent = nil
	}
}

// over returns a kubeconfig that leads to its server over the line.
func (l *line) over(kubeconfig []byte) []byte {
	GinkgoHelper()
	config, err := clientcmd.Load(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + l.listener.Addr().String()
		cluster.TLSServerName = "127.0.0.1"
	}
	raw, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return raw
}

// refusal answers as an API server that refuses.
func refusal(code int, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, fmt.Sprintf(
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code,
		))
	}
}
