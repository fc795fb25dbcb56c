// Package connection has what a connection to a workload cluster needs beside a transport: how to dial it, and how to
// explain to people why a request to it failed, without a word that a stranger sent.
package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// Request says what was asked of a workload cluster, so that a failure can be explained.
type Request struct {
	// Action is what the request did, as "listing Pods": messages begin with it.
	Action string
	// Timeout is how long the request could take.
	Timeout time.Duration
	// CertificateEnd is when the client certificate expires; zero without one.
	CertificateEnd time.Time
}

// Explain names the cause of a request that failed. The error itself is not passed on: a workload cluster is a
// stranger, and what it says could hold anything; only what is known to be harmless is quoted.
func (r Request) Explain(err error) *problem.Problem {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return r.statusProblem(err, status.Status())
	}
	return r.transportProblem(err)
}

// statusProblem names an answer of the API server.
func (r Request) statusProblem(err error, status metav1.Status) *problem.Problem {
	switch {
	case apierrors.IsUnauthorized(err):
		return r.unauthorized()
	case apierrors.IsForbidden(err) && isAuthorization(status):
		return problem.Fail(ForbiddenReason,
			"%s failed: the user of the kubeconfig lacks permission (403). Use the kubeconfig of a cluster-admin", r.Action)
	case apierrors.IsConflict(err):
		return conflict(status, r.Action)
	case IsTimeout(err):
		return r.timeoutProblem()
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err),
		apierrors.IsRequestEntityTooLargeError(err), isSchemaError(status):
		return problem.Fail(RejectedReason,
			"%s failed: the workload cluster does not accept it (%s). Check its admission policies, webhooks and Kubernetes version",
			r.Action, rejection(status))
	case status.Code >= http.StatusMultipleChoices && status.Code < http.StatusBadRequest:
		return problem.Fail(ServerErrorReason,
			"%s failed: the server of the kubeconfig redirects (%s), which is not followed. Correct the server URL in the kubeconfig", r.Action, codeOf(status))
	default:
		return problem.Fail(ServerErrorReason,
			"%s failed: the API server of the workload cluster has an error (%s). Check its log", r.Action, codeOf(status))
	}
}

// unauthorized says why credentials are not accepted, where that is known.
func (r Request) unauthorized() *problem.Problem {
	if !r.CertificateEnd.IsZero() && r.CertificateEnd.Before(time.Now()) {
		return problem.Fail(UnauthorizedReason,
			"The workload cluster does not accept the client certificate of the kubeconfig, which expired at %s. Renew the kubeconfig",
			r.CertificateEnd.UTC().Format(time.RFC3339))
	}
	return problem.Fail(UnauthorizedReason,
		"The workload cluster does not accept the credentials of the kubeconfig (401). Renew the kubeconfig")
}

func (r Request) timeoutProblem() *problem.Problem {
	return problem.Fail(TimeoutReason,
		"%s failed: the API server of the workload cluster did not answer within %s. Check its control plane, and firewalls on the way", r.Action, r.Timeout)
}

// transportProblem names why no answer came.
func (r Request) transportProblem(err error) *problem.Problem {
	var tooLarge *http.MaxBytesError
	var opErr *net.OpError
	var urlErr *url.Error
	switch {
	case errors.As(err, &tooLarge):
		return problem.Fail(ServerErrorReason,
			"%s failed: the workload cluster answered with more than %d bytes. Check that the kubeconfig leads to its API server", r.Action, tooLarge.Limit)
	case errors.Is(err, kubeconfig.ErrLocalProxy):
		return problem.Fail(kubeconfig.ProxyReason, "The kubeconfig %s", kubeconfig.LocalProxy)
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return problem.Fail(UnreachableReason,
			"No connection to the API server of the workload cluster (%s). Check its control plane, and the network on the way", dialCause(err))
	case isTLS(err):
		return r.tlsProblem(err)
	case IsTimeout(err):
		return r.timeoutProblem()
	case !errors.As(err, &urlErr) && !errors.Is(err, io.ErrUnexpectedEOF):
		return problem.Fail(ServerErrorReason,
			"%s failed: the answer does not come from a Kubernetes API server. Check that the kubeconfig leads to one", r.Action)
	default:
		return problem.Fail(UnreachableReason,
			"%s failed: the connection to the API server of the workload cluster broke (%s). Check its control plane, and proxies on the way",
			r.Action, dialCause(err))
	}
}

