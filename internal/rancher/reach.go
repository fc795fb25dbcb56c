package rancher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// String says which CAs may vouch for Rancher.
func (t Trust) String() string {
	if t.private() {
		return "the CAs in Rancher's setting cacerts (agent-tls-mode is strict)"
	}
	return "the CAs of the system (agent-tls-mode is system-store, or the setting cacerts is empty)"
}

// pong is what Rancher answers to a ping, which its agents begin with.
const pong = "pong"

// Reach asks whether it is Rancher that answers under the address, as an agent does before it connects. It returns when
// the first of the certificates there ends. All that can go wrong is a Problem. Redirects are followed on the same host
// and over https only.
func (d *Downloader) Reach(ctx context.Context, server *url.URL, trust Trust) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	ends, err := d.ping(ctx, &url.URL{Scheme: "https", Host: server.Host, Path: "/ping"}, trust)
	if _, ok := errors.AsType[*outcome.Problem](err); err == nil || ok {
		return ends, err
	}
	problem := d.transportProblem(err, trust)
	switch problem.Reason { // What it says of manifests is not for this.
	case archelonv1.ManifestRedirectedReason:
		problem.Message = "Rancher's server-url redirects to another host or away from https. Set it to the address at which Rancher itself answers"
	case archelonv1.RancherTimeoutReason:
		problem.Message = fmt.Sprintf("Rancher did not answer within %s. Check its load, and the network and proxies on the way", d.timeout)
	case archelonv1.RancherUnreachableReason:
		problem.Message = strings.ReplaceAll(problem.Message, "before the manifest of its agent was complete", "before there was an answer")
	}
	return time.Time{}, problem
}

func (d *Downloader) ping(ctx context.Context, at *url.URL, trust Trust) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return time.Time{}, err
	}
	req.Header.Set("User-Agent", "archelon")
	resp, err := d.clients.get(trust).Do(req)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDrain))
	if err != nil {
		return time.Time{}, err
	}
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != pong {
		return time.Time{}, fail(archelonv1.ManifestStatusReason,
			"Something other than Rancher answers at Rancher's server-url (HTTP status %d). Check the proxies and the ingress in front of Rancher", resp.StatusCode)
	}
	return endOf(resp.TLS), nil
}

// endOf returns when the first certificate ends of the chain that is good for the longest.
func endOf(state *tls.ConnectionState) time.Time {
	var last time.Time
	for _, chain := range state.VerifiedChains {
		first := chain[0].NotAfter
		for _, certificate := range chain {
			if certificate.NotAfter.Before(first) {
				first = certificate.NotAfter
			}
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}
