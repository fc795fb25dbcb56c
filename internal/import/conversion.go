package importer

import (
	"fmt"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/outcome"
)

// namedConversion gives a failure a reason of its own if the API server could not convert a CAPI Cluster: then nobody
// can read or write one, and the remedy is with Cluster API.
func namedConversion(out outcome.Outcome) outcome.Outcome {
	if text := controller.ConversionFailure(out.Err); text != "" && out.Kind == outcome.KindFail {
		out.Reason, out.Message = archelonv1.ConversionWebhookFailedReason, conversionRemedy(text)
	}
	return out
}

func conversionRemedy(text string) string {
	return fmt.Sprintf("Waiting for the conversion webhook of Cluster API, without which no CAPI Cluster can be read or "+
		"written. Nothing is deleted meanwhile. Ask your administrator to check Deployment capi-controller-manager in the "+
		"namespace that the error names, and the CA in CRD clusters.cluster.x-k8s.io. Last error: %s", printable(text, longestQuote))
}
