package rancher

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// TokenMode says where Rancher keeps registration tokens.
type TokenMode string

const (
	// TokenPlaceholder keeps the token in a Secret and leaves {token} in the manifest URL:
	// Rancher 2.13.8, 2.14.4, 2.15.0 and later.
	TokenPlaceholder TokenMode = "placeholder"
	// TokenPlain keeps the token in the status of the ClusterRegistrationToken and hands out a
	// complete URL: everything older.
	TokenPlain TokenMode = "plain"
)

// loopback is a free port that only this machine reaches.
const loopback = "127.0.0.1:0"

// Values of the setting agent-tls-mode.
const (
	tlsStrict      = "strict"
	tlsSystemStore = "system-store"
)

// Timings are the delays of Rancher and of its agent. The zero value of a field means no delay.
type Timings struct {
	// Write is the pause before each write in a sequence of writes to one object.
	Write time.Duration
	// ClusterName is how long a v1 Cluster whose v3 Cluster exists has no status.clusterName.
	ClusterName time.Duration
	// Token is how long a new ClusterRegistrationToken stays empty.
	Token time.Duration
	// URL is, in mode TokenPlain, the time between the write of the token and that of the URL.
	URL time.Duration
	// Migrate is the time between a new cluster and condition ServiceAccountSecretsMigrated, which is zero but
	// where Rancher has just started.
	Migrate time.Duration
	// Connect is the time between the session of an agent that Rancher applied and condition Connected, between a new
	// cluster and its first Connected=False, and between the first contact and Ready=False: in Rancher, one checker
	// looks now and then.
	Connect time.Duration
	// Disconnect is the time between the end of the agent's session and Connected=False. Pods of a real agent
	// need more than the default: the old one may go before the new one has connected, which Rancher, who looks
	// now and then, hardly ever sees.
	Disconnect time.Duration
	// Health is the time between Connected and Ready.
	Health time.Duration
	// Deploy is the time between the agent's first contact, or what makes Rancher apply it once more, and the moment
	// Rancher applies it.
	Deploy time.Duration
	// AgentStart is the time the agent takes from the existence of its Deployment and Secret to its first session.
	AgentStart time.Duration
	// AgentRetry is the time between two attempts of an agent that was refused.
	AgentRetry time.Duration
	// CleanupRetry is the time between the three attempts to create the clean-up Job.
	CleanupRetry time.Duration
	// Cleanup is how long the clean-up Job sleeps before it removes anything.
	Cleanup time.Duration
	// NamespaceController is how long a deleted namespace is left to the API server's own
	// namespace controller before the stand-in takes its place.
	NamespaceController time.Duration
	// TokenGrace is how long a token stays valid after its rotation.
	TokenGrace time.Duration
	// Poll is how often the stand-in looks again at what it waits for without a watch.
	Poll time.Duration
}

// DefaultTimings returns delays for tests: short, but not zero, so that a client sees every
// intermediate state.
func DefaultTimings() Timings {
	const tick = 10 * time.Millisecond
	return Timings{
		ClusterName:         2 * tick,
		Token:               2 * tick,
		URL:                 2 * tick,
		Connect:             2 * tick,
		Disconnect:          3 * tick,
		Health:              2 * tick,
		Deploy:              tick,
		AgentStart:          2 * tick,
		AgentRetry:          10 * tick,
		CleanupRetry:        5 * tick,
		Cleanup:             50 * tick,
		NamespaceController: 30 * tick,
		TokenGrace:          time.Minute,
		Poll:                5 * tick,
	}
}

// RancherTimings returns the delays of a real Rancher.
func RancherTimings() Timings {
	return Timings{
		Write:               20 * time.Millisecond,
		ClusterName:         time.Second,
		Token:               3 * time.Second,
		URL:                 time.Second,
		Connect:             15 * time.Second,
		Disconnect:          15 * time.Second,
		Health:              5 * time.Second,
		Deploy:              2 * time.Second,
		AgentStart:          10 * time.Second,
		AgentRetry:          10 * time.Second,
		CleanupRetry:        3 * time.Second,
		Cleanup:             time.Minute,
		NamespaceController: 10 * time.Second,
		TokenGrace:          3 * time.Hour,
		Poll:                time.Second,
	}
}

