// Package capm3 is a stand-in of the Metal3 provider of Cluster API. It does what v1.13.2 does about the host of a
// Metal3Machine, one step at a time: baremetal/metal3machine_manager.go, functions Associate, chooseHost, Update,
// setHostConsumerRef, setHostSpec and Delete. It reads the API server, not a cache.
package capm3

import (
	"context"
	"path/filepath"
	"slices"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	machineFinalizer = "metal3machine.infrastructure.cluster.x-k8s.io"
	machineVersion   = "infrastructure.cluster.x-k8s.io/v1beta1"
	hostAnnotation   = "metal3.io/BareMetalHost"
	nodeReuseLabel   = "infrastructure.cluster.x-k8s.io/node-reuse"
	clusterLabel     = "cluster.x-k8s.io/cluster-name"
	deploymentLabel  = "cluster.x-k8s.io/deployment-name"
)

// NewMachine returns a Metal3Machine without a spec.
func NewMachine(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(machineVersion)
	object.SetKind("Metal3Machine")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// Provider does that.
type Provider struct {
	Client client.Client
	// Image and Data are what each Machine is to run.
	Image *bmov1.Image
	Data  *corev1.SecretReference
	// Reuses says whether the template of a Machine has nodeReuse, nil that none has. Old is whether the provider has an
	// old cache when it takes a Machine off its host: it removes the owners that were added since.
	Reuses func(machine string) bool
	Old    func() bool
}

// Step takes the next one, and says what it came to: the state of the host, once there is one.
func (p Provider) Step(ctx context.Context, namespace, name string) string {
	m := NewMachine(namespace, name)
	if err := p.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return string(apierrors.ReasonForError(err))
	}
	host, err := p.host(ctx, m)
	if err != nil {
		return err.Error()
	}
	if m.GetDeletionTimestamp() != nil {
		return p.delete(ctx, m, host)
	}
	if _, known := m.GetAnnotations()[hostAnnotation]; !known {
		return p.associate(ctx, m)
	}
	if host == nil {
		return "no host"
	}
	after := host.DeepCopy()
	after.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: machineVersion, Kind: "Metal3Machine", Namespace: namespace, Name: name}
	after.OwnerReferences = append(without(host.OwnerReferences, name), metav1.OwnerReference{
		APIVersion: machineVersion, Kind: "Metal3Machine", Name: name, UID: m.GetUID(), Controller: new(true),
	})
	delete(after.Labels, nodeReuseLabel)
	after.Spec.Online = true
	if after.Spec.Image == nil && p.Image != nil {
		after.Spec.Image, after.Spec.UserData = p.Image, p.Data
	}
	if err := p.Client.Patch(ctx, after, client.MergeFrom(host)); err != nil {
		return err.Error()
	}
	return string(host.Status.Provisioning.State)
}

// host returns the host that a Metal3Machine names, in its own namespace whatever it names.
func (p Provider) host(ctx context.Context, m *unstructured.Unstructured) (*bmov1.BareMetalHost, error) {
	said := m.GetAnnotations()[hostAnnotation]
	if said == "" {
		return nil, nil
	}
	host := &bmov1.BareMetalHost{}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: filepath.Base(said)}
	if err := p.Client.Get(ctx, key, host); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return host, nil
}

// associate takes the host whose consumer the Metal3Machine is, or else a free one that it selects.
func (p Provider) associate(ctx context.Context, m *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(m.Object, "spec", "hostSelector", "matchLabels")
	list := &bmov1.BareMetalHostList{}
	if err := p.Client.List(ctx, list, client.InNamespace(m.GetNamespace()), client.MatchingLabels(labels)); err != nil {
		return err.Error()
	}
	chosen := ""
	for _, host := range list.Items {
		_, paused := host.Annotations[bmov1.PausedAnnotation]
		switch ref := host.Spec.ConsumerRef; {
		case ref != nil && ref.Kind == "Metal3Machine" && ref.Namespace == m.GetNamespace() && ref.Name == m.GetName():
			chosen = host.Name
		case ref == nil && !paused && chosen == "" && host.Status.Provisioning.State == bmov1.StateAvailable:
			chosen = host.Name
		}
	}
	if chosen == "" {
		return "no available host found"
	}
	after := m.DeepCopy()
	controllerutil.AddFinalizer(after, machineFinalizer)
	after.SetAnnotations(merged(after.GetAnnotations(), hostAnnotation, m.GetNamespace()+"/"+chosen))
	if err := p.Client.Patch(ctx, after, client.MergeFrom(m)); err != nil {
		return err.Error()
	}
	return "associated with " + chosen
}

func merged(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// delete gives the host back, and waits until there is nothing on it.
func (p Provider) delete(ctx context.Context, m *unstructured.Unstructured, host *bmov1.BareMetalHost) string {
	if host != nil && host.Spec.ConsumerRef != nil {
		after := host.DeepCopy()
		if after.Spec.Image != nil || after.Spec.UserData != nil || after.Spec.Online {
			after.Spec.Image, after.Spec.UserData, after.Spec.Online = nil, nil, false
			return p.patched(ctx, after, host, "deprovisioning BareMetalHost, requeuing")
		}
		done := []bmov1.ProvisioningState{
			bmov1.StateRegistering, bmov1.StateMatchProfile, bmov1.StateInspecting, bmov1.StateReady, bmov1.StateAvailable, bmov1.StateNone,
			bmov1.StateUnmanaged,
		}
		if !slices.Contains(done, host.Status.Provisioning.State) {
			return "waiting"
		}
		p.leave(ctx, m, after)
		if said := p.patched(ctx, after, host, ""); said != "" {
			return said
		}
	}
	after := m.DeepCopy()
	controllerutil.RemoveFinalizer(after, machineFinalizer)
	return p.patched(ctx, after, m, "released")
}

// leave takes a Machine off its host, and tags the host if it is to be used again.
func (p Provider) leave(ctx context.Context, m *unstructured.Unstructured, host *bmov1.BareMetalHost) {
	host.Spec.ConsumerRef, host.OwnerReferences = nil, without(host.OwnerReferences, m.GetName())
	if p.Old != nil && p.Old() {
		host.OwnerReferences = nil
	}
	delete(host.Labels, clusterLabel)
	if p.reuses(ctx, m) {
		host.Labels = merged(host.Labels, nodeReuseLabel, "md-"+m.GetLabels()[deploymentLabel])
	}
}

// reuses reports whether the host of a Machine is to be used again. Of a Cluster that is being deleted, none is.
func (p Provider) reuses(ctx context.Context, m *unstructured.Unstructured) bool {
	cluster := &clusterv1.Cluster{}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetLabels()[clusterLabel]}
	return p.Reuses != nil && p.Reuses(m.GetName()) && p.Client.Get(ctx, key, cluster) == nil && cluster.DeletionTimestamp == nil
}

// without returns owners without a Machine.
func without(owners []metav1.OwnerReference, machine string) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(ref metav1.OwnerReference) bool {
		return ref.Kind == "Metal3Machine" && ref.Name == machine
	})
}

func (p Provider) patched(ctx context.Context, after, before client.Object, said string) string {
	if err := p.Client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return err.Error()
	}
	return said
}
