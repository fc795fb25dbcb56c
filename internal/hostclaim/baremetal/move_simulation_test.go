package baremetal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/test/simulation"
)

// Whatever a move of a namespace does in whatever order, and wherever it breaks off, while managers and operators of
// both clusters run: no server is touched, none is in the hands of two operators, each claim has the host that it had.
func TestMoveSimulation(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		m := newMoveWorld(ctx, t)
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			m.act()
			m.check()
		}
		m.finish()
	})
}

// moveSite is a cluster with a manager and Metal3's operator.
type moveSite struct {
	m       *moveWorld
	server  *simulation.Server
	process *simulation.Process
}

// moveWorld is two of them, and clusterctl.
type moveWorld struct {
	t           *rapid.T
	ctx         context.Context //nolint:containedctx // it is that of the test, as t is
	here, there *moveSite
	// crash has the next write of a manager be its last, before it is carried out or after.
	crash string
	// left is what clusterctl has to create, blocked what it waits for, and gone what it has to delete. It does nothing
	// unless it moves.
	moves         bool
	left, gone    []simulation.Key
	blocked       []simulation.Key
	done, touched bool
}

func newMoveWorld(ctx context.Context, t *rapid.T) *moveWorld {
	m := &moveWorld{t: t, ctx: ctx}
	for _, site := range []**moveSite{&m.here, &m.there} {
		*site = &moveSite{m: m, server: simulation.NewServer(simScheme())}
		(*site).server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	}
	for range 100 { // So that UIDs are others there.
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		m.there.server.Put(other)
		m.there.server.Remove(m.there.server.KeyOf(other))
	}
	m.here.server.Put(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "k"}})
	for _, name := range []string{"h1", "h2", "h3"} {
		host := simHost(name, "*")
		host.Namespace, host.Status.LastUpdated = "a", new(metav1.Unix(1, 0))
		host.Status.OperationalStatus = bmov1.OperationalStatusOK
		m.here.server.Put(host)
	}
	for _, name := range []string{"c1", "c2"} {
		claim := simClaim("a", name)
		claim.Labels = map[string]string{clusterv1.ClusterNameLabel: "k"}
		claim.Spec.Online, claim.Spec.Image = new(true), &metal3v1.Image{URL: "http://" + name, Checksum: "x"}
		m.here.server.Put(claim)
	}
	m.here.start()
	m.there.start()
	m.here.settle()
	for _, claim := range m.here.claims() {
		if !claim.Status.Ready {
			t.Fatalf("%s is not ready: %+v", claim.Name, claim.Status)
		}
	}
	m.touched = false
	return m
}

func (s *moveSite) start() {
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	s.process = newProcess(s.m.ctx, s.m.t, s.server, s.fault, now)
}

func (s *moveSite) fault(verb string, _ simulation.Key, answered bool) error {
	when := map[bool]string{false: "before", true: "after"}[answered]
	if verb == "get" || verb == "list" || s.m.crash != when {
		return nil
	}
	s.m.crash = ""
	panic(simulation.Crash{})
}

func (s *moveSite) hosts() []*bmov1.BareMetalHost {
	return objectsOf[*bmov1.BareMetalHost](s.server, hostGK)
}

func (s *moveSite) claims() []*metal3v1.HostClaim {
	return objectsOf[*metal3v1.HostClaim](s.server, claimGK)
}

func (s *moveSite) cluster() *clusterv1.Cluster {
	cluster, _ := s.server.Get(s.server.KeyOf(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "k"}})).(*clusterv1.Cluster)
	return cluster
}

func (s *moveSite) pause(paused bool) {
	if cluster := s.cluster(); cluster != nil {
		cluster.Spec.Paused = &paused
		s.server.Put(cluster)
	}
}

