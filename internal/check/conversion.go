package check

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/controller"
)

const conversionID = "capi-conversion"

// conversion looks whether CAPI Clusters can be read, for which the API server can need the conversion webhook of CAPI.
func (c *checker) conversion(ctx context.Context) []Finding {
	namespace := ""
	if len(c.Namespaces) > 0 {
		namespace = c.Namespaces[0]
	}
	err := controller.ReadCluster(ctx, c.reader, client.InNamespace(namespace))
	text := controller.ConversionFailure(err)
	switch {
	case text != "":
		return []Finding{{
			ID: conversionID, State: Error, Message: fmt.Sprintf("CAPI Clusters cannot be read: %s.", text),
			Remedy: "See whether Deployment capi-controller-manager runs in the namespace that the error names, and restart " +
				"cert-manager's cainjector if the certificate is not trusted.",
		}}
	case apierrors.IsNotFound(err):
		return nil // There is no CRD, which another finding says.
	case err != nil:
		return []Finding{unseen(conversionID, "A CAPI Cluster", err)}
	default:
		return []Finding{{ID: conversionID, State: OK, Message: "CAPI Clusters can be read."}}
	}
}
