package identity_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/identity"
	"github.com/archelon-io/archelon/identity/identitytest"
)

// A cluster controller of a provider creates the clients of OCI for each cluster. OCICluster may be CAPOCI's own type:
// only the namespace and spec.identityRef of a cluster are asked for.
func ExampleResolver_ConfigurationProvider() {
	resolverFor := func(mgr ctrl.Manager) *identity.Resolver {
		return identity.NewResolver(identity.LiveReaders(mgr.GetAPIReader()), identity.Options{
			Policy: identity.Policy{
				SecretNamespaces:  []string{"secret-namespace"}, // where API keys may live
				TrustedNamespaces: []string{"test"},             // where administrators alone can write identities
			},
			Providers: identity.NewProviders("/etc/oci"), // the principal of clusters without identityRef
		})
	}
	create := func(context.Context, *common.BaseClient) error { return nil } // the machines and the network
	reconcile := func(
		ctx context.Context, resolver *identity.Resolver, cluster client.Object, ref *corev1.ObjectReference, region string,
	) error {
		provider, err := resolver.ConfigurationProvider(ctx, cluster.GetNamespace(), ref)
		if refused, ok := errors.AsType[*identity.RefusedError](err); ok {
			// Show refused.Reason and refused.Message in a condition of the cluster, and wait for a change.
			return fmt.Errorf("the cluster has no OCI principal: %w", refused)
		}
		if err != nil {
			return err // It is not known. Try again.
		}
		oci, err := common.NewClientWithConfig(provider) // or a client of any service of OCI
		if err != nil {
			return err
		}
		oci.Host = common.StringToRegion(region).Endpoint("iaas")
		return create(ctx, &oci)
	}
	_, _ = resolverFor, reconcile
}

// Reads that come from caches cost no request. Secrets are always read from the API server.
func ExampleResolver_Verdict() {
	mayUse := func(ctx context.Context, mgr ctrl.Manager, cluster client.Object, ref *corev1.ObjectReference) (bool, error) {
		resolver := identity.NewResolver(
			identity.Readers{Identities: mgr.GetCache(), Namespaces: mgr.GetCache(), Secrets: mgr.GetAPIReader()},
			identity.Options{Policy: identity.Policy{SecretNamespaces: []string{"secret-namespace"}}},
		)
		verdict, err := resolver.Verdict(ctx, cluster.GetNamespace(), ref)
		return verdict.Allowed, err
	}
	_ = mayUse
}

func ExampleParseCredential() {
	data := identitytest.Data()
	credential, _ := identity.ParseCredential(data)
	tenancy, _ := credential.TenancyOCID()
	fmt.Println(tenancy, credential)

	data["user"] = data["key"] // a mistake that is never quoted
	_, flaw := identity.ParseCredential(data)
	fmt.Println(flaw)
	// Output:
	// ocid1.tenancy.oc1..aaaaaaaatenancy OCI user principal (redacted)
	// In the Secret, user has white space at one of its ends, such as a line break. Correct the Secret
}
