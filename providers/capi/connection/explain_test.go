package connection_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
	"github.com/archelon-io/archelon/providers/capi/problem"
)

// Whatever a stranger says, the explanation has a reason, tells what to do, and quotes nothing.
func TestExplain(t *testing.T) {
	const stranger = "s3cret"
	pods := schema.GroupResource{Resource: "pods"}
	status := func(code int32, reason metav1.StatusReason, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message + stranger}}
	}
	for name, tc := range map[string]struct {
		err  error
		end  time.Time
		want string
		says string
	}{
		"Unauthorized": {err: apierrors.NewUnauthorized(stranger), want: connection.UnauthorizedReason, says: "Renew"},
		"Expired": {
			err: apierrors.NewUnauthorized(stranger), end: time.Unix(0, 0), want: connection.UnauthorizedReason, says: "expired at 1970",
		},
		"Forbidden": {err: status(403, metav1.StatusReasonForbidden, "user cannot list "), want: connection.ForbiddenReason, says: "permission"},
		"Webhook":   {err: status(403, metav1.StatusReasonForbidden, "admission webhook: cannot "), want: connection.RejectedReason, says: "webhooks"},
		"Conflict":  {err: apierrors.NewConflict(pods, "a", errors.New(stranger)), want: connection.ConflictReason, says: "tried again"},
		"Server":    {err: status(500, metav1.StatusReasonInternalError, ""), want: connection.ServerErrorReason, says: "log"},
		"Redirect":  {err: status(302, metav1.StatusReasonUnknown, ""), want: connection.ServerErrorReason, says: "redirects"},
		"Timeout":   {err: fmt.Errorf("%s: %w", stranger, context.DeadlineExceeded), want: connection.TimeoutReason, says: "within 1s"},
		"Large":     {err: &http.MaxBytesError{Limit: 10}, want: connection.ServerErrorReason, says: "10 bytes"},
		"Proxy":     {err: fmt.Errorf("%s: %w", stranger, kubeconfig.ErrLocalProxy), want: kubeconfig.ProxyReason, says: "proxy"},
		"Dial":      {err: &net.OpError{Op: "dial", Err: errors.New(stranger)}, want: connection.UnreachableReason, says: "network"},
		"Broken":    {err: &url.Error{Op: "Get", URL: stranger, Err: errors.New(stranger)}, want: connection.UnreachableReason, says: "broke"},
		"NoAPI":     {err: errors.New(stranger), want: connection.ServerErrorReason, says: "Kubernetes API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := connection.Request{Action: "listing Pods", Timeout: time.Second, CertificateEnd: tc.end}.Explain(tc.err)
			if found.Kind != problem.KindFail || found.Reason != tc.want || !strings.Contains(found.Message, tc.says) {
				t.Errorf("got %+v, want reason %s and %q", found, tc.want, tc.says)
			}
			if text := fmt.Sprintf("%v %+v", found, found); strings.Contains(text, stranger) {
				t.Errorf("it quotes the stranger: %s", text)
			}
		})
	}
}