// tlsProblem says which side of TLS refuses the other.
func (r Request) tlsProblem(err error) *problem.Problem {
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	switch {
	case isAlert(err):
		return problem.Fail(TLSReason,
			"The API server of the workload cluster refuses the TLS connection. Renew the client certificate of the kubeconfig")
	case errors.As(err, &hostname):
		return problem.Fail(TLSReason,
			"The certificate of the workload cluster's API server is not for the host in the kubeconfig. Renew the certificate, or set tls-server-name in the kubeconfig")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return problem.Fail(TLSReason,
			"The certificate of the workload cluster's API server has expired or is not valid yet. Renew the certificate, and check the clocks")
	case errors.As(err, &authority), errors.As(err, &invalid):
		return problem.Fail(TLSReason,
			"The certificate of the workload cluster's API server is not signed by the CA in the kubeconfig. Correct certificate-authority-data")
	default:
		return problem.Fail(TLSReason,
			"The server in the kubeconfig does not speak TLS as a Kubernetes API server does. Correct its server URL")
	}
}

// managerPattern is a field manager that may be quoted; fieldPattern a path of a field without values.
var (
	managerPattern = regexp.MustCompile(`conflict with "([A-Za-z0-9._:/-]{1,128})"`)
	fieldPattern   = regexp.MustCompile(`^[A-Za-z0-9._/\[\]="-]{1,200}$`)
)

// conflict names the managers and the fields that they own.
func conflict(status metav1.Status, action string) *problem.Problem {
	var managers, fields []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type != metav1.CauseTypeFieldManagerConflict {
				continue
			}
			if m := managerPattern.FindStringSubmatch(cause.Message); m != nil {
				managers = append(managers, m[1])
			}
			if fieldPattern.MatchString(cause.Field) {
				fields = append(fields, cause.Field)
			}
		}
	}
	slices.Sort(managers)
	managers = slices.Compact(managers)
	if len(managers) == 0 {
		return problem.Fail(ConflictReason,
			"%s failed: another client changed the object at the same time. It is tried again", action)
	}
	const quoted = 5
	if len(fields) > quoted {
		fields = append(fields[:quoted], "...")
	}
	return problem.Fail(ConflictReason,
		"%s failed: field manager %s sets %s to other values. Stop that controller from managing the object, or delete the object in the workload cluster: it is created again then",
		action, strings.Join(managers, ", "), strings.Join(fields, ", "))
}

// isAuthorization tells a refusal by the authorizer from one by an admission plugin: RBAC refuses with
// what was asked for, "cannot <verb> resource", or, where permissions are given, with "attempting to grant".
func isAuthorization(status metav1.Status) bool {
	if strings.Contains(status.Message, "admission webhook") {
		return false
	}
	return strings.Contains(status.Message, " cannot ") || strings.Contains(status.Message, "attempting to grant")
}

// isSchemaError reports whether an object has fields that the API server does not know, which it calls an
// internal error in server-side apply.
func isSchemaError(status metav1.Status) bool {
	return strings.Contains(status.Message, "failed to create typed patch object")
}

// rejection says what an API server objects to: the fields where it names them, never its text, which
// can quote values.
func rejection(status metav1.Status) string {
	what := codeOf(status)
	if status.Details == nil {
		return what
	}
	for _, cause := range status.Details.Causes {
		if cause.Field != "" && fieldPattern.MatchString(cause.Field) {
			what += ", " + cause.Field
		}
	}
	return what
}

// codeOf returns the code that an answer gives itself; a stranger may leave it out.
func codeOf(status metav1.Status) string {
	if status.Code == 0 {
		return "unknown HTTP status"
	}
	return fmt.Sprintf("HTTP status %d", status.Code)
}

// IsTimeout reports whether a request failed because it took too long.
func IsTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(errors.As(err, &netErr) && netErr.Timeout())
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &record) || isAlert(err) || errors.Is(err, http.ErrSchemeMismatch)
}

// isAlert reports whether the other side refused the TLS connection.
func isAlert(err error) bool {
	var alert tls.AlertError
	var opErr *net.OpError
	return errors.As(err, &alert) || (errors.As(err, &opErr) && opErr.Op == "remote error")
}

// dialCause says in a few words why there is no connection. The texts of the system's errors hold no address.
func dialCause(err error) string {
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns):
		return "the host name cannot be resolved"
	case IsTimeout(err):
		return "timeout"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return "no connection"
	}
}
