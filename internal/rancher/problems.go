package rancher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

var (
	errForeignRedirect  = errors.New("redirected to another host")
	errTooManyRedirects = errors.New("redirected too often")
	errTruncated        = errors.New("the body broke off")
)

// proxyError is a proxy that cannot be used, or that answered CONNECT with another status than 200.
type proxyError struct {
	status int
}

// Error implements error.
func (e *proxyError) Error() string {
	if e.status == 0 {
		return "the proxy settings are not valid"
	}
	return fmt.Sprintf("the proxy answered with HTTP status %d", e.status)
}

// fail returns a Problem that only another try can end.
func fail(reason, format string, args ...any) *outcome.Problem {
	return &outcome.Problem{Kind: outcome.KindFail, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// statusProblem says what a status other than 200 means. The body is not part of the message because
// it may hold anything.
func statusProblem(status int, cluster string) *outcome.Problem {
	switch {
	case status == http.StatusBadRequest:
		return fail(archelonv1.RegistrationRefusedReason,
			"Rancher does not know cluster %s or its registration token (HTTP status 400). "+
				"After 5 minutes, delete ClusterRegistrationToken %s/%s: Rancher creates it again", cluster, cluster, DefaultTokenName)
	case status == http.StatusNotFound:
		return fail(archelonv1.ManifestNotFoundReason,
			"The manifest URL of Rancher cluster %s leads nowhere (HTTP status 404). Check that Rancher's setting server-url "+
				"leads to Rancher, and that the ingress passes on /v3/import", cluster)
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return fail(archelonv1.RancherServerErrorReason,
			"Rancher failed to deliver the manifest of its agent (HTTP status %d). After 5 minutes, check the log of Rancher", status)
	default:
		return fail(archelonv1.ManifestStatusReason,
			"Something other than Rancher answered the request for the manifest of its agent (HTTP status %d). Check the proxies and the ingress in front of Rancher", status)
	}
}

func tooLarge(limit int64) *outcome.Problem {
	return fail(archelonv1.ManifestTooLargeReason,
		"The manifest of Rancher's agent has more than %d bytes. Check that Rancher's setting server-url leads to Rancher", limit)
}

func htmlProblem(size int) *outcome.Problem {
	return fail(archelonv1.ManifestHTMLReason,
		"Received a web page (HTML, %d bytes) instead of the manifest of Rancher's agent. Check that Rancher's setting server-url "+
			"leads to Rancher and needs no login", size)
}

// transportProblem names the cause of a failed exchange. The error itself is never passed on: it quotes
// the URL, and sometimes what the other side sent. Only causes that can quote neither are.
func (d *Downloader) transportProblem(err error, trust Trust) *outcome.Problem {
	var proxy *proxyError
	var netErr net.Error
	var opErr *net.OpError
	switch {
	case errors.Is(err, errForeignRedirect):
		return fail(archelonv1.ManifestRedirectedReason,
			"The manifest URL redirects to another host or away from https, which Archelon does not follow. "+
				"Set Rancher's setting server-url to the address at which Rancher itself answers")
	case errors.Is(err, errTooManyRedirects):
		return fail(archelonv1.ManifestRedirectedReason,
			"The manifest URL redirects more than %d times. Check the ingress in front of Rancher", maxRedirects)
	case errors.As(err, &proxy):
		return fail(archelonv1.RancherProxyFailedReason,
			"Rancher cannot be reached: %s. Check the proxy, and the Helm values proxy.https and proxy.noProxy", proxy.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return fail(archelonv1.RancherTimeoutReason,
			"Rancher did not deliver the manifest of its agent within %s. Check its load, and the network and proxies on the way", d.timeout)
	case isTrustError(err):
		return tlsProblem(err, trust)
	case errors.Is(err, errTruncated):
		return fail(archelonv1.ManifestTruncatedReason,
			"The connection ended before the manifest of Rancher's agent was complete. Check the proxies and the ingress in front of Rancher")
	case errors.As(err, &opErr) && opErr.Op == "proxyconnect":
		return fail(archelonv1.RancherProxyFailedReason,
			"The proxy on the way to Rancher cannot be reached (%s). Check the proxy, and the Helm values proxy.https and proxy.noProxy", dialCause(err))
	case errors.As(err, &opErr) && opErr.Op == "dial", errors.As(err, &netErr) && netErr.Timeout():
		return fail(archelonv1.RancherUnreachableReason,
			"No connection to Rancher at the address in its setting server-url (%s). Check DNS, network policies and proxy settings", dialCause(err))
	default:
		return fail(archelonv1.RancherUnreachableReason,
			"The connection to Rancher broke before the manifest of its agent was complete. Check what answers at Rancher's server-url")
	}
}

// dialCause says in a few words why no connection came about.
func dialCause(err error) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "unknown host"
	case errors.As(err, &dns):
		return "DNS failure"
	case errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	}
	// The texts of the system's errors hold no address and no URL.
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return "no connection"
}

// isTrustError reports whether TLS failed because of a certificate or the protocol.
func isTrustError(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch)
}

// tlsProblem says which part of the trust in Rancher fails.
func tlsProblem(err error, trust Trust) *outcome.Problem {
	cas := trust.String()
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &hostname):
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"The certificate at Rancher's server-url is not for that host. Renew the certificate, or correct server-url")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"The certificate at Rancher's server-url has expired or is not valid yet. Renew the certificate, and check the clocks")
	case errors.As(err, &authority), errors.As(err, &invalid):
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"The certificate at Rancher's server-url is not signed by %s. Correct the setting or the certificate", cas)
	default:
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"No TLS connection to Rancher's server-url. Check that it leads to Rancher, and that no proxy interferes")
	}
}
