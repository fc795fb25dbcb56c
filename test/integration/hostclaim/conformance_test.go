package hostclaim_test

import (
	"context"

	bmov1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim/baremetal"
	"github.com/archelon-io/archelon/internal/hostclaim/remote"
	"github.com/archelon-io/archelon/test/conformance"
)

// The controllers of three kinds run beside each other in one cluster, one of them not of this program.
var _ = Describe("Conformance", Ordered, ContinueOnFailure, func() {
	const remoteAccount = "archelon-remote"
	var here, there *world
	var bareMetal, far, pretend *conformance.Kind

	BeforeAll(func(ctx SpecContext) {
		here, there = newWorld(ctx, "conformance-here"), newWorld(ctx, "conformance-there")
		here.grant(ctx, remoteAccount, "hostclaim-remote")
		here.grantPretend(ctx)
		for _, w := range []*world{here, there} {
			w.namespace(ctx, "infra")
			w.operate()
		}
		there.start(ctx)
		kind := func(namespace, account string, names []string, start func(context.Context) func()) *conformance.Kind {
			GinkgoHelper()
			stop := start(ctx)
			return &conformance.Kind{
				Names: names, User: "system:serviceaccount:" + system + ":" + account, Plane: here.plane, Admin: here.admin, Namespace: namespace,
				Restart: func(ctx context.Context) {
					stop()
					stop = start(ctx)
				},
			}
		}
		here.namespace(ctx, "team-bare")
		bareMetal = kind("team-bare", account, baremetal.Kinds(), func(ctx context.Context) func() {
			return here.run(ctx, account, baremetal.Controller("host-claim", nil),
				func(running context.Context, _ *rest.Config, mgr ctrl.Manager, own cache.Cache) error {
					return here.addBareMetal(running, mgr, own)
				})
		})
		bareMetal.Others = []string{metal3v1.KindRemote, pretendKind}
		describeBareMetal(bareMetal, here)

		t := newTenant(ctx, here, there, "far")
		far = kind(t.namespace, remoteAccount, remote.Kinds(), func(ctx context.Context) func() { return here.startRemoteAs(ctx, remoteAccount) })
		far.Others = []string{metal3v1.KindBareMetal, pretendKind}
		describeRemote(far, t)

		here.namespace(ctx, "team-pretend")
		pretend = kind("team-pretend", pretendKind, []string{pretendKind}, here.startPretend)
		pretend.Others = []string{metal3v1.KindBareMetal, metal3v1.KindRemote}
		describePretend(pretend)
	})

	conformance.Specs("baremetal", func() *conformance.Kind { return bareMetal })
	conformance.Specs("remote", func() *conformance.Kind { return far })
	conformance.Specs("pretend, which is not of this program", func() *conformance.Kind { return pretend })
})

// hosted returns a spec for a new host, which is for this claim alone.
func (w *world) hosted(ctx context.Context, name string) metal3v1.HostClaimSpec {
	GinkgoHelper()
	w.host(ctx, "infra", name, func(h *bmov1.BareMetalHost) { h.Labels["only"] = name })
	return metal3v1.HostClaimSpec{
		HostSelector: metal3v1.HostSelector{MatchLabels: map[string]string{"only": name}}, Image: &metal3v1.Image{URL: "http://x", Checksum: "y"},
		UserData: userData("data"),
	}
}

// withSelector and withoutData make specs wrong.
func withSelector(spec *metal3v1.HostClaimSpec) {
	spec.HostSelector.MatchExpressions = []metal3v1.HostSelectorRequirement{{Key: "only", Operator: "Resembles", Values: []string{"x"}}}
}

func withoutData(spec *metal3v1.HostClaimSpec) { spec.UserData = userData("none") }

func describeBareMetal(k *conformance.Kind, w *world) {
	k.Spec = func(ctx context.Context, name string) metal3v1.HostClaimSpec { return w.hosted(ctx, name) }
	data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "data"}, Data: map[string][]byte{"value": []byte("x")}}
	Expect(w.admin.Create(context.Background(), data)).To(Succeed())
	k.Wrong = map[string]func(*metal3v1.HostClaimSpec){
		metal3v1.SelectorInvalidReason: withSelector, metal3v1.UserDataSecretSyncFailureReason: withoutData,
	}
	k.Effects = func(ctx context.Context, name string) []string {
		GinkgoHelper()
		var effects []string
		hosts, secrets := &bmov1.BareMetalHostList{}, &corev1.SecretList{}
		Expect(w.admin.List(ctx, hosts)).To(Succeed())
		for _, host := range hosts.Items {
			if is := host.Spec.ConsumerRef; is != nil && is.Namespace == k.Namespace && is.Name == name {
				effects = append(effects, "consumer of "+host.Name)
			}
		}
		Expect(w.admin.List(ctx, secrets, client.InNamespace("infra"))).To(Succeed())
		for _, secret := range secrets.Items {
			if secret.Name == name+"-hc-userdata" { // Its host has the name of a claim.
				effects = append(effects, "copy "+secret.Name)
			}
		}
		return effects
	}
}

func describeRemote(k *conformance.Kind, t *tenant) {
	k.Spec = func(ctx context.Context, name string) metal3v1.HostClaimSpec {
		GinkgoHelper()
		spec := t.there.hosted(ctx, name)
		spec.Credentials, spec.Args = "remote", map[string]metal3v1.Argument{metal3v1.RealKindArg: metal3v1.KindBareMetal}
		return spec
	}
	t.secret(context.Background(), "data", map[string][]byte{"value": []byte("x")})
	k.Wrong = map[string]func(*metal3v1.HostClaimSpec){
		metal3v1.ConfigurationInvalidReason:      func(spec *metal3v1.HostClaimSpec) { spec.Args = nil },
		metal3v1.CredentialsMissingReason:        func(spec *metal3v1.HostClaimSpec) { spec.Credentials = "none" },
		metal3v1.SelectorInvalidReason:           withSelector,
		metal3v1.UserDataSecretSyncFailureReason: withoutData,
	}
	k.Effects = func(ctx context.Context, name string) []string {
		GinkgoHelper()
		var effects []string
		for _, target := range t.targets(ctx, name) {
			effects = append(effects, "target "+target.Name+" "+target.ResourceVersion)
			secrets := &corev1.SecretList{}
			origin := client.MatchingLabels{metal3v1.OriginLabel: target.Labels[metal3v1.OriginLabel]}
			Expect(t.there.admin.List(ctx, secrets, client.InNamespace(t.user), origin)).To(Succeed())
			for _, secret := range secrets.Items {
				effects = append(effects, "copy "+secret.Name)
			}
		}
		return effects
	}
}

func describePretend(k *conformance.Kind) {
	k.Spec = func(context.Context, string) metal3v1.HostClaimSpec { return metal3v1.HostClaimSpec{} }
	k.Wrong = map[string]func(*metal3v1.HostClaimSpec){
		metal3v1.ConfigurationInvalidReason: func(spec *metal3v1.HostClaimSpec) { spec.Args = map[string]metal3v1.Argument{"size": "huge"} },
	}
	k.Effects = func(ctx context.Context, name string) []string {
		host := &corev1.ConfigMap{}
		if k.Admin.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: "host-of-" + name}, host) != nil {
			return nil
		}
		return []string{host.Name}
	}
}
