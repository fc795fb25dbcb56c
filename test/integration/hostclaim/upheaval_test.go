package hostclaim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
)

// The simulation beside the code walks through far more than this. Here the API server, its watches, and the caches are
// real.
var _ = Describe("Claims of kind baremetal, with two controllers, late caches, failing writes, and everybody changing everything", func() {
	It("have one host each or none, and all ends well", func(ctx SpecContext) {
		u := newUpheaval(ctx)
		u.w.failing(u.fault)
		// Where everything is slow, more has to happen until enough has.
		for acts := 0; acts < 150 || u.bindings() <= 5; acts++ {
			u.act(ctx)
		}
		u.w.failing(nil)
		u.restart(ctx, 0)

		By("coming to rest")
		Eventually(func() []string { return u.unsettled(ctx) }).Should(BeEmpty())
		Expect(u.wrong()).To(BeEmpty())

		By("deleting all claims")
		Expect(client.IgnoreNotFound(u.w.admin.DeleteAllOf(ctx, &metal3v1.HostClaim{}, client.InNamespace("team-a")))).To(Succeed())
		Expect(client.IgnoreNotFound(u.w.admin.DeleteAllOf(ctx, &metal3v1.HostClaim{}, client.InNamespace("team-b")))).To(Succeed())
		Eventually(func() []string { return u.left(ctx) }).Should(BeEmpty())
		Expect(u.wrong()).To(BeEmpty())
	}, SpecTimeout(10*time.Minute))
})

// upheaval has a world change at random.
type upheaval struct {
	w      *world
	random *rand.Rand
	stop   [2]func()

	mu sync.Mutex
	// claims are the hosts of claims, by UID, as the API server has told of them one after the other.
	claims map[types.UID]string
	hosts  map[string]types.UID
	count  int
	errs   []string
	faults *rand.Rand
}

func newUpheaval(ctx context.Context) *upheaval {
	GinkgoHelper()
	seed := uint64(GinkgoRandomSeed())
	u := &upheaval{
		w: newWorld(ctx, "hostclaim-upheaval"), claims: map[types.UID]string{}, hosts: map[string]types.UID{},
		random: rand.New(rand.NewPCG(seed, 1)), faults: rand.New(rand.NewPCG(seed, 2)),
	}
	for _, name := range []string{"infra", "team-a", "team-b"} {
		u.w.namespace(ctx, name)
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		u.w.create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}, StringData: map[string]string{"value": namespace},
		})
	}
	u.watch(ctx)
	u.w.operate()
	u.w.through = func(next http.RoundTripper) http.RoundTripper { return late{next, seed} }
	for i := range u.stop {
		u.stop[i] = u.w.start(ctx)
	}
	for i := range 3 {
		u.host(ctx, fmt.Sprint("h", i))
	}
	return u
}

// late has what a watch tells come late.
type late struct {
	http.RoundTripper

	seed uint64
}

// RoundTrip implements http.RoundTripper.
func (l late) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") == "true" {
		random := rand.New(rand.NewPCG(l.seed, uint64(len(request.URL.Path))))
		response.Body = lateBody{response.Body, random}
	}
	return response, err
}

type lateBody struct {
	io.ReadCloser

	random *rand.Rand
}

// Read implements io.Reader.
func (b lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	time.Sleep(time.Duration(b.random.IntN(150)) * time.Millisecond) //nolint:forbidigo // that is the fault
	return n, err
}

var errRandom = errors.New("a fault")

// fault has one write of ten fail, half of them although they were carried out.
func (u *upheaval) fault(string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.faults.IntN(20) == 0 {
		return errRandom
	}
	return nil
}

func (u *upheaval) pick(from ...string) string { return from[u.random.IntN(len(from))] }

