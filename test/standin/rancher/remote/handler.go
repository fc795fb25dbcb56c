package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/archelon-io/archelon/test/standin/rancher"
)

// bodyLimit is the size of a body above which it is no call.
const bodyLimit = 1 << 20

// Light are workload clusters beside the stand-in that consist of little: providers/capi/workloadserver.
type Light interface {
	// Config reaches a cluster from the stand-in.
	Config(name string) *rest.Config
	// Kubeconfig reaches it from elsewhere.
	Kubeconfig(name string) ([]byte, error)
}

// Handler serves the control API of a stand-in that was started. light is nil if there are no such workload clusters.
func Handler(c rancher.Control, light Light) http.Handler {
	mux := http.NewServeMux()
	handle(mux, "add-workload", func(_ context.Context, in workload) (nothing, error) {
		if in.Name == "" || in.Access.Host == "" {
			return nothing{}, invalid{errors.New("a workload cluster needs a name and a host")}
		}
		config, how := in.Access.Config()
		if err := c.AddWorkload(in.Name, config, how...); err != nil {
			return nothing{}, invalid{err}
		}
		return nothing{}, nil
	})
	handle(mux, "remove-workload", func(_ context.Context, in name) (nothing, error) {
		c.RemoveWorkload(in.Name)
		return nothing{}, nil
	})
	handle(mux, "hold-tokens", func(ctx context.Context, in hold) (nothing, error) { return nothing{}, c.HoldTokens(ctx, in.Hold) })
	handle(mux, "hold-connect", func(_ context.Context, in hold) (nothing, error) {
		c.HoldConnect(in.Hold)
		return nothing{}, nil
	})
	handle(mux, "require-agent-env", func(_ context.Context, in name) (nothing, error) {
		c.RequireAgentEnv(in.Name)
		return nothing{}, nil
	})
	handle(mux, "connected", func(_ context.Context, in name) (connected, error) {
		workload, ok := c.Connected(in.Name)
		return connected{Workload: workload, Connected: ok}, nil
	})
	handle(mux, "reapplies", func(_ context.Context, in name) (count, error) { return count{c.Reapplies(in.Name)}, nil })
	handle(mux, "set-server-url", func(ctx context.Context, in value) (nothing, error) { return nothing{}, c.SetServerURL(ctx, in.Value) })
	handle(mux, "set-agent-tls-mode", func(ctx context.Context, in value) (nothing, error) {
		return nothing{}, c.SetAgentTLSMode(ctx, in.Value)
	})
	handle(mux, "rotate-ca", func(ctx context.Context, _ nothing) (nothing, error) { return nothing{}, c.RotateCA(ctx) })
	handle(mux, "rotate-token", func(ctx context.Context, in name) (nothing, error) { return nothing{}, c.RotateToken(ctx, in.Name) })
	handle(mux, "set-fault", func(_ context.Context, in fault) (nothing, error) {
		if err := checkFault(in.Fault); err != nil {
			return nothing{}, invalid{err}
		}
		c.SetFault(in.Fault)
		return nothing{}, nil
	})
	handle(mux, "clear-faults", func(context.Context, nothing) (nothing, error) {
		c.ClearFaults()
		return nothing{}, nil
	})
	handle(mux, "import-requests", func(context.Context, nothing) (requests, error) { return requests{c.ImportRequests()}, nil })
	handle(mux, "about", func(context.Context, nothing) (about, error) { return about{URL: c.URL(), CACert: c.CACert()}, nil })
	handle(mux, "down", func(context.Context, nothing) (nothing, error) {
		c.Down()
		return nothing{}, nil
	})
	handle(mux, "add-light", func(_ context.Context, in name) (nothing, error) {
		if err := checkLight(light, in.Name); err != nil {
			return nothing{}, err
		}
		return nothing{}, c.AddWorkload(in.Name, light.Config(in.Name), rancher.Ephemeral)
	})
	handle(mux, "light-kubeconfig", func(_ context.Context, in name) (file, error) {
		if err := checkLight(light, in.Name); err != nil {
			return file{}, err
		}
		content, err := light.Kubeconfig(in.Name)
		return file{content}, err
	})
	handle(mux, "up", func(ctx context.Context, _ nothing) (nothing, error) { return nothing{}, c.Up(ctx) })
	return mux
}

// checkLight rejects what cannot be a light workload cluster.
func checkLight(light Light, name string) error {
	if light == nil {
		return invalid{errors.New("this stand-in was started without light workload clusters")}
	}
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return invalid{fmt.Errorf("a light workload cluster cannot be called %q", name)}
	}
	return nil
}

// invalid is an error of the caller.
type invalid struct{ error }

// handle serves one call.
func handle[In, Out any](mux *http.ServeMux, call string, run func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST "+prefix+call, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decode(http.MaxBytesReader(w, r.Body, bodyLimit), &in); err != nil {
			answer(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		out, err := run(r.Context(), in)
		switch {
		case errors.As(err, &invalid{}):
			answer(w, http.StatusBadRequest, failure{err.Error()})
		case err != nil:
			answer(w, http.StatusInternalServerError, failure{err.Error()})
		default:
			answer(w, http.StatusOK, out)
		}
	})
}

// decode reads exactly one object.
func decode(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		// It names fields and types and repeats no text that was sent.
		return fmt.Errorf("reading the call: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("reading the call: there is more than one object")
	}
	return nil
}

func answer(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // a client that went away is no concern of the server's
}