// operate has Metal3's operator do what is next with a host. It reports false if that is nothing.
func (s *moveSite) operate(host *bmov1.BareMetalHost) bool {
	raw, kept := host.Annotations[bmov1.StatusAnnotation]
	_, paused := host.Annotations[bmov1.PausedAnnotation]
	is := &host.Status.Provisioning
	wanted := host.Spec.Image != nil
	switch {
	case paused:
		return false
	case kept && host.Status.LastUpdated.IsZero():
		if err := json.Unmarshal([]byte(raw), &host.Status); err != nil {
			s.m.t.Fatal(err)
		}
	case kept:
		delete(host.Annotations, bmov1.StatusAnnotation)
	case host.Status.LastUpdated.IsZero(): // It inspects the server, and looks what is on it.
		s.m.touched = s.m.touched || host.Spec.ConsumerRef != nil
		host.Status.LastUpdated, host.Status.OperationalStatus = new(metav1.Unix(1, 0)), bmov1.OperationalStatusOK
		is.State = bmov1.StateAvailable
	case is.State == bmov1.StateAvailable && wanted && host.Spec.Online:
		s.m.touched = true
		is.State, is.Image = bmov1.StateProvisioned, *host.Spec.Image.DeepCopy()
	case is.State == bmov1.StateProvisioned && (!wanted || is.Image.URL != host.Spec.Image.URL):
		s.m.touched = true
		is.State, is.Image = bmov1.StateAvailable, bmov1.Image{}
	default:
		return false
	}
	s.server.Put(host)
	return true
}

func (s *moveSite) settle() {
	for range 200 {
		if !s.process.Settle(s.m.ctx, 5000) {
			s.m.t.Fatal("it does not come to rest")
		}
		moved := false
		for _, host := range s.hosts() {
			moved = s.operate(host) || moved
		}
		if !moved && len(s.process.Cache.Behind()) == 0 {
			return
		}
	}
	s.m.t.Fatal("it does not come to rest")
}

func (s *moveSite) work() {
	if s.process.Queued() == 0 {
		return
	}
	lives, err := s.process.Work(s.m.ctx, rapid.IntRange(0, s.process.Queued()-1).Draw(s.m.t, "request"))
	if !lives {
		s.start()
	} else if err != nil {
		s.m.t.Fatalf("a run failed: %v", err)
	}
}

// act does one thing that can happen.
func (m *moveWorld) act() {
	site := m.here
	if rapid.Bool().Draw(m.t, "there") {
		site = m.there
	}
	switch rapid.SampledFrom([]string{
		"clusterctl", "clusterctl", "clusterctl", "work", "work", "work", "deliver", "deliver", "deliver", "metal3", "metal3", "restart", "crash", "break off",
	}).Draw(m.t, "what") {
	case "clusterctl":
		m.step()
	case "work":
		site.work()
	case "deliver":
		if behind := site.process.Cache.Behind(); len(behind) > 0 {
			site.process.Deliver(m.ctx, behind[rapid.IntRange(0, len(behind)-1).Draw(m.t, "kind")])
		}
	case "metal3":
		if hosts := site.hosts(); len(hosts) > 0 {
			site.operate(hosts[rapid.IntRange(0, len(hosts)-1).Draw(m.t, "host")])
		}
	case "restart":
		site.start()
	case "crash":
		m.crash = rapid.SampledFrom([]string{"before", "after"}).Draw(m.t, "crash")
	case "break off":
		// Once it deletes, there is no way back: it is repeated until it ends.
		if m.moves && len(m.left) > 0 {
			m.moves = false
			m.here.pause(false)
		}
	}
}

// step has clusterctl do the next of what it does.
func (m *moveWorld) step() {
	switch {
	case m.done:
	case !m.moves:
		m.begin()
	case len(m.blocked) > 0:
		if object := m.here.server.Get(m.blocked[0]); object == nil || object.GetAnnotations()[blockMove] == "" {
			m.blocked = m.blocked[1:]
		}
	case len(m.left) > 0:
		m.create(m.left[0])
		if m.left = m.left[1:]; len(m.left) == 0 {
			m.gone = m.draw()
		}
	case len(m.gone) > 0:
		m.remove(m.gone[0])
		m.gone = m.gone[1:]
	default:
		m.there.pause(false)
		m.done, m.moves = true, false
	}
}

// draw returns what there is to move, in any order.
func (m *moveWorld) draw() []simulation.Key {
	keys := []simulation.Key{m.here.server.KeyOf(m.here.cluster())}
	for _, host := range m.here.hosts() {
		keys = append(keys, m.here.server.KeyOf(host))
	}
	for _, claim := range m.here.claims() {
		keys = append(keys, m.here.server.KeyOf(claim))
	}
	return rapid.Permutation(keys).Draw(m.t, "order")
}