// act does one thing at random. What does not exist, or has changed meanwhile, stays as it is.
func (u *upheaval) act(ctx context.Context) {
	GinkgoHelper()
	time.Sleep(time.Duration(u.random.IntN(60)) * time.Millisecond) //nolint:forbidigo // people are not that fast
	namespace, name, host := u.pick("team-a", "team-b"), u.pick("c1", "c2", "c3"), u.pick("h0", "h1", "h2", "h3")
	switch u.pick("claim", "claim", "claim", "spec", "spec", "delete", "forge", "host", "delete host", "label", "open", "policy", "restart") {
	case "claim":
		err := u.w.tryClaim(ctx, namespace, name, u.pick("online: false\n", u.runs())+only("infra"))
		Expect(err == nil || apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
	case "spec":
		u.patch(ctx, claimOf(namespace, name), u.pick(
			`{"spec":{"image":{"url":"https://other","checksum":"x"},"online":true}}`, `{"spec":{"image":null}}`,
			`{"spec":{"online":false}}`, `{"spec":{"userData":null}}`, `{"metadata":{"annotations":{"reboot.metal3.io/hold":""}}}`,
		))
	case "delete":
		Expect(client.IgnoreNotFound(u.w.admin.Delete(ctx, claimOf(namespace, name)))).To(Succeed())
	case "forge":
		u.patch(ctx, claimOf(namespace, name), `{"metadata":{"labels":{"hostclaims.metal3.io/host":"infra.`+host+`"},`+
			`"annotations":{"hostclaims.metal3.io/parked":"infra/`+host+`"}}}`)
	case "host":
		u.host(ctx, host)
	case "delete host":
		Expect(client.IgnoreNotFound(u.w.admin.Delete(ctx, hostOf(host)))).To(Succeed())
	case "label":
		u.patch(ctx, hostOf(host), `{"metadata":{"labels":{"infra-kind":"`+u.pick("medium", "medium", "large")+`"}}}`)
	case "open":
		u.patch(ctx, hostOf(host), `{"metadata":{"annotations":{"hostclaims.metal3.io/namespaces":"`+u.pick("*", "*", "team-a", "team-b")+`"}}}`)
	case "policy":
		u.policy(ctx)
	case "restart":
		u.restart(ctx, u.random.IntN(2))
	}
}

func (u *upheaval) runs() string { return "online: true\nuserData: {name: data}\n" + image }

func (u *upheaval) policy(ctx context.Context) {
	GinkgoHelper()
	policy := &metal3v1.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "p"}}
	if u.pick("put", "remove", "remove") == "remove" {
		Expect(client.IgnoreNotFound(u.w.admin.Delete(ctx, policy))).To(Succeed())
		return
	}
	Expect(yaml.Unmarshal([]byte("hostClaimNamespaces: {names: ["+u.pick("team-a", "team-b", "team-a, team-b")+"]}"), &policy.Spec)).To(Succeed())
	if err := u.w.admin.Create(ctx, policy); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// host creates a host as an administrator does. The stand-in makes it available.
func (u *upheaval) host(ctx context.Context, name string) {
	GinkgoHelper()
	host := hostOf(name)
	host.Labels = map[string]string{"infra-kind": "medium"}
	host.Annotations = map[string]string{metal3v1.NamespacesKey: "*"}
	host.Spec = bmov1.BareMetalHostSpec{
		BMC: bmov1.BMCDetails{Address: "redfish://bmc.example/" + name, CredentialsName: name}, Online: true,
	}
	if err := u.w.admin.Create(ctx, host); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

func (u *upheaval) patch(ctx context.Context, object client.Object, patch string) {
	GinkgoHelper()
	err := u.w.admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
	Expect(client.IgnoreNotFound(err)).To(Succeed())
}

// restart has a new controller take the place of one.
func (u *upheaval) restart(ctx context.Context, n int) {
	GinkgoHelper()
	u.stop[n]()
	u.stop[n] = u.w.start(ctx)
}

func claimOf(namespace, name string) *metal3v1.HostClaim {
	return &metal3v1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func hostOf(name string) *bmov1.BareMetalHost {
	return &bmov1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name}}
}