// Options configure a stand-in. Start from DefaultOptions.
type Options struct {
	// Config reaches the API server of the Rancher management cluster as an administrator.
	// The CRDs of CRDs must be installed there. Required.
	Config *rest.Config
	// TokenMode is where tokens are kept.
	TokenMode TokenMode
	// StatusSubresource says which generation of the v3 Cluster's CRD is installed. It also
	// selects what else changed with Rancher 2.15: with it, readiness of a v1 Cluster follows
	// condition Connected; without it, it follows Ready, and the v3 conditions are copied to the v1 Cluster.
	StatusSubresource bool
	// StrictImport makes the import endpoint check the token, and makes the namespace of a token
	// decide for which cluster it is. Without it any token gets a manifest, and spec.clusterName decides.
	StrictImport bool
	// AgentTLSMode is the value of setting agent-tls-mode, "strict" or "system-store"; it goes into
	// the setting's default, as in Rancher.
	AgentTLSMode string
	// Listen is the address of the HTTPS server.
	Listen string
	// ServerURL is what agents and importers are told, the first value of setting server-url; empty means https:// and the
	// address that is listened on.
	ServerURL string
	// Hosts are names and IPs in the certificate, beside those of ServerURL, Listen and loopback.
	Hosts []string
	// WebhookListen is the address of the admission webhook; empty means a free port of loopback.
	WebhookListen string
	// WebhookService, if set, is how the API server finds the webhook: on WebhookPort, 443 if zero, of a Service of that
	// name. Else it is told the address that is listened on.
	WebhookService *types.NamespacedName
	// WebhookPort is the port of WebhookService.
	WebhookPort int32
	// StateNamespace, if set, is where the stand-in keeps its CA and its workload clusters in Secrets, as Rancher keeps
	// its CA in tls-rancher-internal-ca in cattle-system. Another stand-in then goes on where this one stopped: agents
	// that were installed before trust it, and with a ServerURL a value of setting server-url that was set meanwhile
	// stays. Empty keeps nothing: each start has a CA of its own.
	StateNamespace string
	// AgentImage is the default of setting agent-image.
	AgentImage string
	// Timings are the delays.
	Timings Timings
	// Workers is the number of clusters, tokens and workload clusters handled at once.
	Workers int
	// Logger receives one line per change of the world, in plain words and without tokens.
	Logger logr.Logger
}

// DefaultOptions returns options for a stand-in of the newest Rancher in the management cluster
// that config reaches.
func DefaultOptions(config *rest.Config) Options {
	return Options{
		Config:            config,
		TokenMode:         TokenPlaceholder,
		StatusSubresource: true,
		StrictImport:      true,
		AgentTLSMode:      tlsStrict,
		Listen:            loopback,
		WebhookListen:     loopback,
		WebhookPort:       443,
		AgentImage:        defaultAgentImage,
		Timings:           DefaultTimings(),
		Workers:           16,
		Logger:            logr.Discard(),
	}
}

// complete fills what was left empty and rejects what makes no sense.
func (o *Options) complete() error {
	if o.Config == nil {
		return errors.New("no configuration of a management cluster")
	}
	if o.TokenMode == "" {
		o.TokenMode = TokenPlaceholder
	}
	if o.TokenMode != TokenPlaceholder && o.TokenMode != TokenPlain {
		return fmt.Errorf("unknown token mode %q", o.TokenMode)
	}
	if o.AgentTLSMode == "" {
		o.AgentTLSMode = tlsStrict
	}
	if o.AgentTLSMode != tlsStrict && o.AgentTLSMode != tlsSystemStore {
		return fmt.Errorf("unknown agent TLS mode %q", o.AgentTLSMode)
	}
	o.fill()
	if _, err := serverHost(o.ServerURL); err != nil {
		return err
	}
	return nil
}

// fill gives what was left empty a value that works.
func (o *Options) fill() {
	if o.Listen == "" {
		o.Listen = loopback
	}
	if o.WebhookListen == "" {
		o.WebhookListen = loopback
	}
	if o.WebhookPort == 0 {
		o.WebhookPort = 443
	}
	if o.AgentImage == "" {
		o.AgentImage = defaultAgentImage
	}
	if o.Workers <= 0 {
		o.Workers = 16
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
}

// serverHost returns the host of a server URL without its port, and "" for none.
func serverHost(server string) (string, error) {
	if server == "" {
		return "", nil
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
		return "", fmt.Errorf("server URL %q is not https://HOST", server)
	}
	return parsed.Hostname(), nil
}

// certificateHosts are the names and IPs under which Rancher's server is found.
func (o *Options) certificateHosts() []string {
	out := append([]string{}, o.Hosts...)
	if host, err := serverHost(o.ServerURL); err == nil && host != "" {
		out = append(out, host)
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && host != "" {
		out = append(out, host)
	}
	return out
}
