package workload

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

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// Reasons of Problems that have no name of their own in the API: they are named after what was applied or read.
const (
	// RejectedReason: the cluster does not accept an object, or does not have its kind.
	RejectedReason = "WorkloadRejected"
	// ConflictReason: somebody else owns fields of an object with other values.
	ConflictReason = "WorkloadConflict"
	// TerminatingReason: an object, or its namespace, is still being deleted.
	TerminatingReason = "WorkloadTerminating"
)

// terminatingPoll is how soon it is looked at again whether something that is being deleted is gone: nothing here
// watches workload clusters.
const terminatingPoll = 15 * time.Second

// terminating is the Problem of something that is being deleted.
func terminating(what string) *outcome.Problem {
	return &outcome.Problem{
		Kind: outcome.KindPoll, Reason: TerminatingReason, After: terminatingPoll,
		Message: what + " in the workload cluster is still being deleted. After 5 minutes, check its finalizers",
	}
}

// fail returns a Problem that only another try can end.
func fail(reason, format string, args ...any) *outcome.Problem {
	return &outcome.Problem{Kind: outcome.KindFail, Reason: reason, Message: outcome.Sentence(fmt.Sprintf(format, args...))}
}

// problem names the cause of a failed request. The error itself is not passed on: a workload cluster is
// a stranger, and what it says could hold anything; only what is known to be harmless is quoted.
func (c *Client) problem(err error, action string) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return c.statusProblem(err, status.Status(), action)
	}
	return c.transportProblem(err, action)
}

// Explain names the cause of a request that failed, to a workload cluster that was asked by other means than a Client:
// the request had a timeout, and the client certificate ends at a time, if there is one.
func Explain(err error, action string, timeout time.Duration, certificateEnd time.Time) *outcome.Problem {
	problem, _ := errors.AsType[*outcome.Problem]((&Client{timeout: timeout, certificateEnd: certificateEnd}).problem(err, action))
	return problem
}

// statusProblem names an answer of the API server.
func (c *Client) statusProblem(err error, status metav1.Status, action string) *outcome.Problem {
	switch {
	case apierrors.IsUnauthorized(err):
		return c.unauthorized()
	case apierrors.IsForbidden(err) && isAuthorization(status):
		return fail(archelonv1.WorkloadForbiddenReason,
			"%s failed: the user of the kubeconfig lacks permission (403). Use the kubeconfig of a cluster-admin", action)
	case apierrors.IsConflict(err):
		return conflict(status, action)
	case isTimeout(err):
		return c.timeoutProblem(action)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err),
		apierrors.IsRequestEntityTooLargeError(err), isSchemaError(status):
		return fail(RejectedReason,
			"%s failed: the workload cluster does not accept it (%s). Check its admission policies, webhooks and Kubernetes version",
			action, rejection(status))
	case status.Code >= http.StatusMultipleChoices && status.Code < http.StatusBadRequest:
		return fail(archelonv1.WorkloadServerErrorReason,
			"%s failed: the server of the kubeconfig redirects (%s), which Archelon does not follow. Correct the server URL in the kubeconfig", action, codeOf(status))
	default:
		return fail(archelonv1.WorkloadServerErrorReason,
			"%s failed: the API server of the workload cluster has an error (%s). Check its log", action, codeOf(status))
	}
}

// unauthorized says why credentials are not accepted, where that is known.
func (c *Client) unauthorized() *outcome.Problem {
	if !c.certificateEnd.IsZero() && c.certificateEnd.Before(time.Now()) {
		return fail(archelonv1.WorkloadUnauthorizedReason,
			"The workload cluster does not accept the client certificate of the kubeconfig, which expired at %s. Renew the kubeconfig",
			c.certificateEnd.UTC().Format(time.RFC3339))
	}
	return fail(archelonv1.WorkloadUnauthorizedReason,
		"The workload cluster does not accept the credentials of the kubeconfig (401). Renew the kubeconfig")
}

