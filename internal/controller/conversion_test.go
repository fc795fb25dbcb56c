package controller

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConversionFailure(t *testing.T) {
	const says = `conversion webhook for cluster.x-k8s.io/v1beta1, Kind=Cluster failed: Post "https://capi-webhook-service.capi-system.svc:443/convert?timeout=30s": x509: unknown authority`
	status := func(code int32, message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
	}
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"None":    {"nothing failed", nil, ""},
		"Read":    {"an object could not be converted", fmt.Errorf("reading: %w", status(http.StatusInternalServerError, says)), says},
		"Loading": {"the API server could not load the kind", status(http.StatusTooManyRequests, "storage is (re)initializing: failed to list: "+says), says},
		"Other":   {"another failure", status(http.StatusInternalServerError, "etcdserver: request timed out"), ""},
		"Foreign": {"anybody can write such a text, but for the API server", errors.New(says), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ConversionFailure(tc.err); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