// watch follows whose the hosts are, without a cache.
func (u *upheaval) watch(ctx context.Context) {
	GinkgoHelper()
	with, err := client.NewWithWatch(u.w.plane.Config, client.Options{Scheme: u.w.scheme})
	Expect(err).NotTo(HaveOccurred())
	hosts, err := with.Watch(context.WithoutCancel(ctx), &bmov1.BareMetalHostList{}, client.InNamespace("infra"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(hosts.Stop)
	go func() {
		for event := range hosts.ResultChan() {
			if host, ok := event.Object.(*bmov1.BareMetalHost); ok {
				u.see(host, event.Type == "DELETED")
			}
		}
	}()
}

// see is told of each state of each host, in the order in which they were.
func (u *upheaval) see(host *bmov1.BareMetalHost, gone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	was, is := u.hosts[host.Name], types.UID("")
	if ref := host.Spec.ConsumerRef; ref != nil && !gone {
		is = ref.UID
	}
	if was == is {
		return
	}
	if was != "" {
		delete(u.claims, was)
		if is != "" {
			u.errs = append(u.errs, fmt.Sprintf("host %s went from claim %s to claim %s", host.Name, was, is))
		} else if state := host.Status.Provisioning.State; !gone && (host.Spec.Image != nil || state != bmov1.StateAvailable && host.WasProvisioned()) {
			u.errs = append(u.errs, fmt.Sprintf("host %s was given away in state %s", host.Name, state))
		}
	}
	if is != "" {
		if other := u.claims[is]; other != "" {
			u.errs = append(u.errs, fmt.Sprintf("claim %s has hosts %s and %s", is, other, host.Name))
		}
		u.claims[is] = host.Name
		u.count++
	}
	u.hosts[host.Name] = is
}

func (u *upheaval) wrong() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.errs
}

func (u *upheaval) bindings() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

// unsettled says what is not as it is in the end: claims that know no host and could have one, claims and hosts that do
// not agree, and what is asked for and not there.
func (u *upheaval) unsettled(ctx context.Context) []string {
	GinkgoHelper()
	claims, hosts := &metal3v1.HostClaimList{}, &bmov1.BareMetalHostList{}
	Expect(u.w.admin.List(ctx, claims)).To(Succeed())
	Expect(u.w.admin.List(ctx, hosts)).To(Succeed())
	of := map[types.UID]string{}
	var odd []string
	for _, host := range hosts.Items {
		if host.DeletionTimestamp != nil {
			odd = append(odd, "host "+host.Name+" is being deleted")
		}
		if ref := host.Spec.ConsumerRef; ref != nil {
			of[ref.UID] = host.Name
		}
	}
	for _, claim := range claims.Items {
		name := claim.Namespace + "/" + claim.Name
		is := meta.FindStatusCondition(claim.Status.Conditions, "Associated")
		switch known := claim.Status.BareMetalHost; {
		case claim.DeletionTimestamp != nil, is == nil, claim.Status.PendingHost != nil:
			odd = append(odd, "claim "+name+" is on its way")
		case (known == nil) != (of[claim.UID] == ""), known != nil && known.Name != of[claim.UID]:
			odd = append(odd, fmt.Sprintf("claim %s knows %v and has %q", name, known, of[claim.UID]))
		case known == nil && claim.Labels[metal3v1.HostLabel] != "":
			odd = append(odd, "claim "+name+" names a host that it does not have")
		case known != nil && claim.Spec.Image != nil && *claim.Spec.Online && !claim.Status.Ready:
			odd = append(odd, fmt.Sprintf("claim %s is not ready: %+v", name, claim.Status.Conditions))
		}
		delete(of, claim.UID)
	}
	for _, host := range of {
		odd = append(odd, "host "+host+" has a claim that is gone")
	}
	return odd
}

// left says what is left of claims.
func (u *upheaval) left(ctx context.Context) []string {
	GinkgoHelper()
	odd := u.unsettled(ctx)
	claims, hosts, secrets := &metal3v1.HostClaimList{}, &bmov1.BareMetalHostList{}, &corev1.SecretList{}
	Expect(u.w.admin.List(ctx, claims)).To(Succeed())
	Expect(u.w.admin.List(ctx, hosts)).To(Succeed())
	Expect(u.w.admin.List(ctx, secrets, client.InNamespace("infra"))).To(Succeed())
	for _, claim := range claims.Items {
		odd = append(odd, "claim "+claim.Name)
	}
	for _, host := range hosts.Items {
		if host.Spec.ConsumerRef != nil || host.Spec.Image != nil || strings.Contains(fmt.Sprint(host.Annotations), "saved") {
			odd = append(odd, "host "+host.Name)
		}
	}
	for _, secret := range secrets.Items {
		// Nobody collects garbage here: what belongs to a host that is gone stays.
		if strings.Contains(secret.Name, "-hc-") && exists(hosts, secret.OwnerReferences) {
			odd = append(odd, "Secret "+secret.Name)
		}
	}
	return odd
}

func exists(hosts *bmov1.BareMetalHostList, owners []metav1.OwnerReference) bool {
	for _, host := range hosts.Items {
		for _, owner := range owners {
			if owner.UID == host.UID {
				return true
			}
		}
	}
	return false
}
