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
			"Rancher does not know cluster %s or its registration token (HTTP status 400): "+
				"if that lasts, delete registration token %s/%s, which Rancher makes anew", cluster, cluster, DefaultTokenName)
	case status == http.StatusNotFound:
		return fail(archelonv1.ManifestNotFoundReason,
			"the manifest URL of cluster %s leads nowhere (HTTP status 404): check that Rancher's setting server-url "+
				"leads to Rancher and that an ingress passes /v3/import on", cluster)
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return fail(archelonv1.RancherServerErrorReason,
			"Rancher failed to deliver the agent's manifest (HTTP status %d): if that lasts, look at the logs of Rancher", status)
	default:
		return fail(archelonv1.ManifestStatusReason,
			"the manifest URL was answered with HTTP status %d, which is not Rancher's: check what stands before Rancher", status)
	}
}

func tooLarge(limit int64) *outcome.Problem {
	return fail(archelonv1.ManifestTooLargeReason,
		"the agent's manifest has more than %d bytes: check that Rancher's setting server-url leads to Rancher", limit)
}

func htmlProblem(size int) *outcome.Problem {
	return fail(archelonv1.ManifestHTMLReason,
		"a web page (HTML, %d bytes) came instead of the agent's manifest: check that Rancher's setting server-url "+
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
			"the manifest URL was redirected to another host or away from https, which is not followed: "+
				"set Rancher's setting server-url to the address at which Rancher itself answers")
	case errors.Is(err, errTooManyRedirects):
		return fail(archelonv1.ManifestRedirectedReason,
			"the manifest URL was redirected more than %d times: check the ingress before Rancher", maxRedirects)
	case errors.As(err, &proxy):
		return fail(archelonv1.RancherProxyFailedReason,
			"%s: check HTTPS_PROXY and NO_PROXY of Archelon, and the proxy", proxy.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return fail(archelonv1.RancherTimeoutReason,
			"Rancher did not deliver the agent's manifest within %s: check its load, the network and the proxy in between", d.timeout)
	case isTrustError(err):
		return tlsProblem(err, trust)
	case errors.Is(err, errTruncated):
		return fail(archelonv1.ManifestTruncatedReason,
			"the connection ended before the agent's manifest did: check what stands before Rancher")
	case errors.As(err, &opErr) && opErr.Op == "proxyconnect":
		return fail(archelonv1.RancherProxyFailedReason,
			"the proxy cannot be reached (%s): check HTTPS_PROXY and NO_PROXY of Archelon, and the proxy", dialCause(err))
	case errors.As(err, &opErr) && opErr.Op == "dial", errors.As(err, &netErr) && netErr.Timeout():
		return fail(archelonv1.RancherUnreachableReason,
			"no connection to Rancher at the address in its setting server-url (%s): check DNS, network policies and proxy settings", dialCause(err))
	default:
		return fail(archelonv1.RancherUnreachableReason,
			"the exchange with Rancher broke off before the agent's manifest was complete: check what stands at Rancher's server-url")
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
			"the certificate at Rancher's server-url is not for that host: renew it, or correct server-url")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"the certificate at Rancher's server-url has expired or is not valid yet: renew it, and check the clocks")
	case errors.As(err, &authority), errors.As(err, &invalid):
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"the certificate at Rancher's server-url is not signed by %s: correct the setting or the certificate", cas)
	default:
		return fail(archelonv1.RancherTLSNotTrustedReason,
			"no TLS connection to Rancher's server-url: check that it leads to Rancher and that no proxy interferes")
	}
}
