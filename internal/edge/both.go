package edge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secret takes "namespace/name" apart.
func Secret(named string) types.NamespacedName {
	namespace, name, _ := strings.Cut(named, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// Pair is a management cluster, and Rancher's.
type Pair struct {
	// Client is for what goes through objects of both, as Route does, and InRancher for those of Rancher's cluster alone.
	Client, InRancher client.Client
	// Origin is the UID of the management cluster, which its Rancher clusters carry.
	Origin types.UID
	// Management and Rancher are clients of one.
	Management, Rancher kubernetes.Interface
}

// Both returns clients of a management cluster and of Rancher's. The kubeconfig of Rancher's cluster is in the named
// Secret, "namespace/name", and is read once.
func Both(ctx context.Context, config *rest.Config, management client.Client, named string) (*Pair, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for the kubeconfig of Rancher's cluster: %w", err)
	}
	asking, done := context.WithTimeout(ctx, timeout)
	defer done()
	own, err := clients.CoreV1().Namespaces().Get(asking, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the UID of the management cluster: %w", err)
	}
	if own.UID == "" {
		return nil, errors.New("namespace kube-system of the management cluster has no UID")
	}
	connection, err := Connect(ctx, clients, Secret(named), ctrl.LoggerFrom(ctx))
	if err != nil {
		return nil, err
	}
	there := connection.Config()
	there.UserAgent = config.UserAgent
	rancher, err := client.New(there, client.Options{Scheme: management.Scheme(), Mapper: management.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("building a client of Rancher's cluster: %w", err)
	}
	ranchers, err := kubernetes.NewForConfig(there)
	if err != nil {
		return nil, fmt.Errorf("building a client of Rancher's cluster: %w", err)
	}
	return &Pair{Client: Route(management, rancher), InRancher: rancher, Origin: own.UID, Management: clients, Rancher: ranchers}, nil
}
