package hostclaim_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/yaml"

	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/machines"
	"github.com/archelon-io/archelon/test/standin/capm3"
)

const machineNamespace = "team-a"

// newMachineWorld returns a cluster with the CRDs of the Metal3 provider, and with garbage collection.
func newMachineWorld(ctx context.Context, name string) *world {
	GinkgoHelper()
	w := newWorldOf(ctx, name, "hostclaim-baremetal", machineCRD())
	w.grant(ctx, account, "hostclaim-machines")
	return w
}

// machineCRD is that of the provider's release.
func machineCRD() *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("testdata", "metal3machines.yaml"))
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.Unmarshal(raw, crd)).To(Succeed())
	return crd
}

// startMachines runs the controller of Metal3Machines, as internal/setup wires it. Its faults are its own: the back-off
// of other controllers is no part of what is tried.
func (w *world) startMachines(ctx context.Context, its *faults) func() {
	GinkgoHelper()
	return w.startMachinesAs(ctx, account, its)
}

func (w *world) startMachinesAs(ctx context.Context, account string, its *faults) func() {
	GinkgoHelper()
	described := machines.Controller("host-claim-machines", baremetal.CRD(), nil)
	return w.run(ctx, account, described, func(ctx context.Context, _ *rest.Config, mgr ctrl.Manager, own cache.Cache) error {
		r := &machines.Reconciler{Client: faulty{mgr.GetClient(), its}, Recorder: mgr.GetEventRecorder(machines.ControllerName)}
		return r.SetupWithManager(ctx, mgr, machines.Options{Concurrency: 4, Own: own})
	})
}

// mortal has each write of a Machine fail twice. First it is refused. Then it is the last one of its process, which
// does not learn that it was carried out.
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
	w.labelledMachine(ctx, name, nil, annotations, spec)
}

func (w *world) labelledMachine(ctx context.Context, name string, labels map[string]string, annotations, spec string) {
	GinkgoHelper()
	object := capm3.NewMachine(machineNamespace, name)
	object.SetLabels(labels)
	said := map[string]string{}
	Expect(yaml.Unmarshal([]byte(annotations), &said)).To(Succeed())
	object.SetAnnotations(said)
	is := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &is)).To(Succeed())
	object.Object["spec"] = is
	w.create(ctx, object)
}
