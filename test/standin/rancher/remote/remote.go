package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// callTimeout bounds a call. The API server's proxy gives up after a minute.
const callTimeout = 50 * time.Second

// Remote is a stand-in that runs elsewhere.
type Remote struct {
	client *http.Client
	base   string
	failed func(error)
	err    error // why there is no client
}

var _ rancher.Control = &Remote{}

// New returns the stand-in whose control API is below base. Calls that return no error report it to failed.
func New(client *http.Client, base string, failed func(error)) *Remote {
	return &Remote{client: client, base: strings.TrimSuffix(base, "/"), failed: failed}
}

// Dial returns the stand-in behind a port, by number or name, of a Service, which is reached through the API server.
// Nothing is sent yet: what is wrong shows with the first call.
func Dial(config *rest.Config, namespace, service, port string, failed func(error)) *Remote {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return &Remote{failed: failed, err: fmt.Errorf("creating a client for the API server: %w", err)}
	}
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return &Remote{failed: failed, err: fmt.Errorf("reading the address of the API server: %w", err)}
	}
	return New(client, host.JoinPath("api", "v1", "namespaces", namespace, "services", service+":"+port, "proxy").String(), failed)
}

// Ready returns nil once the stand-in has started.
func (r *Remote) Ready(ctx context.Context) error {
	_, err := send[about](ctx, r, "about", nothing{})
	return err
}

// AddWorkload is that of Standin. The stand-in must be able to use config where it runs; files that
// config names are read here.
func (r *Remote) AddWorkload(name string, config *rest.Config, how ...rancher.Workload) error {
	access, err := rancher.NewAccess(config, how...)
	if err != nil {
		return err
	}
	_, err = send[nothing](context.Background(), r, "add-workload", workload{Name: name, Access: access})
	return err
}

// RemoveWorkload is that of Standin.
func (r *Remote) RemoveWorkload(workload string) { ask[nothing](r, "remove-workload", name{workload}) }

// HoldTokens is that of Standin.
func (r *Remote) HoldTokens(ctx context.Context, on bool) error {
	return do(ctx, r, "hold-tokens", hold{on})
}

// HoldConnect is that of Standin.
func (r *Remote) HoldConnect(on bool) { ask[nothing](r, "hold-connect", hold{on}) }

// RequireAgentEnv is that of Standin.
func (r *Remote) RequireAgentEnv(variable string) {
	ask[nothing](r, "require-agent-env", name{variable})
}

// Connected is that of Standin.
func (r *Remote) Connected(cluster string) (workload string, ok bool) {
	got := ask[connected](r, "connected", name{cluster})
	return got.Workload, got.Connected
}

// Reapplies is that of Standin.
func (r *Remote) Reapplies(cluster string) int {
	return ask[count](r, "reapplies", name{cluster}).Count
}

// SetServerURL is that of Standin.
func (r *Remote) SetServerURL(ctx context.Context, url string) error {
	return do(ctx, r, "set-server-url", value{url})
}

// SetAgentTLSMode is that of Standin.
func (r *Remote) SetAgentTLSMode(ctx context.Context, mode string) error {
	return do(ctx, r, "set-agent-tls-mode", value{mode})
}

// RotateCA is that of Standin.
func (r *Remote) RotateCA(ctx context.Context) error { return do(ctx, r, "rotate-ca", nothing{}) }

// RotateToken is that of Standin.
func (r *Remote) RotateToken(ctx context.Context, cluster string) error {
	return do(ctx, r, "rotate-token", name{cluster})
}

// SetFault is that of Standin.
func (r *Remote) SetFault(f rancher.Fault) { ask[nothing](r, "set-fault", fault{f}) }

// ClearFaults is that of Standin.
func (r *Remote) ClearFaults() { ask[nothing](r, "clear-faults", nothing{}) }

// ImportRequests is that of Standin.
func (r *Remote) ImportRequests() []rancher.Request {
	return ask[requests](r, "import-requests", nothing{}).Requests
}

// URL is that of Standin.
func (r *Remote) URL() string { return ask[about](r, "about", nothing{}).URL }

// CACert is that of Standin.
func (r *Remote) CACert() []byte { return ask[about](r, "about", nothing{}).CACert }

// Down is that of Standin.
func (r *Remote) Down() { ask[nothing](r, "down", nothing{}) }

// Up is that of Standin.
func (r *Remote) Up(ctx context.Context) error { return do(ctx, r, "up", nothing{}) }

// AddLight plays the agent in a light workload cluster beside the stand-in, which exists from now on.
func (r *Remote) AddLight(cluster string) error {
	return do(context.Background(), r, "add-light", name{cluster})
}

// LightKubeconfig returns the kubeconfig of a light workload cluster, as CAPI would hand it out.
func (r *Remote) LightKubeconfig(cluster string) ([]byte, error) {
	got, err := send[file](context.Background(), r, "light-kubeconfig", name{cluster})
	return got.Content, err
}

// Stop lets go of the connections to the stand-in, which runs on until its Pod is deleted.
func (r *Remote) Stop() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

// do sends a call that has no answer.
func do(ctx context.Context, r *Remote, call string, in any) error {
	_, err := send[nothing](ctx, r, call, in)
	return err
}

// ask sends a call for a method that returns no error.
func ask[Out any](r *Remote, call string, in any) Out {
	out, err := send[Out](context.Background(), r, call, in)
	if err != nil {
		r.failed(err)
	}
	return out
}

// send sends a call. No error holds what was sent.
func send[Out any](ctx context.Context, r *Remote, call string, in any) (Out, error) {
	var out Out
	if r.err != nil {
		return out, r.err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encoding call %s: %w", call, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+prefix+call, bytes.NewReader(body))
	if err != nil {
		return out, fmt.Errorf("calling %s of the Rancher stand-in: %w", call, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return out, fmt.Errorf("calling %s of the Rancher stand-in: %w", call, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return out, fmt.Errorf("calling %s of the Rancher stand-in: %w", call, failureOf(response))
	}
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("reading the answer to %s of the Rancher stand-in: %w", call, err)
	}
	return out, nil
}

// failureOf is the error that the stand-in, or the API server in between, answers with.
func failureOf(response *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // as much as came is better than none
	got := failure{}
	if err := json.Unmarshal(raw, &got); err == nil && got.Error != "" {
		return errors.New(got.Error)
	}
	return fmt.Errorf("status %d: %s", response.StatusCode, bytes.TrimSpace(raw))
}