// begin looks what is to be moved, and only then pauses it. As documented, nobody repeats a move before the hosts are
// taken out of the pause of the one before.
func (m *moveWorld) begin() {
	if ptr.Deref(m.here.cluster().Spec.Paused, false) {
		return
	}
	for _, host := range m.here.hosts() {
		if _, paused := host.Annotations[bmov1.PausedAnnotation]; paused {
			return
		}
	}
	m.moves, m.left, m.blocked = true, m.draw(), nil
	for _, key := range m.left {
		if m.here.server.Get(key).GetAnnotations()[blockMove] != "" {
			m.blocked = append(m.blocked, key)
		}
	}
	m.here.pause(true)
}

// create creates or replaces an object there, without its status and its UID.
func (m *moveWorld) create(key simulation.Key) {
	is := m.here.server.Get(key)
	if is == nil {
		return
	}
	existing := m.there.server.Get(key)
	switch object := is.(type) {
	case *bmov1.BareMetalHost:
		object.Status = bmov1.BareMetalHostStatus{}
		if was, ok := existing.(*bmov1.BareMetalHost); ok {
			object.Status = was.Status
		}
	case *metal3v1.HostClaim:
		object.Status = metal3v1.HostClaimStatus{}
		if was, ok := existing.(*metal3v1.HostClaim); ok {
			object.Status = was.Status
		}
	}
	m.there.server.Put(is)
}

func (m *moveWorld) remove(key simulation.Key) {
	object := m.here.server.Get(key)
	if object == nil {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = ""
	object.SetAnnotations(annotations)
	m.here.server.Put(object)
	m.here.server.Remove(key)
	if object = m.here.server.Get(key); object != nil {
		object.SetFinalizers(nil)
		m.here.server.Put(object)
	}
}

// check is what must hold at every moment.
func (m *moveWorld) check() {
	if m.touched {
		m.t.Fatal("a server was touched")
	}
	free := map[string]int{}
	for _, site := range []*moveSite{m.here, m.there} {
		claims := map[string]bool{}
		for _, host := range site.hosts() {
			ref := host.Spec.ConsumerRef
			if ref == nil {
				continue
			}
			if claims[ref.Name] {
				m.t.Fatalf("claim %s has two hosts", ref.Name)
			}
			claims[ref.Name] = true
			if host.Spec.Image == nil || host.Spec.Image.URL != "http://"+ref.Name {
				m.t.Fatalf("%s is not what its claim asks for", describeHost(host))
			}
			if _, paused := host.Annotations[bmov1.PausedAnnotation]; !paused {
				free[host.Name]++
			}
		}
	}
	for name, operators := range free {
		if operators > 1 {
			m.t.Fatalf("host %s is in the hands of two operators", name)
		}
	}
}

// finish has everything end, and looks whether it is as it was.
func (m *moveWorld) finish() {
	m.crash = ""
	for range 500 {
		m.here.settle()
		m.there.settle()
		m.check()
		if !m.moves {
			break
		}
		m.step()
	}
	site := m.here
	if m.done {
		site = m.there
		if left := append(names(m.here.hosts()), names(m.here.claims())...); len(left) > 0 {
			m.t.Fatalf("%s is left", strings.Join(left, ", "))
		}
	}
	if got := names(site.claims()); !slices.Equal(got, []string{"c1", "c2"}) {
		m.t.Fatalf("got %v", got)
	}
	for _, claim := range site.claims() {
		host, ok := site.server.Get(simulation.Key{Kind: hostGK, NamespacedName: types.NamespacedName{
			Namespace: "a", Name: ptr.Deref(claim.Status.BareMetalHost, metal3v1.ObjectReference{}).Name,
		}}).(*bmov1.BareMetalHost)
		_, marked := claim.Annotations[metal3v1.ParkedAnnotation]
		if !ok || !claim.Status.Ready || marked || host.Spec.ConsumerRef.UID != claim.UID || host.Annotations[blockMove] == "" {
			m.t.Fatalf("%s has %s, and says %v, %+v", claim.Name, describeHost(host), claim.Annotations, claim.Status)
		}
	}
}

func names[T client.Object](objects []T) []string {
	var all []string
	for _, object := range objects {
		all = append(all, object.GetName())
	}
	return all
}
