package workload

import (
	"testing"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/providers/capi/connection"
	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// The library cannot import the API of Archelon, and has the same words for the same things: conditions show the
// reasons, and users write the annotations.
func TestTheLibrarySpeaksAsTheAPI(t *testing.T) {
	for library, api := range map[string]string{
		kubeconfig.SecretAnnotation:     archelonv1.KubeconfigSecretAnnotation,
		kubeconfig.ContextAnnotation:    archelonv1.KubeconfigContextAnnotation,
		kubeconfig.InvalidSettingReason: archelonv1.InvalidSettingReason,
		kubeconfig.MissingReason:        archelonv1.KubeconfigMissingReason,
		kubeconfig.InvalidReason:        archelonv1.KubeconfigInvalidReason,
		kubeconfig.ExecReason:           archelonv1.KubeconfigExecReason,
		kubeconfig.AuthProviderReason:   archelonv1.KubeconfigAuthProviderReason,
		kubeconfig.FilePathReason:       archelonv1.KubeconfigFilePathReason,
		kubeconfig.ImpersonationReason:  archelonv1.KubeconfigImpersonationReason,
		kubeconfig.InsecureReason:       archelonv1.KubeconfigInsecureReason,
		kubeconfig.ProxyReason:          archelonv1.KubeconfigProxyReason,
		kubeconfig.CredentialsReason:    archelonv1.KubeconfigCredentialsReason,
		connection.UnreachableReason:    archelonv1.WorkloadUnreachableReason,
		connection.TimeoutReason:        archelonv1.WorkloadTimeoutReason,
		connection.TLSReason:            archelonv1.WorkloadTLSReason,
		connection.UnauthorizedReason:   archelonv1.WorkloadUnauthorizedReason,
		connection.ForbiddenReason:      archelonv1.WorkloadForbiddenReason,
		connection.ServerErrorReason:    archelonv1.WorkloadServerErrorReason,
	} {
		if library != api {
			t.Errorf("the library says %q where the API has %q", library, api)
		}
	}
}
