package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/shard"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// InPod reports whether this process runs in a Pod.
func InPod() bool {
	_, err := os.Stat(namespaceFile)
	return err == nil
}

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

// LockOptions are what a lock needs. All but Events and Leaving are required.
type LockOptions struct {
	// Self is this instance, and Claim what its flags say.
	Self  ID
	Claim Claim
	// Works is where the holder works; published with the request that takes the Lease.
	Works shard.Scope
	// Leases are those of the coordination namespace.
	Leases coordinationclient.LeasesGetter
	// Events is told of who leads.
	Events resourcelock.EventRecorder
	// Leaving returns the namespaces that the instance has given up and in which it may still hold something. It stands on
	// the Lease until they are left, so a process that dies meanwhile is followed by one that knows. Optional.
	Leaving func() []string
	// Identity names this replica.
	Identity string
	// Fence is told of each renewal.
	Fence *Fence
	// Unelected is set for a process that does not wait for its turn. Optional.
	Unelected *Unelected
}

// Unelected is a process that was started with --leader-elect=false, outside of a Pod: by a test, or by a developer who
// starts it again and again. It has a Lease as every process has, marked as unelected. It takes the Lease over at once
// from a holder with that mark, and waits for one without, such as a manager that runs in the cluster.
type Unelected struct {
	// held is set once it has held the Lease. Then it takes it from nobody any more: two processes would take turns
	// without end.
	held atomic.Bool
}

// ousts reports whether a process takes a Lease from its holder without waiting.
func (u *Unelected) ousts(lease *coordinationv1.Lease) bool {
	return u != nil && !u.held.Load() && lease.Annotations[archelonv1.UnelectedAnnotation] == "true"
}

// NewLock returns the lock that the replicas of an instance take turns with: a Lease that carries the claim of its
// holder, and where that works, from the request on that takes it.
func NewLock(opts LockOptions) (resourcelock.Interface, error) {
	if opts.Self.Name == "" || opts.Self.Namespace == "" || opts.Leases == nil || opts.Identity == "" || opts.Fence == nil {
		return nil, errors.New("the lock of an instance needs its name, Leases, the name of the replica and a fence")
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: opts.Self.Namespace, Name: opts.Self.LeaseName()},
		Client:    announcer{LeasesGetter: opts.Leases, LockOptions: opts},
		LockConfig: resourcelock.ResourceLockConfig{
			Identity: opts.Identity, EventRecorder: opts.Events,
		},
		Labels: map[string]string{archelonv1.InstanceLabel: opts.Self.Name},
	}, nil
}

// Identity names a replica: by its host, and apart from one that ran there before.
func Identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming the replica: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// annotations are how a claim, and where its holder works, stand on a Lease.
func (c Claim) annotations(works shard.Scope) map[string]string {
	annotations := map[string]string{archelonv1.ScopeAnnotation: c.Scope.Encode(), archelonv1.WorksInAnnotation: works.Encode()}
	if c.WatchFilter != "" {
		annotations[archelonv1.WatchFilterAnnotation] = c.WatchFilter
	}
	if c.Selector != nil {
		annotations[archelonv1.NamespaceSelectorAnnotation] = c.Selector.String()
	}
	return annotations
}

// announcer announces, with every Lease that is written through it.
type announcer struct {
	coordinationclient.LeasesGetter
	LockOptions
}

// Leases implements coordinationclient.LeasesGetter.
func (a announcer) Leases(namespace string) coordinationclient.LeaseInterface {
	return announcing{LeaseInterface: a.LeasesGetter.Leases(namespace), LockOptions: a.LockOptions}
}

type announcing struct {
	coordinationclient.LeaseInterface
	LockOptions
}

// Get implements coordinationclient.LeaseInterface. It shows a Lease without its holder if the process does not wait
// for that. Whoever writes the Lease first has it, by its resource version.
func (a announcing) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := a.LeaseInterface.Get(ctx, name, options)
	if err == nil && a.Unelected.ousts(lease) {
		lease.Spec.HolderIdentity = nil
	}
	return lease, err
}

// Create implements coordinationclient.LeaseInterface.
func (a announcing) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return a.write(lease, func() (*coordinationv1.Lease, error) { return a.LeaseInterface.Create(ctx, lease, options) })
}

// Update implements coordinationclient.LeaseInterface.
func (a announcing) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return a.write(lease, func() (*coordinationv1.Lease, error) { return a.LeaseInterface.Update(ctx, lease, options) })
}

// write replaces the claim of an earlier holder. Who gives the Lease back works nowhere.
func (a announcing) write(lease *coordinationv1.Lease, send func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	works, unelected := a.Works, a.Unelected != nil
	if ptr.Deref(lease.Spec.HolderIdentity, "") != a.Identity {
		works, unelected = shard.None(), false
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, archelonv1.WatchFilterAnnotation)
	delete(lease.Annotations, archelonv1.NamespaceSelectorAnnotation)
	delete(lease.Annotations, archelonv1.LeavingAnnotation)
	delete(lease.Annotations, archelonv1.UnelectedAnnotation)
	if unelected {
		lease.Annotations[archelonv1.UnelectedAnnotation] = "true"
	}
	if a.Leaving != nil {
		if names := a.Leaving(); len(names) > 0 {
			lease.Annotations[archelonv1.LeavingAnnotation] = strings.Join(names, ",")
		}
	}
	maps.Copy(lease.Annotations, a.Claim.annotations(works))
	sent, err := a.Fence.renewing()
	if err != nil {
		return nil, err
	}
	written, err := send()
	if err == nil {
		a.Fence.renewed(written, sent)
		if a.Unelected != nil && a.Fence.holds(written) {
			a.Unelected.held.Store(true)
		}
	}
	return written, err
}
