// Command cluster says which OCI principal an OCICluster has, and creates a client of OCI with it. It calls nothing of
// OCI.
//
//	cluster NAMESPACE/NAME SECRET-NAMESPACE TRUSTED-NAMESPACE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/common"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/identity"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: cluster NAMESPACE/NAME SECRET-NAMESPACE TRUSTED-NAMESPACE")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(args[0], "/")
	ref, err := identityRef(ctx, reader, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	resolver := identity.NewResolver(identity.LiveReaders(reader), identity.Options{
		Policy: identity.Policy{SecretNamespaces: args[1:2], TrustedNamespaces: args[2:3]},
	})
	provider, err := resolver.ConfigurationProvider(ctx, namespace, ref)
	if refused, ok := errors.AsType[*identity.RefusedError](err); ok {
		return fmt.Errorf("refused: %s: %s", refused.Reason, refused.Message)
	}
	if err != nil {
		return fmt.Errorf("not known: %w", err)
	}
	if _, err := common.NewClientWithConfig(provider); err != nil {
		return err
	}
	user, err := provider.UserOCID()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, args[0], "is reconciled as", user)
	return err
}

// identityRef reads an OCICluster without a Go type of it.
func identityRef(ctx context.Context, reader client.Reader, key types.NamespacedName) (*corev1.ObjectReference, error) {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "OCICluster",
	})
	if err := reader.Get(ctx, key, cluster); err != nil {
		return nil, err
	}
	fields, found, err := unstructured.NestedMap(cluster.Object, "spec", "identityRef")
	if err != nil || !found {
		return nil, err
	}
	ref := &corev1.ObjectReference{}
	return ref, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, ref)
}
