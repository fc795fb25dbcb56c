package baremetal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/internal/reconcile"
	"github.com/archelon-io/archelon/test/simulation"
	standin "github.com/archelon-io/archelon/test/standin/host"
)

// stage is a simulated API server with one controller, the stand-in of Metal3's operator, and one host.
type stage struct {
	t                  *testing.T
	server             *simulation.Server
	control, operating *simulation.Process
	metal3             *standin.Standin
	// reads are the Secrets that the controller has read the data of.
	reads []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, server: simulation.NewServer(simScheme())}
	s.server.Put(simHost("h", "*"))
	live := s.server.Client(func(verb string, key simulation.Key, answered bool) error {
		if verb == "get" && key.Kind == secretGK && !answered {
			s.reads = append(s.reads, key.Namespace+"/"+key.Name)
		}
		return nil
	})
	cache := s.server.NewCache(simKinds...)
	for _, index := range append(hostIndexes(), claimIndexes()...) {
		cache.Index(index.Object, index.Name, index.Keys)
	}
	r := &Reconciler{
		Client: live, Recorder: simulation.Silent{}, Clock: clock.RealClock{},
		Read: Readers{Claims: []client.Reader{cache}, Objects: cache, Metadata: cache, Live: live},
	}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	s.control = &simulation.Process{Cache: cache, Reconciler: r, Watches: watchesOf(simScheme(), r)}
	s.metal3 = standin.New(s.server.Client(nil))
	s.operating = &simulation.Process{
		Cache: s.server.NewCache(hostGK), Reconciler: s.metal3,
		Watches: []simulation.Watch{{Kind: hostGK, Requests: reconcile.Itself}},
	}
	s.control.Start(t.Context())
	s.operating.Start(t.Context())
	return s
}

// settle has both work until there is nothing to do.
func (s *stage) settle() {
	s.t.Helper()
	for range 50 {
		if !s.control.Settle(s.t.Context(), 1000) || !s.operating.Settle(s.t.Context(), 1000) {
			s.t.Fatal("it does not come to rest")
		}
		if len(s.control.Cache.Behind()) == 0 {
			return
		}
	}
	s.t.Fatal("controller and operator do not come to rest")
}

// put creates or changes a claim, and waits for what comes of it.
func (s *stage) put(namespace, name string, change func(*metal3v1.HostClaim)) {
	s.t.Helper()
	claim := s.claim(namespace, name)
	if claim == nil {
		claim = simClaim(namespace, name)
	}
	claim.Generation++
	change(claim)
	s.server.Put(claim)
	s.settle()
}

func (s *stage) secret(namespace, name, value string) {
	s.t.Helper()
	s.server.Put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"value": []byte(value)},
	})
	s.settle()
}

func (s *stage) remove(namespace, name string) {
	s.t.Helper()
	s.server.Remove(s.server.KeyOf(simClaim(namespace, name)))
	s.settle()
}

func (s *stage) claim(namespace, name string) *metal3v1.HostClaim {
	claim, _ := s.server.Get(s.server.KeyOf(simClaim(namespace, name))).(*metal3v1.HostClaim)
	return claim
}

func (s *stage) host() *bmov1.BareMetalHost {
	host, _ := s.server.Get(s.server.KeyOf(simHost("h", ""))).(*bmov1.BareMetalHost)
	return host
}

// beside returns what a Secret beside the host holds, "none" if there is none.
func (s *stage) beside(name string) string {
	secret, ok := s.server.Get(simulation.Key{
		Kind: secretGK, NamespacedName: types.NamespacedName{Namespace: "infra", Name: name},
	}).(*corev1.Secret)
	if !ok {
		return "none"
	}
	return string(secret.Data["value"])
}

func (s *stage) expect(what string, got, want any) {
	s.t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		s.t.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

// provisioned returns what the host was provisioned with.
func (s *stage) provisioned() string {
	var texts []string
	for _, p := range s.metal3.Provisioned("infra", "h") {
		texts = append(texts, fmt.Sprintf("%s(%s,%s,%s)", p.Image, p.UserData, p.MetaData, p.NetworkData))
	}
	return strings.Join(texts, " ")
}

func (s *stage) said(namespace, name, kind string) string {
	condition := hostclaim.ConditionOf(s.claim(namespace, name), kind)
	return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message), ": ")
}

// runs asks for an image, with a Secret for each kind of data that is named.
func runs(image, user, network string) func(*metal3v1.HostClaim) {
	return func(claim *metal3v1.HostClaim) {
		claim.Spec.Online, claim.Spec.Image = new(true), &metal3v1.Image{URL: image, Checksum: "x"}
		claim.Spec.UserData, claim.Spec.NetworkData = nil, nil
		if user != "" {
			claim.Spec.UserData = &corev1.SecretReference{Name: user}
		}
		if network != "" {
			claim.Spec.NetworkData = &corev1.SecretReference{Name: network}
		}
	}
}

