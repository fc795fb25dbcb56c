package rancher

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/test/standin/agent"
)

// Request is one download of an import manifest. It holds no token.
type Request struct {
	// Cluster is the id in the path, empty if there was none.
	Cluster string
	// Status is the HTTP status of the answer, zero if the connection was cut off.
	Status int
	// Time is when the request came in.
	Time time.Time
}

// requestLog remembers downloads.
type requestLog struct {
	mu       sync.Mutex
	requests []Request
}

func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

func (l *requestLog) all() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.requests...)
}

// importServer is the part of Rancher's HTTPS server that an importer and an agent need.
type importServer struct {
	standin   *Standin
	authority atomic.Pointer[authority]
	log       requestLog

	mu      sync.Mutex
	address string // host:port, kept when Rancher comes up again
	server  *http.Server
	done    chan struct{}
}

// newImportServer takes the CA of an earlier stand-in if it was kept.
func newImportServer(ctx context.Context, s *Standin) (*importServer, error) {
	out := &importServer{standin: s, address: s.opts.Listen}
	kept, err := s.keptCA(ctx)
	if err != nil {
		return nil, err
	}
	if kept == nil {
		return out, out.rotate(ctx)
	}
	return out, out.serveWith(kept)
}

// rotate makes a new CA, and keeps it if that is asked for.
func (i *importServer) rotate(ctx context.Context) error {
	ca, err := newCA("dynamiclistener-ca")
	if err != nil {
		return fmt.Errorf("making Rancher's CA: %w", err)
	}
	if err := i.standin.keepCA(ctx, ca); err != nil {
		return err
	}
	return i.serveWith(ca)
}

func (i *importServer) serveWith(ca *certificateAuthority) error {
	authority, err := ca.serve(i.standin.opts.certificateHosts())
	if err != nil {
		return fmt.Errorf("making Rancher's certificate: %w", err)
	}
	i.authority.Store(authority)
	return nil
}

func (i *importServer) caCert() []byte { return i.authority.Load().pem }

func (i *importServer) url() string {
	if server := i.standin.opts.ServerURL; server != "" {
		return server
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return "https://" + i.address
}

// up starts to listen, on the same port as before if there was one.
func (i *importServer) up(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", i.address)
	if err != nil {
		return fmt.Errorf("listening as Rancher: %w", err)
	}
	i.address = listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v3/import/", i.serveImport)
	mux.HandleFunc("GET /v3/settings/{name}", i.serveSetting)
	mux.HandleFunc("GET "+agent.ConnectPath, i.serveConnect)
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "pong") })
	i.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that reject the CA are expected
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return i.authority.Load().serving, nil
			},
		},
	}
	i.done = make(chan struct{})
	go func(server *http.Server, done chan struct{}) {
		defer close(done)
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			i.standin.opts.Logger.Error(err, "Rancher's server ended")
		}
	}(i.server, i.done)
	return nil
}

// down closes the listener and cuts every connection off.
func (i *importServer) down() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server == nil {
		return
	}
	_ = i.server.Close() // the listener is closed whatever it returns
	<-i.done
	i.server = nil
}

func (i *importServer) serveSetting(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name != settingCACerts { // the others need a login
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	value, err := setting(r.Context(), i.standin.api, name)
	if err != nil {
		plain(w, http.StatusInternalServerError, err.Error())
		return
	}
	body, err := json.Marshal(map[string]string{"id": name, "type": "setting", "name": name, "value": value})
	if err != nil {
		plain(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, http.StatusOK, string(body))
}

// serveImport serves /v3/import/<token>_<cluster>.yaml.
func (i *importServer) serveImport(w http.ResponseWriter, r *http.Request) {
	request := Request{Time: time.Now()}
	defer func() { i.log.add(request) }()
	file := strings.TrimPrefix(r.URL.Path, "/v3/import/")
	base, isYAML := strings.CutSuffix(file, ".yaml")
	token, cluster, ok := strings.Cut(base, "_")
	if !isYAML || !ok || strings.Contains(file, "/") {
		http.NotFound(w, r)
		request.Status = http.StatusNotFound
		return
	}
	request.Cluster = cluster
	good := func() (int, string) { return i.importAnswer(r, token, cluster) }
	if fault, ok, cleared := i.standin.faults.take(cluster); ok {
		request.Status = fault.answer(w, r, good, cleared)
		return
	}
	request.Status = plainPair(w, good)
}

// imageReference is a loose form of what is accepted as an image.
var imageReference = regexp.MustCompile(`^[a-z0-9]+([._:/-][a-zA-Z0-9_]+)*(@sha256:[0-9a-f]{64})?$`)

// importAnswer returns the answer to a well-formed request.
func (i *importServer) importAnswer(r *http.Request, token, cluster string) (int, string) {
	const unknown = "cluster not found or invalid token\n"
	s := i.standin
	if strings.Contains(token, placeholder) {
		return http.StatusBadRequest, unknown
	}
	authImage := r.URL.Query().Get("authImage")
	if s.opts.StrictImport {
		known, err := s.validFor(r.Context(), token, cluster)
		if err != nil {
			return http.StatusInternalServerError, err.Error()
		}
		if !known {
			return http.StatusBadRequest, unknown
		}
		if authImage != "" && !imageReference.MatchString(authImage) {
			return http.StatusBadRequest, "invalid authImage - " + authImage
		}
	}
	data, err := s.manifestData(r.Context(), s.api, token, cluster)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	if data.Server == "" {
		data.Server = "https://" + r.Host
	}
	data.AuthImage = authImage
	body, err := data.render()
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	return http.StatusOK, body
}

// validFor says whether the token registers the cluster and the cluster exists.
func (s *Standin) validFor(ctx context.Context, token, cluster string) (bool, error) {
	owner, ok := s.tokens.cluster(token, s.opts.StrictImport)
	if !ok || owner != cluster {
		return false, nil
	}
	err := s.api.Get(ctx, client.ObjectKey{Name: cluster}, newObject(clusterGVK))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading cluster %s: %w", cluster, err)
	}
	return true, nil
}
