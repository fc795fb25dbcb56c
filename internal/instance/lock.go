package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace that this process runs in. Outside a cluster there is none, which is an error.
func Namespace() (string, error) {
	raw, err := os.ReadFile(namespaceFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("the manager does not run in a cluster: name the namespace of the Lease with --leader-elect-namespace")
	}
	if err != nil {
		return "", fmt.Errorf("finding the manager's namespace: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// NewLock returns the lock that the replicas of an instance take turns with: a Lease that carries the claim of its holder from the
// request on that takes it. Requests time out after half of the renew deadline, so that one that hangs does not cost the Lease. The function
// ends what sends the lock's Events, and is called when the lock is not used any more.
func NewLock(config *rest.Config, scheme *runtime.Scheme, id ID, claim Claim, renewDeadline time.Duration) (resourcelock.Interface, func(), error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("naming the replica: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = max(renewDeadline/2, time.Second)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building a client for Leases: %w", err)
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: clients.CoreV1().Events(id.Namespace)})
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.LeaseName()},
		Client:    announcer{LeasesGetter: clients.CoordinationV1(), annotations: claim.annotations()},
		LockConfig: resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: events.NewRecorder(scheme, corev1.EventSource{Component: identity}),
		},
		Labels: map[string]string{archelonv1.InstanceLabel: id.Name},
	}, events.Shutdown, nil
}

// announcer adds annotations to every Lease that is written through it.
type announcer struct {
	coordinationclient.LeasesGetter
	annotations map[string]string
}

// Leases implements coordinationclient.LeasesGetter.
func (a announcer) Leases(namespace string) coordinationclient.LeaseInterface {
	return announcing{LeaseInterface: a.LeasesGetter.Leases(namespace), annotations: a.annotations}
}

type announcing struct {
	coordinationclient.LeaseInterface
	annotations map[string]string
}

// Create implements coordinationclient.LeaseInterface.
func (a announcing) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	a.announce(lease)
	return a.LeaseInterface.Create(ctx, lease, options)
}

// Update implements coordinationclient.LeaseInterface.
func (a announcing) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	a.announce(lease)
	return a.LeaseInterface.Update(ctx, lease, options)
}

// announce replaces the claim of an earlier holder.
func (a announcing) announce(lease *coordinationv1.Lease) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, archelonv1.WatchFilterAnnotation)
	maps.Copy(lease.Annotations, a.annotations)
}