func annotated(key, value string) func(*metal3v1.HostClaim) {
	return func(claim *metal3v1.HostClaim) { metav1.SetMetaDataAnnotation(&claim.ObjectMeta, key, value) }
}

// Cases 1, 2, 3 and 5: a claim gets a host, then an image with data, is switched off, and gives the host back.
func TestSimpleWorkload(t *testing.T) {
	s := newStage(t)
	s.secret("a", "user", "user of a")
	s.secret("a", "net", "net of a")
	s.put("a", "c", func(*metal3v1.HostClaim) {})
	s.expect("bound", s.said("a", "c", "Associated"), "True BareMetalHostAssociated")
	s.expect("ready to be told more", s.said("a", "c", "Ready"), "True Ready")
	s.expect("status.ready", s.claim("a", "c").Status.Ready, false)

	s.put("a", "c", runs("http://img", "user", "net"))
	s.expect("provisioned", s.provisioned(), "http://img(user of a,,net of a)")
	s.expect("status.ready", s.claim("a", "c").Status.Ready, true)
	s.expect("copy", s.beside("h-hc-userdata"), "user of a")

	s.put("a", "c", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
	s.expect("powered on", *s.claim("a", "c").Status.PoweredOn, false)
	s.expect("state", s.host().Status.Provisioning.State, "provisioned")

	s.remove("a", "c")
	s.expect("claim", s.claim("a", "c") == nil, true)
	host := s.host()
	s.expect("state", host.Status.Provisioning.State, "available")
	s.expect("consumer, image and data are gone", host.Spec.ConsumerRef == nil && host.Spec.Image == nil &&
		host.Spec.UserData == nil && host.Spec.NetworkData == nil, true)
	s.expect("copies", s.beside("h-hc-userdata")+s.beside("h-hc-networkdata"), "nonenone")
	s.expect("the administrator's power", host.Spec.Online, true)
}

// Case 4: each annotation reboots once and goes; another one holds the host off, and those of its administrator stay.
func TestReboot(t *testing.T) {
	s := newStage(t)
	s.put("a", "c", runs("http://img", "", ""))
	for i, key := range []string{"reboot.metal3.io", "host.metal3.io/reboot"} {
		s.put("a", "c", annotated(key, `{"mode":"hard"}`))
		s.expect("reboots", s.metal3.Reboots("infra", "h"), i+1)
		left := fmt.Sprint(s.claim("a", "c").Annotations, s.host().Annotations)
		s.expect(left+" asks for a reboot", strings.Contains(left, "reboot"), false)
	}
	s.put("a", "c", annotated("reboot.metal3.io/hold", ""))
	s.expect("powered on", *s.claim("a", "c").Status.PoweredOn, false)
	host := s.host()
	host.Annotations["reboot.metal3.io/admin"] = ""
	s.server.Put(host)
	s.put("a", "c", func(c *metal3v1.HostClaim) { delete(c.Annotations, "reboot.metal3.io/hold") })
	_, admin := s.host().Annotations["reboot.metal3.io/admin"]
	_, hold := s.host().Annotations["reboot.metal3.io/hold"]
	s.expect("the administrator's and the claim's", fmt.Sprint(admin, hold), "true false")
}

// Case 6 and attack M: the next tenant gets nothing of the first.
func TestNextTenant(t *testing.T) {
	s := newStage(t)
	s.secret("a", "s", "of a")
	s.secret("b", "s", "of b")
	s.put("a", "hostile", runs("http://img", "s", "s"))
	s.put("a", "hostile", annotated("reboot.metal3.io/hold", ""))
	s.put("a", "hostile", annotated("host.metal3.io/reboot-x", ""))
	s.put("b", "next", runs("http://img", "s", ""))
	s.expect("waits", s.said("b", "next", "Associated"), "False NoBareMetalHost: No host that matches spec.hostSelector is free and allows this namespace. Change spec.hostSelector, or ask your administrator")
	s.remove("a", "hostile")
	s.expect("provisioned", s.provisioned(), "http://img(of a,,of a) http://img(of b,,)")
	s.expect("ready", s.claim("b", "next").Status.Ready, true)
	s.expect("leftovers", strings.Contains(fmt.Sprint(s.host().Annotations), "reboot"), false)
	s.expect("leftovers", s.beside("h-hc-networkdata"), "none")
	s.put("b", "next", annotated("reboot.metal3.io/hold", ""))
	s.remove("b", "next")
	left := fmt.Sprint(s.host().Annotations)
	s.expect("what is left when nobody follows: "+left, strings.Contains(left, "reboot") || strings.Contains(left, "saved"), false)
}

// The host follows the claim and its Secrets; case 17 has a procedure in the place of an image.
func TestFollows(t *testing.T) {
	s := newStage(t)
	s.secret("a", "s", "first")
	s.put("a", "c", runs("http://one", "s", ""))
	s.secret("a", "s", "second")
	s.expect("copy", s.beside("h-hc-userdata"), "second")
	s.expect("a Secret alone provisions nothing", s.provisioned(), "http://one(first,,)")
	s.put("a", "c", runs("http://two", "s", ""))
	s.expect("provisioned", s.provisioned(), "http://one(first,,) http://two(second,,)")
	s.server.Remove(simulation.Key{Kind: secretGK, NamespacedName: types.NamespacedName{Namespace: "infra", Name: "h-hc-userdata"}})
	s.settle()
	s.expect("copy that somebody has deleted", s.beside("h-hc-userdata"), "second")
	s.put("a", "c", func(c *metal3v1.HostClaim) {
		c.Spec.Image, c.Spec.UserData, c.Spec.CustomDeploy = nil, nil, &metal3v1.CustomDeploy{Method: "coreos"}
	})
	s.expect("provisioned", s.provisioned(), "http://one(first,,) http://two(second,,) coreos(,,)")
	s.expect("copy", s.beside("h-hc-userdata"), "none")
	s.put("a", "c", func(c *metal3v1.HostClaim) { c.Spec.CustomDeploy = nil })
	s.expect("state", s.host().Status.Provisioning.State, "available")
}

// Case 18: in the namespace of the host there are no copies.
func TestSameNamespace(t *testing.T) {
	s := newStage(t)
	s.secret("infra", "s", "direct")
	s.put("infra", "c", runs("http://img", "s", ""))
	s.expect("provisioned", s.provisioned(), "http://img(direct,,)")
	s.expect("reference", s.host().Spec.UserData.Name+" "+s.beside("h-hc-userdata"), "s none")
}

// Attacks J, K, N and U: nothing is read or overwritten that is somebody else's.
func TestSecretsOfOthers(t *testing.T) {
	s := newStage(t)
	s.secret("kube-system", "admin", "admin")
	s.secret("infra", "registry", "of infra")
	s.secret("infra", "h-hc-userdata", "of somebody else")
	s.put("a", "c", all(runs("http://img", "admin", ""), func(c *metal3v1.HostClaim) { c.Spec.UserData.Namespace = "kube-system" }))
	s.expect("J", s.said("a", "c", "Synchronized"),
		"False UserDataSecretSyncFailure: Field userdata: Secret admin is in another namespace. Use a Secret in the namespace of this HostClaim")
	s.secret("a", "own", "of a")
	s.put("a", "c", runs("http://img", "own", ""))
	s.expect("N", s.said("a", "c", "Synchronized"),
		"False UserDataSecretSyncFailure: Field userdata: the namespace of the host has another Secret with the name of the copy. Ask your administrator to delete it")
	s.put("a", "c", all(runs("oci://evil", "", ""), func(c *metal3v1.HostClaim) { c.Spec.Image.OCIAuthSecretName = "registry" }))
	s.expect("K", s.said("a", "c", "Synchronized"), "False ImageSecretSyncFailure: Field imageauth: Secret registry does not exist. Create it, or correct the field")
	s.expect("no image without its Secrets", s.host().Spec.Image == nil, true)
	s.secret("a", "registry", "of a")
	s.expect("its own is copied", *s.host().Spec.Image.OCIAuthSecretName+" "+s.beside("h-hc-imageauth"), "h-hc-imageauth of a")
	s.remove("a", "c")
	s.expect("what is left", s.beside("h-hc-userdata")+", "+s.beside("h-hc-imageauth"), "of somebody else, none")
	for _, read := range []string{"kube-system/admin", "infra/registry"} {
		if slices.Contains(s.reads, read) {
			t.Errorf("it read %s", read)
		}
	}
}

// Attacks L and O: a host is told nothing but reboots, and tells nothing but what is marked for tenants.
func TestMetadata(t *testing.T) {
	s := newStage(t)
	host := s.host()
	host.Spec.BMC = bmov1.BMCDetails{Address: "redfish://bmc.example", CredentialsName: "bmc-secret"}
	host.Labels["info.hostclaims.metal3.io/rack"] = "r1"
	host.Annotations["info.hostclaims.metal3.io/zone"] = "left"
	host.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "redfish://bmc.example"
	s.server.Put(host)
	s.server.Put(&bmov1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "h"}})
	hostile := map[string]string{
		"baremetalhost.metal3.io/paused": "", "baremetalhost.metal3.io/detached": "", "baremetalhost.metal3.io/status": "{}",
		"inspect.metal3.io": "", "info.hostclaims.metal3.io/made-up": "x",
	}
	s.put("a", "c", all(runs("http://img", "", ""), func(c *metal3v1.HostClaim) { c.Annotations = hostile }))
	claim := s.claim("a", "c")
	s.expect("ready", claim.Status.Ready, true)
	s.expect("told", claim.Labels["info.hostclaims.metal3.io/rack"]+claim.Annotations["info.hostclaims.metal3.io/zone"]+
		claim.Annotations["info.hostclaims.metal3.io/made-up"], "r1left")
	s.expect("hardware data", *claim.Status.HardwareData, metal3v1.ObjectReference{Namespace: "infra", Name: "h"})
	for key := range hostile {
		if _, ok := s.host().Annotations[key]; ok {
			t.Errorf("%s got through to the host", key)
		}
	}
	raw, err := json.Marshal(claim)
	if err != nil || strings.Contains(string(raw), "bmc") {
		t.Errorf("got %v, %s", err, raw)
	}
}

