package hostclaim_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/machines"
)

const (
	machineFinalizer = "metal3machine.infrastructure.cluster.x-k8s.io"
	machineNamespace = "team-a"
	hostAnnotation   = "metal3.io/BareMetalHost"
	machineVersion   = "infrastructure.cluster.x-k8s.io/v1beta1"
)

// newMachineWorld returns a cluster with the CRDs of the Metal3 provider, and with garbage collection.
func newMachineWorld(ctx context.Context, name string) *world {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("testdata", "metal3machines.yaml"))
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.Unmarshal(raw, crd)).To(Succeed())
	w := newWorldOf(ctx, name, "hostclaim-baremetal", crd)
	w.grant(ctx, account, "hostclaim-machines")
	return w
}

// startMachines runs the controller of Metal3Machines, as internal/setup wires it. Its faults are its own: the back-off of
// other controllers is no part of what is tried.
func (w *world) startMachines(ctx context.Context, its *faults) func() {
	GinkgoHelper()
	described := machines.Controller("host-claim-machines", baremetal.CRD(), nil)
	return w.run(ctx, account, described, func(_ context.Context, _ *rest.Config, mgr ctrl.Manager, own cache.Cache) error {
		r := &machines.Reconciler{Client: faulty{mgr.GetClient(), its}, Recorder: mgr.GetEventRecorder(machines.ControllerName)}
		return r.SetupWithManager(mgr, machines.Options{Concurrency: 4, Own: own})
	})
}

// mortal has each write of a Machine fail twice. First it is refused. Then it is the last one of its process, which does
// not learn that it was carried out.
type mortal struct {
	machine string

	mu            sync.Mutex
	refused, dead bool
	last          []string
}

func (m *mortal) fault(write string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, mine := strings.HasPrefix(write, "before "), strings.HasSuffix(write, "/"+m.machine)
	switch {
	case m.dead:
		return errDead
	case !mine:
		return nil
	case before && !m.refused:
		m.refused = true
		return errors.New("this write is refused")
	case before:
		return nil
	default:
		m.dead, m.last = true, append(m.last, strings.TrimPrefix(write, "after "))
		return errDead
	}
}

// isDead reports whether the process is to be replaced.
func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// revive is for a new process.
func (m *mortal) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused, m.dead = false, false
}

// diedAt are the last writes of processes.
func (m *mortal) diedAt() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.last)
}

// machine creates a Metal3Machine from YAML of its annotations and its spec.
func (w *world) machine(ctx context.Context, name, annotations, spec string) {
	GinkgoHelper()
	object := newMachineObject(machineNamespace, name)
	said := map[string]string{}
	Expect(yaml.Unmarshal([]byte(annotations), &said)).To(Succeed())
	object.SetAnnotations(said)
	is := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &is)).To(Succeed())
	object.Object["spec"] = is
	w.create(ctx, object)
}

func newMachineObject(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(machineVersion)
	object.SetKind("Metal3Machine")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// provider does what the Metal3 provider of Cluster API v1.13.2 does about the host of a Metal3Machine, one step at a
// time: baremetal/metal3machine_manager.go, functions Associate, chooseHost, Update, setHostConsumerRef, setHostSpec and
// Delete. It reads the API server, not a cache.
type provider struct {
	client client.Client
	image  *bmov1.Image
	data   *corev1.SecretReference
}

// step takes the next one, and says what it came to: the state of the host, once there is one.
func (p provider) step(ctx context.Context, namespace, name string) string {
	m := newMachineObject(namespace, name)
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
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
	after.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machineVersion, Kind: "Metal3Machine", Name: name, UID: m.GetUID(), Controller: new(true),
	}}
	after.Spec.Online = true
	if after.Spec.Image == nil && p.image != nil {
		after.Spec.Image, after.Spec.UserData = p.image, p.data
	}
	if err := p.client.Patch(ctx, after, client.MergeFrom(host)); err != nil {
		return err.Error()
	}
	return string(host.Status.Provisioning.State)
}

// host returns the host that a Metal3Machine names, in its own namespace whatever it names.
func (p provider) host(ctx context.Context, m *unstructured.Unstructured) (*bmov1.BareMetalHost, error) {
	said := m.GetAnnotations()[hostAnnotation]
	if said == "" {
		return nil, nil
	}
	host := &bmov1.BareMetalHost{}
	key := types.NamespacedName{Namespace: m.GetNamespace(), Name: filepath.Base(said)}
	if err := p.client.Get(ctx, key, host); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return host, nil
}

// associate takes the host whose consumer the Metal3Machine is, or else a free one that it selects.
func (p provider) associate(ctx context.Context, m *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(m.Object, "spec", "hostSelector", "matchLabels")
	list := &bmov1.BareMetalHostList{}
	if err := p.client.List(ctx, list, client.InNamespace(m.GetNamespace()), client.MatchingLabels(labels)); err != nil {
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
	if err := p.client.Patch(ctx, after, client.MergeFrom(m)); err != nil {
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
func (p provider) delete(ctx context.Context, m *unstructured.Unstructured, host *bmov1.BareMetalHost) string {
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
		after.Spec.ConsumerRef, after.OwnerReferences = nil, nil
		if said := p.patched(ctx, after, host, ""); said != "" {
			return said
		}
	}
	after := m.DeepCopy()
	controllerutil.RemoveFinalizer(after, machineFinalizer)
	return p.patched(ctx, after, m, "released")
}

func (p provider) patched(ctx context.Context, after, before client.Object, said string) string {
	if err := p.client.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return err.Error()
	}
	return said
}
