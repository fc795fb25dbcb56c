// Package host is a stand-in of Metal3's baremetal-operator: it has BareMetalHosts go through the states that the real
// one has them go through, without servers. It reads the Secrets that a host names, as the real one does, and remembers
// what it has read. Real disks and bytes it has none.
//
// It was compared with baremetal-operator 0.13.2 in its demo mode (test/metal3), by its code and by what it does. As
// there:
//   - A host whose status is empty gets the one of annotation baremetalhost.metal3.io/status. The annotation goes as
//     soon as there is a status.
//   - status.lastUpdated tells a status from none.
//   - Reboot annotations of all forms go at the end of provisioning and of deprovisioning. Where nothing is
//     provisioned, they do not switch a host off.
//   - A host is detached when it is available or provisioned, and not in between.
//   - An inspected host has a HardwareData of its name. One whose inspection is disabled has none.
//   - A host that was not registered goes at once when it is deleted. Any other one is switched off first.
//   - A host that is provisioned by others is never available, and becomes so when it is not any more.
//
// What it does not do: credentials of the BMC are not asked for; firmware, RAID and hardware profiles are not looked
// at. The real one takes seconds for what takes no time here.
//
// Annotations of a host turn its knobs.
package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Knobs.
const (
	// DelayAnnotation is how long each state lasts, as a duration.
	DelayAnnotation = "standin.archelon.io/delay"
	// FreezeAnnotation names a state that the host stays in.
	FreezeAnnotation = "standin.archelon.io/freeze"
	// FailAnnotation names a state in which the host fails as long as it is there.
	FailAnnotation = "standin.archelon.io/fail"
)

// Provisioned is what a host was provisioned with.
type Provisioned struct {
	// Image is the URL of the image, or the method of a custom deployment.
	Image string
	// UserData, MetaData and NetworkData are what their Secrets held; nil if there was none.
	UserData, MetaData, NetworkData []byte
}

// Standin is the operator.
type Standin struct {
	client client.Client

	mu          sync.Mutex
	provisioned map[types.NamespacedName][]Provisioned
	reboots     map[types.NamespacedName]int
	entered     map[types.NamespacedName]entry
}

// entry is when a host was first seen in a state.
type entry struct {
	state bmov1.ProvisioningState
	at    time.Time
}

// New returns an operator that reads and writes hosts and Secrets by a client.
func New(c client.Client) *Standin {
	return &Standin{
		client: c, provisioned: map[types.NamespacedName][]Provisioned{}, reboots: map[types.NamespacedName]int{},
		entered: map[types.NamespacedName]entry{},
	}
}

// SetupWithManager adds it to a manager.
func (s *Standin) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("standin-host").For(&bmov1.BareMetalHost{}).Complete(s)
}

// Provisioned returns what a host was provisioned with, the first first.
func (s *Standin) Provisioned(namespace, name string) []Provisioned {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.provisioned[types.NamespacedName{Namespace: namespace, Name: name}])
}

