// Package workloadserver plays the API servers of any number of workload clusters in one process and behind one
// listener. It knows as much of the Kubernetes API as an import and Rancher's agent need: objects in memory that are
// applied, created, updated, read, listed, watched and deleted. There is no validation, no RBAC and no field
// management, so it shows what an import costs and not that it is right; that is shown against real API servers.
package workloadserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pathPrefix begins the path of every request; the name of the cluster follows.
const pathPrefix = "/clusters/"

// Request is one request to a workload cluster that was answered, or a watch that began.
type Request struct {
	// Cluster is the name of the workload cluster.
	Cluster string
	// Client is the first word of the user agent, up to its slash.
	Client string
	// Verb is that of Kubernetes: get, list, watch, create, update, patch or delete.
	Verb string
	// Resource is the plural, such as deployments. It is empty for what is no resource, such as /version.
	Resource string
	// Name is that of the object; empty for lists and watches.
	Name string
	// Code is the status of the answer.
	Code int
	// At is when the answer was ready.
	At time.Time
}

// Server is a listener for all workload clusters, and a black hole for those that are to be dead.
type Server struct {
	observe func(Request)
	pki     *pki
	http    *http.Server
	address string
	url     string // where others find it, empty if that is the address
	hole    *blackHole
	served  chan struct{}

	mu       sync.Mutex
	clusters map[string]*cluster
}

// Options say where a server is found.
type Options struct {
	// Listen is the address of the listener; empty means a free port of loopback.
	Listen string
	// URL, such as https://light.example:8443, is where others than this process find the server. Its host is in the
	// certificate. Empty means the address that is listened on.
	URL string
	// Keys are what NewKeys has made, so that kubeconfigs outlive this server; empty makes new ones.
	Keys []byte
	// Distance is how long a request and its answer are on their way.
	Distance time.Duration
}

// Start serves on loopback until Stop. It calls observe for every request, from several goroutines.
func Start(ctx context.Context, observe func(Request)) (*Server, error) {
	return StartAt(ctx, Options{}, observe)
}

// from serves clients at a distance.
func (s *Server) from(distance time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(distance)
		defer timer.Stop()
		select {
		case <-timer.C:
			s.serve(w, r)
		case <-r.Context().Done():
		}
	})
}

// StartAt is Start for a server that others reach, too.
func StartAt(ctx context.Context, opts Options, observe func(Request)) (*Server, error) {
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	var hosts []string
	if opts.URL != "" {
		parsed, err := url.Parse(opts.URL)
		if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
			return nil, fmt.Errorf("URL %q of the workload clusters is not https://HOST", opts.URL)
		}
		hosts = []string{parsed.Hostname()}
	}
	if len(opts.Keys) == 0 {
		var err error
		if opts.Keys, err = NewKeys(); err != nil {
			return nil, err
		}
	}
	keys, err := newPKI(opts.Keys, hosts)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening as workload clusters: %w", err)
	}
	hole, err := openBlackHole(ctx)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{
		observe: observe, pki: keys, address: own(listener.Addr()), url: strings.TrimSuffix(opts.URL, "/"), hole: hole,
		served: make(chan struct{}), clusters: map[string]*cluster{},
	}
	s.http = &http.Server{
		Handler:           s.from(opts.Distance),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // clients hang up whenever they like
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{keys.serving},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    keys.pool,
		},
	}
	go func() {
		defer close(s.served)
		_ = s.http.ServeTLS(listener, "", "") // it ends with Stop, and returns nothing else
	}()
	return s, nil
}

// own is how this process reaches an address that it listens on.
func own(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return address.String()
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
}

// Stop cuts all connections off and returns when nothing is served any more.
func (s *Server) Stop() error {
	err := errors.Join(s.http.Close(), s.hole.close())
	<-s.served
	return err
}

// Config returns the administrator's access to a cluster, for this process. The cluster
// exists from the first request on.
func (s *Server) Config(name string) *rest.Config {
	return &rest.Config{
		Host: "https://" + s.address + pathPrefix + name,
		// Typed clients would send protobuf.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		TLSClientConfig: rest.TLSClientConfig{
			CAData: s.pki.caPEM, CertData: s.pki.clientCertPEM, KeyData: s.pki.clientKeyPEM,
		},
	}
}

// Kubeconfig returns the access for others as CAPI hands it out: inline data only, with a client certificate.
func (s *Server) Kubeconfig(name string) ([]byte, error) {
	if s.url != "" {
		return s.kubeconfig(name, s.url+pathPrefix+name)
	}
	return s.kubeconfig(name, s.Config(name).Host)
}

// BlackHole returns the kubeconfig of a cluster whose API server accepts connections and never says a word.
func (s *Server) BlackHole(name string) ([]byte, error) {
	return s.kubeconfig(name, "https://"+s.hole.address()+pathPrefix+name)
}

func (s *Server) kubeconfig(name, host string) ([]byte, error) {
	user := name + "-admin"
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: host, CertificateAuthorityData: s.pki.caPEM}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: s.pki.clientCertPEM, ClientKeyData: s.pki.clientKeyPEM}},
		Contexts:       map[string]*clientcmdapi.Context{user + "@" + name: {Cluster: name, AuthInfo: user}},
		CurrentContext: user + "@" + name,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of workload cluster %s: %w", name, err)
	}
	return raw, nil
}

// Handler returns the API of one more workload cluster, for others to serve, who look after TLS and authentication.
func Handler() http.Handler {
	c := newCluster()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.serve(w, r, strings.TrimPrefix(r.URL.Path, "/"), func(string, string, string, int) {})
	})
}

// serve hands a request to the cluster that its path names.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	below, ok := strings.CutPrefix(r.URL.Path, pathPrefix)
	name, path, found := strings.Cut(below, "/")
	if !ok || !found || name == "" {
		http.NotFound(w, r)
		return
	}
	client, _, _ := strings.Cut(r.UserAgent(), "/")
	request := Request{Cluster: name, Client: client}
	s.cluster(name).serve(w, r, path, func(verb, resource, object string, code int) {
		request.Verb, request.Resource, request.Name, request.Code, request.At = verb, resource, object, code, time.Now()
		s.observe(request)
	})
}

func (s *Server) cluster(name string) *cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clusters[name]
	if !ok {
		c = newCluster()
		s.clusters[name] = c
	}
	return c
}
