// Package agent is a stand-in for Rancher's agent: the program that an imported manifest starts as
// cattle-cluster-agent, and that the clean-up Job of a deleted cluster runs. It does what can be seen of the
// real one from outside: it reads its credentials from a volume, checks Rancher's CA against the checksum that
// it was given, asks its own API server what it has to tell, keeps one connection to Rancher open, and as a Job
// removes Rancher from the cluster.
//
// Where to find what:
//
//   - agent.go: the agent's life
//   - session.go, ca.go: Rancher's side of it
//   - cluster.go: the side of its own cluster
//   - job.go, cleanup.go: the clean-up
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Options are what a Pod gives the agent. See FromEnvironment.
type Options struct {
	// Credentials is the directory of the files url and token.
	Credentials string
	// CredentialName is the name of the Secret that they come from.
	CredentialName string
	// Server is where to ask for Rancher's CA; empty means the url of the credentials.
	Server string
	// CAChecksum is the SHA-256 of Rancher's setting cacerts; empty means that the system's roots are trusted.
	CAChecksum string
	// Features are what Rancher gave the agent when it applied it itself; a downloaded manifest has none.
	Features string
	// Strict trusts nothing but the CA with that checksum. Without it the system's roots are trusted, too.
	Strict bool
	// Config reaches the agent's own API server; nil means that of the Pod.
	Config *rest.Config
	// APIServer, as host or host:port, takes the place of the host of Config, so that a name is resolved.
	APIServer string
	// FirstRetry and LastRetry bound the pause between two attempts, which grows in between.
	FirstRetry, LastRetry time.Duration
	// Silence is how long Rancher may say nothing before the connection counts as dead.
	Silence time.Duration
	// Cleanup makes it the clean-up Job, which sleeps first.
	Cleanup bool
	Sleep   time.Duration
	// Logger receives one line per change. It never gets a token. Required.
	Logger *slog.Logger
}

// Variables of the stand-in's manifest and Job that Rancher's do not have.
const (
	// SleepVariable holds the sleep of a clean-up Job with SLEEP_FIRST. A real one sleeps a minute.
	SleepVariable = "STANDIN_CLEANUP_SLEEP"
	// APIServerVariable holds Options.APIServer.
	APIServerVariable = "STANDIN_API_SERVER"
	// CredentialsVariable holds Options.Credentials, where a volume cannot be at its usual place.
	CredentialsVariable = "STANDIN_CREDENTIALS"
)

// FromEnvironment returns the options that the variables of a Pod ask for.
func FromEnvironment(get func(string) string) (Options, error) {
	o := Options{
		Credentials:    cmp.Or(get(CredentialsVariable), "/cattle-credentials"),
		CredentialName: get("CATTLE_CREDENTIAL_NAME"),
		Server:         get("CATTLE_SERVER"),
		CAChecksum:     get("CATTLE_CA_CHECKSUM"),
		Features:       get("CATTLE_FEATURES"),
		Strict:         get("STRICT_VERIFY") == "true",
		APIServer:      get(APIServerVariable),
		FirstRetry:     500 * time.Millisecond,
		LastRetry:      5 * time.Second,
		Silence:        time.Minute,
		Cleanup:        get("CLUSTER_CLEANUP") == "true",
	}
	if get("SLEEP_FIRST") == "true" {
		o.Sleep = time.Minute
		if text := get(SleepVariable); text != "" {
			sleep, err := time.ParseDuration(text)
			if err != nil || sleep < 0 {
				return o, fmt.Errorf("%s %q is no duration", SleepVariable, text)
			}
			o.Sleep = sleep
		}
	}
	return o, nil
}

// Run is the life of the agent: it ends with ctx, without an error. As a Job it ends when the clean-up is done.
func Run(ctx context.Context, opts Options) error {
	if opts.Logger == nil {
		return errors.New("no logger")
	}
	if opts.Cleanup {
		return runJob(ctx, opts)
	}
	wait := opts.FirstRetry
	for {
		held, err := attempt(ctx, opts)
		// Only a session that lasted is a reason to come back at once: two agents with the same
		// credentials would chase each other.
		if held > opts.LastRetry {
			wait = opts.FirstRetry
		}
		if ctx.Err() == nil {
			opts.Logger.Warn("not connected, trying again", "cause", err, "after", wait)
		}
		if !pause(ctx, wait) {
			opts.Logger.Info("agent ends")
			return nil
		}
		wait = min(opts.LastRetry, wait*3/2)
	}
}

// attempt connects once and returns when the connection is gone, and how long it lasted.
func attempt(ctx context.Context, opts Options) (time.Duration, error) {
	given, err := readCredentials(opts.Credentials)
	if err != nil {
		return 0, err
	}
	server := opts.Server
	if server == "" {
		server = given.url
	}
	trust, err := trustedRoots(ctx, server, opts)
	if err != nil {
		return 0, err
	}
	known, err := askCluster(ctx, opts)
	if err != nil {
		return 0, err
	}
	known.Credential, known.Features = opts.CredentialName, opts.Features
	return holdSession(ctx, given, known, trust, opts)
}

// credentials are what the imported manifest put into the Secret.
type credentials struct{ url, token string }

func readCredentials(directory string) (credentials, error) {
	var out credentials
	for name, into := range map[string]*string{"url": &out.url, "token": &out.token} {
		content, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return out, fmt.Errorf("reading credentials: %w", err)
		}
		if *into = strings.TrimSpace(string(content)); *into == "" {
			return out, fmt.Errorf("reading credentials: %s is empty", name)
		}
	}
	return out, nil
}

// pause returns true after a while, and false as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
