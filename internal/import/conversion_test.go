package importer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/instance"
	"github.com/archelon-io/archelon/internal/outcome"
)

// A webhook that comes and goes lets some requests through: then the condition has a reason of its own.
func TestConversionWebhookHasAReason(t *testing.T) {
	cluster := testCluster()
	b := newBench(t, instance.Claim{}, cluster)
	failed := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: `conversion webhook for cluster.x-k8s.io/v1beta1, Kind=Cluster failed: Post "https://capi-webhook-service.capi-system.svc:443/convert?timeout=30s": EOF`,
	}}
	d := Decision{Intent: intentImport, Outcome: outcome.Fail("InternalError", fmt.Errorf("writing: %w", failed))}
	if _, err := b.finish(t.Context(), seen(cluster.DeepCopy()), d); err == nil {
		t.Error("it is not tried again")
	}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	reason, message := conditions.GetReason(cluster, "RancherImported"), conditions.GetMessage(cluster, "RancherImported")
	if reason != "ConversionWebhookFailed" || !strings.Contains(message, "capi-webhook-service.capi-system.svc") || len(message) > maxNote {
		t.Errorf("the condition is %s: %s", reason, message)
	}
}