// Reboots returns how often a host was rebooted on request.
func (s *Standin) Reboots(namespace, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reboots[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Reconcile implements reconcile.Reconciler.
func (s *Standin) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	host := &bmov1.BareMetalHost{}
	if err := s.client.Get(ctx, request.NamespacedName, host); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, paused := host.Annotations[bmov1.PausedAnnotation]; paused {
		return ctrl.Result{}, nil
	}
	if done, err := s.restore(ctx, host); done || err != nil {
		return ctrl.Result{}, ignoreOvertaken(err)
	}
	before := host.DeepCopy()
	if host.DeletionTimestamp == nil && controllerutil.AddFinalizer(host, bmov1.BareMetalHostFinalizer) {
		return ctrl.Result{}, ignoreOvertaken(s.client.Patch(ctx, host, locked(before)))
	}
	if after := s.remaining(host); after > 0 {
		return ctrl.Result{RequeueAfter: after}, nil
	}
	gone, with, err := s.step(ctx, host)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case gone:
		controllerutil.RemoveFinalizer(host, bmov1.BareMetalHostFinalizer)
		return ctrl.Result{}, ignoreOvertaken(s.client.Patch(ctx, host, locked(before)))
	}
	conditions(host)
	_, asked := before.Annotations[bmov1.RebootAnnotationPrefix]
	if err := s.write(ctx, before.DeepCopy(), host); err != nil {
		return ctrl.Result{}, ignoreOvertaken(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := host.Annotations[bmov1.RebootAnnotationPrefix]; asked && !still {
		s.reboots[request.NamespacedName]++
	}
	if with != nil {
		s.provisioned[request.NamespacedName] = append(s.provisioned[request.NamespacedName], *with)
	}
	return ctrl.Result{}, nil
}

// write writes what has changed, annotations first.
func (s *Standin) write(ctx context.Context, before, after *bmov1.BareMetalHost) error {
	status := after.Status
	if !maps.Equal(before.Annotations, after.Annotations) {
		if err := s.client.Patch(ctx, after, locked(before)); err != nil {
			return err
		}
		before.ResourceVersion, before.Annotations, after.Status = after.ResourceVersion, after.Annotations, status
	}
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	after.Status.LastUpdated = new(metav1.Now())
	if before.Status.Provisioning.State != bmov1.StateNone {
		return s.client.Status().Patch(ctx, after, locked(before))
	}
	// The first status has to have all that is required, and a patch has what differs.
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": after.ResourceVersion}, "status": after.Status,
	})
	if err != nil {
		return err
	}
	return s.client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, raw))
}

func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func ignoreOvertaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// remaining is how long a host stays in its state.
func (s *Standin) remaining(host *bmov1.BareMetalHost) time.Duration {
	delay, err := time.ParseDuration(host.Annotations[DelayAnnotation])
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, state := client.ObjectKeyFromObject(host), host.Status.Provisioning.State
	if s.entered[key].state != state {
		s.entered[key] = entry{state, time.Now()}
	}
	return time.Until(s.entered[key].at.Add(delay))
}

// step takes a host to its next state. It reports whether the host may go, and what it was provisioned with.
func (s *Standin) step(ctx context.Context, host *bmov1.BareMetalHost) (gone bool, with *Provisioned, err error) {
	is := &host.Status.Provisioning
	if is.State != bmov1.StateNone {
		if host.Annotations[FreezeAnnotation] == string(is.State) {
			return false, nil, nil
		}
		if host.Annotations[FailAnnotation] == string(is.State) {
			fail(host, "told to fail")
			return false, nil, nil
		}
	}
	host.Status.OperationalStatus, host.Status.ErrorMessage, host.Status.ErrorType = bmov1.OperationalStatusOK, "", ""
	if host.DeletionTimestamp != nil {
		return leave(host), nil, nil
	}
	if detached(host) {
		host.Status.OperationalStatus = bmov1.OperationalStatusDetached
		return false, nil, nil
	}
	wanted := host.Spec.Image != nil || host.Spec.CustomDeploy != nil
	switch is.State {
	case bmov1.StateNone:
		is.State = bmov1.StateRegistering
	case bmov1.StateRegistering:
		is.State = registered(host)
	case bmov1.StateExternallyProvisioned:
		power(host)
		if !host.Spec.ExternallyProvisioned {
			is.State = bmov1.StatePreparing
		}
	case bmov1.StateInspecting:
		is.State = bmov1.StatePreparing
		return false, nil, s.inspect(ctx, host)
	case bmov1.StatePreparing:
		is.State = bmov1.StateAvailable
	case bmov1.StateAvailable, bmov1.StateReady:
		power(host)
		if host.Spec.ExternallyProvisioned {
			is.State = bmov1.StateExternallyProvisioned
		} else if wanted && host.Spec.Online {
			is.State = bmov1.StateProvisioning
		}
	case bmov1.StateProvisioning:
		with, err = s.provision(ctx, host, wanted)
		return false, with, err
	case bmov1.StateProvisioned:
		if !wanted || outdated(host) {
			is.State = bmov1.StateDeprovisioning
			return false, nil, nil
		}
		power(host)
	case bmov1.StateDeprovisioning:
		clearReboots(host)
		is.Image, is.CustomDeploy, is.State = bmov1.Image{}, nil, bmov1.StateAvailable
	}
	return false, nil, nil
}