// copyingPolicy returns a policy that lets all namespaces have the hosts, and copies labels and annotations.
func copyingPolicy(labels, annotations string) *metal3v1.HostDeployPolicy {
	return &metal3v1.HostDeployPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "copies"},
		Spec: metal3v1.HostDeployPolicySpec{
			HostClaimNamespaces: &metal3v1.HostClaimNamespaces{NameMatches: ".*"},
			MetadataCopy:        &metal3v1.MetadataCopy{LabelsMatch: labels, AnnotationsMatch: annotations},
		},
	}
}

// What a policy has copied comes, changes and goes with the policy, the host, and the claim's having it.
func TestMetadataCopy(t *testing.T) {
	s := newStage(t)
	host := s.host()
	host.Labels["example.com/rack"], host.Annotations["example.com/room"] = "r1", "blue"
	s.server.Put(host)
	s.put("a", "c", func(c *metal3v1.HostClaim) { c.Labels = map[string]string{"mine": "x"} })
	has := func(what string, labels, annotations string) {
		t.Helper()
		claim := s.claim("a", "c")
		s.expect(what, claim.Labels["example.com/rack"]+" "+claim.Annotations["example.com/room"]+" "+claim.Labels["size"]+" "+claim.Labels["mine"],
			labels+" "+annotations+"  x")
	}
	generation := int64(0)
	policy := func(labels, annotations string) {
		t.Helper()
		generation++
		is := copyingPolicy(labels, annotations)
		is.Generation = generation
		s.server.Put(is)
		s.settle()
	}
	has("without a policy", "", "")
	policy("example.com/.*", "example.com/.*")
	has("with a policy", "r1", "blue")
	s.put("a", "c", func(c *metal3v1.HostClaim) { c.Labels["example.com/rack"] = "mine" })
	has("as somebody else has written it", "mine", "blue")
	s.put("a", "c", func(c *metal3v1.HostClaim) { delete(c.Annotations, metal3v1.CopiedAnnotation) })
	has("when nothing says what was copied", "r1", "blue")
	host = s.host()
	host.Labels["example.com/rack"] = "r2"
	s.server.Put(host)
	s.settle()
	has("when the host has another one", "r2", "blue")
	writes := len(s.server.Writes)
	host = s.host()
	host.Labels["example.net/rack"] = "r3"
	s.server.Put(host)
	s.settle()
	s.expect("writes when nothing changes that is copied", len(s.server.Writes), writes)
	policy("example.com/.*", "")
	has("when the policy names labels alone", "r2", "")
	host = s.host()
	host.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Namespace: "infra", Name: "m"}
	s.server.Put(host)
	s.settle()
	has("without its host", "", "")
}

// Case 25: a paused Cluster has its claims and their hosts left alone.
func TestPausedCluster(t *testing.T) {
	s := newStage(t)
	pause := func(paused bool) {
		s.server.Put(&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "k"}, Spec: clusterv1.ClusterSpec{Paused: &paused},
		})
		s.settle()
	}
	pause(true)
	s.put("a", "c", all(runs("http://img", "", ""), func(c *metal3v1.HostClaim) { c.Labels = map[string]string{clusterv1.ClusterNameLabel: "k"} }))
	s.expect("consumer", s.host().Spec.ConsumerRef, (*corev1.ObjectReference)(nil))
	pause(false)
	s.expect("ready", s.claim("a", "c").Status.Ready, true)
	pause(true)
	before := s.host().ResourceVersion
	s.put("a", "c", func(c *metal3v1.HostClaim) { c.Spec.Online = new(false) })
	s.remove("a", "c")
	s.expect("version of the host", s.host().ResourceVersion, before)
	pause(false)
	s.expect("claim", s.claim("a", "c") == nil, true)
}