func (c *Client) timeoutProblem(action string) *outcome.Problem {
	return fail(archelonv1.WorkloadTimeoutReason,
		"%s failed: the API server of the workload cluster did not answer within %s. Check its control plane, and firewalls on the way", action, c.timeout)
}

// transportProblem names why no answer came.
func (c *Client) transportProblem(err error, action string) *outcome.Problem {
	var tooLarge *http.MaxBytesError
	var opErr *net.OpError
	var urlErr *url.Error
	switch {
	case errors.As(err, &tooLarge):
		return fail(archelonv1.WorkloadServerErrorReason,
			"%s failed: the workload cluster answered with more than %d bytes. Check that the kubeconfig leads to its API server", action, tooLarge.Limit)
	case errors.Is(err, errLocalProxy):
		return fail(archelonv1.KubeconfigProxyReason, "The kubeconfig %s", localProxy)
	case errors.As(err, &opErr) && opErr.Op == "dial":
		return fail(archelonv1.WorkloadUnreachableReason,
			"No connection to the API server of the workload cluster (%s). Check its control plane, and the network on the way", dialCause(err))
	case isTLS(err):
		return c.tlsProblem(err)
	case isTimeout(err):
		return c.timeoutProblem(action)
	case !errors.As(err, &urlErr) && !errors.Is(err, io.ErrUnexpectedEOF):
		return fail(archelonv1.WorkloadServerErrorReason,
			"%s failed: the answer does not come from a Kubernetes API server. Check that the kubeconfig leads to one", action)
	default:
		return fail(archelonv1.WorkloadUnreachableReason,
			"%s failed: the connection to the API server of the workload cluster broke (%s). Check its control plane, and proxies on the way",
			action, dialCause(err))
	}
}

// tlsProblem says which side of TLS refuses the other.
func (c *Client) tlsProblem(err error) *outcome.Problem {
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	switch {
	case isAlert(err):
		return fail(archelonv1.WorkloadTLSReason,
			"The API server of the workload cluster refuses the TLS connection. Renew the client certificate of the kubeconfig")
	case errors.As(err, &hostname):
		return fail(archelonv1.WorkloadTLSReason,
			"The certificate of the workload cluster's API server is not for the host in the kubeconfig. Renew the certificate, or set tls-server-name in the kubeconfig")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fail(archelonv1.WorkloadTLSReason,
			"The certificate of the workload cluster's API server has expired or is not valid yet. Renew the certificate, and check the clocks")
	case errors.As(err, &authority), errors.As(err, &invalid):
		return fail(archelonv1.WorkloadTLSReason,
			"The certificate of the workload cluster's API server is not signed by the CA in the kubeconfig. Correct certificate-authority-data")
	default:
		return fail(archelonv1.WorkloadTLSReason,
			"The server in the kubeconfig does not speak TLS as a Kubernetes API server does. Correct its server URL")
	}
}

// managerPattern is a field manager that may be quoted; fieldPattern a path of a field without values.
var (
	managerPattern = regexp.MustCompile(`conflict with "([A-Za-z0-9._:/-]{1,128})"`)
	fieldPattern   = regexp.MustCompile(`^[A-Za-z0-9._/\[\]="-]{1,200}$`)
)

// conflict names the managers and the fields that they own.
func conflict(status metav1.Status, action string) *outcome.Problem {
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
		return fail(ConflictReason,
			"%s failed: another client changed the object at the same time. Archelon tries again", action)
	}
	const quoted = 5
	if len(fields) > quoted {
		fields = append(fields[:quoted], "...")
	}
	return fail(ConflictReason,
		"%s failed: field manager %s sets %s to other values. Stop that controller from managing the object, or delete the object in the workload cluster: Archelon creates it again",
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

func isTimeout(err error) bool {
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
	case isTimeout(err):
		return "timeout"
	case errors.As(err, &errno):
		return errno.Error()
	default:
		return "no connection"
	}
}