// leave takes a host that is being deleted on its way.
func leave(host *bmov1.BareMetalHost) bool {
	is := &host.Status.Provisioning
	switch is.State {
	case bmov1.StateProvisioned, bmov1.StateProvisioning:
		is.State = bmov1.StateDeprovisioning
	case bmov1.StatePoweringOffBeforeDelete:
		is.State, host.Status.PoweredOn = bmov1.StateDeleting, false
	case bmov1.StateNone, bmov1.StateUnmanaged, bmov1.StateRegistering:
		is.State = bmov1.StateDeleting
	case bmov1.StateDeleting:
		return true
	default:
		is.State = bmov1.StatePoweringOffBeforeDelete
	}
	return false
}

// outdated reports whether a host is to have something else than it has.
func outdated(host *bmov1.BareMetalHost) bool {
	is := host.Status.Provisioning
	if host.Spec.Image != nil {
		return is.Image.URL != host.Spec.Image.URL
	}
	return is.CustomDeploy == nil || is.CustomDeploy.Method != host.Spec.CustomDeploy.Method
}

// provision reads what a host is to boot with, as the real operator does: Secrets of the host's own namespace alone.
func (s *Standin) provision(ctx context.Context, host *bmov1.BareMetalHost, wanted bool) (*Provisioned, error) {
	is := &host.Status.Provisioning
	if !wanted {
		is.State = bmov1.StateDeprovisioning
		return nil, nil
	}
	with := &Provisioned{}
	for _, one := range []struct {
		ref  *corev1.SecretReference
		key  string
		into *[]byte
	}{
		{host.Spec.UserData, "userData", &with.UserData}, {host.Spec.MetaData, "metaData", &with.MetaData},
		{host.Spec.NetworkData, "networkData", &with.NetworkData},
	} {
		if one.ref == nil {
			continue
		}
		if one.ref.Namespace != "" && one.ref.Namespace != host.Namespace {
			fail(host, one.key+" is in another namespace")
			return nil, nil
		}
		secret := &corev1.Secret{}
		err := s.client.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: one.ref.Name}, secret)
		if apierrors.IsNotFound(err) {
			fail(host, "there is no Secret "+one.ref.Name)
			return nil, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", one.ref.Name, err)
		}
		*one.into = secret.Data["value"]
		if value, ok := secret.Data[one.key]; ok {
			*one.into = value
		}
	}
	if host.Spec.Image != nil {
		with.Image, is.Image = host.Spec.Image.URL, *host.Spec.Image
	} else {
		with.Image, is.CustomDeploy = host.Spec.CustomDeploy.Method, host.Spec.CustomDeploy
	}
	is.State, host.Status.PoweredOn = bmov1.StateProvisioned, true
	clearReboots(host)
	return with, nil
}

// power has the power of a host follow its spec and its reboot annotations.
func power(host *bmov1.BareMetalHost) {
	held := false
	for key := range host.Annotations {
		held = held || strings.HasPrefix(key, bmov1.RebootAnnotationPrefix+"/") && runs(host)
	}
	host.Status.PoweredOn = host.Spec.Online && !held
	delete(host.Annotations, bmov1.RebootAnnotationPrefix)
}

func fail(host *bmov1.BareMetalHost, why string) {
	host.Status.OperationalStatus = bmov1.OperationalStatusError
	host.Status.ErrorMessage, host.Status.ErrorType = why, bmov1.ProvisioningError
}

// conditions sets those that the operator derives from the state.
func conditions(host *bmov1.BareMetalHost) {
	for name, is := range map[string]bool{
		"Provisioned":              host.Status.Provisioning.State == bmov1.StateProvisioned,
		"AvailableForProvisioning": host.Status.Provisioning.State == bmov1.StateAvailable,
	} {
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&host.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: name})
	}
}
