package rancher

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

const redacted = "[redacted]"

// Registration is the right to register one workload cluster with Rancher. It holds a token, so
// however it is formatted, logged or marshalled it shows the name of the Rancher cluster only. Ask
// for it at each use and do not keep it: tokens are rotated.
type Registration struct {
	cluster string
	// reveal is a function because fmt prints what unexported fields of other structs hold without
	// asking for its methods, even through pointers, but of a function only the address.
	reveal func() registrationSecrets
}

type registrationSecrets struct {
	manifestURL string
	tokens      []string
}

// newRegistration returns the registration of a cluster from a complete manifest URL and the valid
// tokens, the current one first.
func newRegistration(cluster, manifestURL string, tokens []string) (Registration, error) {
	u, err := url.Parse(manifestURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return Registration{}, &outcome.Problem{
			Kind:   outcome.KindWait,
			Reason: archelonv1.RegistrationURLInvalidReason,
			Message: fmt.Sprintf("The manifest URL in ClusterRegistrationToken %s/%s is not an https URL. "+
				"Correct Rancher's setting server-url. Archelon then asks Rancher for a new URL", cluster, DefaultTokenName),
		}
	}
	secrets := registrationSecrets{manifestURL: manifestURL, tokens: tokens}
	return Registration{cluster: cluster, reveal: func() registrationSecrets { return secrets }}, nil
}

// Cluster returns the name of the v3 Rancher cluster.
func (r Registration) Cluster() string { return r.cluster }

// ManifestURL returns the URL of the manifest. It holds the token: never log it.
func (r Registration) ManifestURL() string { return r.secrets().manifestURL }

// Tokens returns the tokens that Rancher accepts: the current one, then the previous one while its
// grace period lasts. Never log them.
func (r Registration) Tokens() []string { return slices.Clone(r.secrets().tokens) }

// FilledInFor reports whether Rancher filled in the registration with this server-url.
func (r Registration) FilledInFor(server *url.URL) bool {
	return sameServer(r.secrets().manifestURL, server)
}

// sameServer reports whether a manifest URL is one of a server. Of server-url Rancher takes scheme and host, as they
// are written.
func sameServer(manifestURL string, server *url.URL) bool {
	u, err := url.Parse(manifestURL)
	return err == nil && u.Scheme == server.Scheme && strings.EqualFold(u.Host, server.Host)
}

// secrets returns nothing for the zero value.
func (r Registration) secrets() registrationSecrets {
	if r.reveal == nil {
		return registrationSecrets{}
	}
	return r.reveal()
}

// String implements fmt.Stringer without secrets.
func (r Registration) String() string {
	return "registration of " + r.cluster + " " + redacted
}

// GoString implements fmt.GoStringer without secrets.
func (r Registration) GoString() string { return r.String() }

// Format implements fmt.Formatter without secrets, for every verb.
func (r Registration) Format(s fmt.State, _ rune) {
	// fmt has no way to report the error of a state's writer.
	_, _ = io.WriteString(s, r.String())
}

// LogValue implements slog.LogValuer without secrets.
func (r Registration) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON implements json.Marshaler without secrets.
func (r Registration) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// redact removes the tokens from a text that a stranger may have had a hand in.
func (r Registration) redact(text string) string {
	secrets := r.secrets()
	for _, secret := range append([]string{secrets.manifestURL}, secrets.tokens...) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
}
