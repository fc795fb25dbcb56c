package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restore gives a host without status the one of its annotation, and takes the annotation from one with a status. It
// reports whether it has done something.
func (s *Standin) restore(ctx context.Context, host *bmov1.BareMetalHost) (bool, error) {
	raw, kept := host.Annotations[bmov1.StatusAnnotation]
	if !kept {
		return false, nil
	}
	before := host.DeepCopy()
	if !host.Status.LastUpdated.IsZero() || host.Status.Provisioning.State != bmov1.StateNone {
		delete(host.Annotations, bmov1.StatusAnnotation)
		return true, s.client.Patch(ctx, host, locked(before))
	}
	status := bmov1.BareMetalHostStatus{}
	if json.Unmarshal([]byte(raw), &status) != nil {
		return false, nil //nolint:nilerr // the annotation goes once there is a status
	}
	data := &bmov1.HardwareData{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(host), data); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if data.Spec.HardwareDetails != nil {
		status.HardwareDetails = data.Spec.HardwareDetails
	}
	host.Status = status
	return true, s.write(ctx, before, host)
}

// registered returns what comes after the registration of a host.
func registered(host *bmov1.BareMetalHost) bmov1.ProvisioningState {
	switch {
	case host.Spec.ExternallyProvisioned:
		return bmov1.StateExternallyProvisioned
	case host.InspectionDisabled():
		return bmov1.StatePreparing
	default:
		return bmov1.StateInspecting
	}
}

// inspect finds the hardware, unless a test has said what there is, and writes it down.
func (s *Standin) inspect(ctx context.Context, host *bmov1.BareMetalHost) error {
	if host.Status.HardwareDetails == nil {
		host.Status.HardwareDetails = &bmov1.HardwareDetails{
			Hostname: host.Name + ".example",
			NIC:      []bmov1.NIC{{Name: "ens3", MAC: host.Spec.BootMACAddress, IP: "192.168.133.33"}},
		}
	}
	data := &bmov1.HardwareData{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name},
		Spec:       bmov1.HardwareDataSpec{HardwareDetails: host.Status.HardwareDetails},
	}
	err := s.client.Create(ctx, data)
	if err != nil && !apierrors.IsAlreadyExists(err) && !meta.IsNoMatchError(err) { // Not every test needs that kind.
		return fmt.Errorf("creating HardwareData %s: %w", host.Name, err)
	}
	return nil
}

// detached reports whether a host is out of the hands of the operator, which it is not in the middle of something.
func detached(host *bmov1.BareMetalHost) bool {
	_, asked := host.Annotations[bmov1.DetachedAnnotation]
	switch host.Status.Provisioning.State {
	case bmov1.StateProvisioned, bmov1.StateExternallyProvisioned, bmov1.StateReady, bmov1.StateAvailable:
		return asked
	default:
		return false
	}
}

// runs reports whether there is something on a host that could be rebooted.
func runs(host *bmov1.BareMetalHost) bool {
	state := host.Status.Provisioning.State
	return state == bmov1.StateProvisioned || state == bmov1.StateExternallyProvisioned
}

// clearReboots takes off a host what asks to reboot it.
func clearReboots(host *bmov1.BareMetalHost) {
	for key := range host.Annotations {
		if key == bmov1.RebootAnnotationPrefix || strings.HasPrefix(key, bmov1.RebootAnnotationPrefix+"/") {
			delete(host.Annotations, key)
		}
	}
}
