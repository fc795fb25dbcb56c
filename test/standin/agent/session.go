package agent

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The contract between agent and Rancher. A real agent opens a websocket at the same place and with the same headers.
const (
	// ConnectPath is where an agent connects.
	ConnectPath = "/v3/connect"
	// TokenHeader carries the registration token.
	TokenHeader = "X-API-Tunnel-Token"
	// ParamsHeader carries Params as JSON in base64.
	ParamsHeader = "X-API-Tunnel-Params"
)

// Params are what an agent tells of its cluster.
type Params struct {
	// Cluster is how Rancher reaches the cluster's API server through the tunnel.
	Cluster Access `json:"cluster"`
	// SystemUID is that of namespace kube-system, by which a cluster is recognized.
	SystemUID string `json:"systemUID"`
	// Version is what the API server says of its version.
	Version map[string]any `json:"version,omitempty"`
	// Nodes is the number of nodes.
	Nodes int64 `json:"nodes"`
	// Credential is the name of the Secret with the agent's credentials.
	Credential string `json:"credential,omitempty"`
	// Features are those of the agent. One without them only registers; where a real agent opens a second tunnel for
	// the feature multi-cluster-management-agent, this one just says that it has it.
	Features string `json:"features,omitempty"`
}

// Access is a way to an API server.
type Access struct {
	Address string `json:"address"`
	Token   string `json:"token"`
	CACert  string `json:"caCert"`
}

// Encode returns the value of ParamsHeader.
func (p Params) Encode() (string, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encoding what is known of the cluster: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// DecodeParams reads the value of ParamsHeader.
func DecodeParams(value string) (Params, error) {
	out := Params{}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return out, errors.New("its parameters are not base64")
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, errors.New("its parameters are not what is expected")
	}
	return out, nil
}

// holdSession connects and returns when the connection is gone, and how long it lasted.
func holdSession(ctx context.Context, given credentials, known Params, trust *x509.CertPool, opts Options) (time.Duration, error) {
	params, err := known.Encode()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(given.url, "/")+ConnectPath, nil)
	if err != nil {
		return 0, fmt.Errorf("connecting to Rancher: %w", err)
	}
	request.Header.Set(TokenHeader, given.token)
	request.Header.Set(ParamsHeader, params)
	// A transport of its own, so that each session proves anew that it trusts Rancher.
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust},
		TLSHandshakeTimeout:   requestTimeout,
		ResponseHeaderTimeout: requestTimeout,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		// The token is for nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("connecting to Rancher: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // as much as came is better than none
		return 0, fmt.Errorf("refused by Rancher with status %d: %s", response.StatusCode, strings.TrimSpace(string(reason)))
	}
	began := time.Now()
	opts.Logger.Info("connected", "server", given.url)
	err = listen(cancel, response.Body, opts.Silence)
	return time.Since(began), fmt.Errorf("the connection to Rancher ended: %w", err)
}

// listen reads what keeps the connection alive until nothing more comes.
func listen(cancel context.CancelFunc, body io.Reader, silence time.Duration) error {
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	reader := bufio.NewReader(body)
	for {
		if _, err := reader.Discard(1); err != nil {
			if !watchdog.Stop() {
				return errors.New("nothing was heard of Rancher for too long")
			}
			return err
		}
		watchdog.Reset(silence)
	}
}
