package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3v1 "github.com/archelon-io/archelon/api/metal3/v1alpha1"
	"github.com/archelon-io/archelon/internal/hostclaim"
	"github.com/archelon-io/archelon/test/env"
)

// tenant is a user with claims.
type tenant struct{ namespace, claim string }

func blue() tenant  { return tenant{"team-blue", "web"} }
func green() tenant { return tenant{"team-green", "db"} }

// management is the name of our cluster, and of its administrator's kubeconfig.
const management = "management"

// farClaim is the claim of the other cluster's server.
const farClaim = "far"

// policyYAML is a policy of the infrastructure manager.
func policyYAML(namespaces ...string) string {
	return `apiVersion: metal3.io/v1alpha1
kind: HostDeployPolicy
metadata: {name: tenants, namespace: ` + serversIn + `}
spec:
  hostClaimNamespaces:
    names: [` + strings.Join(namespaces, ", ") + "]\n"
}

// claimYAML is what a tenant asks for, with a user data of its own. What is further is part of the spec.
func (t tenant) claimYAML(name, further string) string {
	return `apiVersion: metal3.io/v1alpha1
kind: HostClaim
metadata: {name: ` + name + `}
spec:
  hostSelector:
    matchLabels: {size: medium}
  online: true
  image: {url: "http://images.example/` + name + `.qcow2", checksum: "http://images.example/` + name + `.md5"}
  userData: {name: user-data}
` + further
}

func (t tenant) userData() string { return "#cloud-config of " + t.namespace }

// runHostClaim tells how tenants get servers that are somebody else's.
func runHostClaim(ctx context.Context, p *printer, _ bool) error {
	p.heading("Archelon demo: two tenants claim servers, one of them also in another cluster")
	err := tell(ctx, p, "Everything below is real except the servers: two API servers, RBAC, admission, a manager in each cluster, kubectl. "+
		"A stand-in plays Metal3's baremetal-operator and its servers, in seconds instead of minutes.", func(w *world) (told bool, err error) {
		if w.crds, err = env.HostClaimCRDs(ctx); err != nil {
			return false, err
		}
		w.everywhere, w.clusters = true, []subject{{name: datacenter}}
		s := &servers{world: w}
		defer func() { err = errors.Join(err, s.stop()) }()
		if err := s.start(ctx, p); err != nil {
			return false, err
		}
		for _, scene := range []func(context.Context, *printer) error{
			s.open, s.ask, s.allow, s.recycle, s.reachFar, s.give,
		} {
			if err := scene(ctx, p); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err == nil {
		p.say("Two tenants had servers, one after the other and in two clusters, and neither saw more than its own claims.")
	}
	return err
}

// open shows the servers, and who may have them.
func (s *servers) open(ctx context.Context, p *printer) error {
	p.heading("The infrastructure manager opens servers to tenants")
	for _, t := range []tenant{blue(), green()} {
		raw, err := s.here.admit(ctx, t.namespace, tenantRole)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.kubeconfig(t.namespace), raw, 0o600); err != nil {
			return fmt.Errorf("writing a kubeconfig: %w", err)
		}
		data := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "user-data"}, Data: map[string][]byte{"value": []byte(t.userData())},
		}
		if err := s.here.Client.Create(ctx, data); err != nil {
			return fmt.Errorf("creating the user data of %s: %w", t.namespace, err)
		}
	}
	for _, at := range []*site{s.here, s.there} {
		if err := at.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: serversIn}}); err != nil {
			return fmt.Errorf("creating the namespace of servers: %w", err)
		}
	}
	p.say("There is one server here. Nobody may have it unless the infrastructure manager says so: by a policy for all servers of a namespace, "+
		"or by a label or an annotation of one. This policy is for claims of namespace %s:", blue().namespace)
	if err := s.apply(ctx, p, management, policyYAML(blue().namespace)); err != nil {
		return err
	}
	began := time.Now()
	if err := s.here.addServer(ctx, "server-1", nil); err != nil {
		return err
	}
	return s.witness(ctx, p, began, s.available(s.here, "server-1"))
}

// ask has a tenant claim a server that it may not have.
func (s *servers) ask(ctx context.Context, p *printer) error {
	p.heading("A tenant asks, and is refused")
	p.say("%s claims a server of size medium, with an image and user data from a Secret of its own:", green().namespace)
	began := time.Now()
	if err := s.apply(ctx, p, green().namespace, green().claimYAML(green().claim, "")); err != nil {
		return err
	}
	if err := s.witness(ctx, p, began, s.says(green(), metal3v1.NoBareMetalHostReason)); err != nil {
		return err
	}
	refused, err := s.here.claim(ctx, green().namespace, green().claim)
	if err != nil {
		return err
	}
	p.say("What the claim says: %s.", hostclaim.ConditionOf(refused, metal3v1.AssociatedCondition).Message)
	p.say("The tenant cannot look for itself. It sees its own claims, and no server:")
	p.command("kubectl get baremetalhosts -A")
	refusal, err := s.kubectl(ctx, green().namespace, "", "get", "baremetalhosts", "-A")
	if err == nil || !strings.Contains(refusal[0], "Forbidden") {
		return fmt.Errorf("a tenant may list servers: %q", refusal)
	}
	p.write(wrap(refusal[0], "    ") + "\n")
	return nil
}

// allow has the policy be for both.
func (s *servers) allow(ctx context.Context, p *printer) error {
	p.heading("It is allowed, and gets the server")
	p.say("The infrastructure manager changes the policy. Nobody has to ask again: the claim learns of it by itself.")
	began := time.Now()
	if err := s.apply(ctx, p, management, policyYAML(blue().namespace, green().namespace)); err != nil {
		return err
	}
	if err := s.witness(ctx, p, began, s.has(green()), s.booted(s.here, "server-1", green()), s.ready(green(), green().claim)); err != nil {
		return err
	}
	p.say("%s asks for the same. There is no other server, so its claim waits:", blue().namespace)
	began = time.Now()
	if err := s.apply(ctx, nil, blue().namespace, blue().claimYAML(blue().claim, "")); err != nil {
		return err
	}
	p.command("kubectl apply -n %s -f %s.yaml", blue().namespace, blue().claim)
	if err := s.witness(ctx, p, began, s.says(blue(), metal3v1.NoBareMetalHostReason)); err != nil {
		return err
	}
	for _, t := range []tenant{green(), blue()} {
		if err := s.show(ctx, p, t.namespace, "get", "hostclaims", "-n", t.namespace); err != nil {
			return err
		}
	}
	return nil
}

// recycle has the server go from one tenant to the other.
func (s *servers) recycle(ctx context.Context, p *printer) error {
	p.heading("The server is recycled")
	p.say("%s deletes its claim. The server is cleaned, and then the claim that waits gets it:", green().namespace)
	began := time.Now()
	if err := s.show(ctx, p, green().namespace, "delete", "hostclaim", "-n", green().namespace, green().claim); err != nil {
		return err
	}
	if err := s.witness(ctx, p, began,
		s.gone(green(), green().claim), s.has(blue()), s.booted(s.here, "server-1", green(), blue()), s.ready(blue(), blue().claim),
	); err != nil {
		return err
	}
	copies := &corev1.SecretList{}
	if err := s.here.Client.List(ctx, copies, client.InNamespace(serversIn)); err != nil {
		return fmt.Errorf("listing what is beside the server: %w", err)
	}
	for _, secret := range copies.Items {
		if strings.Contains(string(secret.Data["value"]), green().namespace) {
			return fmt.Errorf("there is still Secret %s of %s beside the server", secret.Name, green().namespace)
		}
	}
	p.say("Nothing of %s is left beside the server.", green().namespace)
	return nil
}

// reachFar has a tenant claim a server of the other cluster.
func (s *servers) reachFar(ctx context.Context, p *printer) error {
	p.heading("A server of another cluster")
	p.say("Cluster %s has a server, too. Its annotation opens it to claims of namespace %s there, which is for our tenant %s: a "+
		"kubeconfig with few permissions leads to it. The tenant keeps that in a Secret, and claims as before, with kind remote:",
		datacenter, visitors, green().namespace)
	kubeconfig, err := s.there.admit(ctx, visitors, visitorRole)
	if err != nil {
		return err
	}
	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: green().namespace, Name: datacenter}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	if err := s.here.Client.Create(ctx, credentials); err != nil {
		return fmt.Errorf("creating the Secret with the kubeconfig: %w", err)
	}
	began := time.Now()
	if err := s.there.addServer(ctx, "server-9", map[string]string{metal3v1.NamespacesKey: visitors}); err != nil {
		return err
	}
	if err := s.witness(ctx, p, began, s.available(s.there, "server-9")); err != nil {
		return err
	}
	began = time.Now()
	further := "  kind: remote\n  credentials: " + datacenter + "\n  args: {real-kind: baremetal}\n"
	if err := s.apply(ctx, p, green().namespace, green().claimYAML(farClaim, further)); err != nil {
		return err
	}
	if err := s.witness(ctx, p, began,
		moment{farClaim, "RemoteSynced=True: a claim in the other cluster stands for it", s.condition(green(), farClaim, metal3v1.RemoteSyncedCondition)},
		s.booted(s.there, "server-9", green()), s.ready(green(), farClaim),
	); err != nil {
		return err
	}
	if err := s.show(ctx, p, green().namespace, "get", "hostclaims", "-n", green().namespace); err != nil {
		return err
	}
	p.say("And in cluster %s:", datacenter)
	return s.show(ctx, p, datacenter, "get", "hostclaims", "-n", visitors, "-o", "name")
}

// give has all servers given back.
func (s *servers) give(ctx context.Context, p *printer) error {
	p.heading("All servers are given back")
	began := time.Now()
	for _, t := range []tenant{blue(), green()} {
		if err := s.show(ctx, p, t.namespace, "delete", "hostclaims", "-n", t.namespace, "--all", "--wait=false"); err != nil {
			return err
		}
	}
	if err := s.witness(ctx, p, began,
		s.gone(blue(), blue().claim), s.gone(green(), farClaim), s.available(s.here, "server-1"), s.available(s.there, "server-9"),
	); err != nil {
		return err
	}
	p.write("\n")
	return p.task("Checking that nothing of the claims is left in either cluster", func() error {
		var left []string
		var failed error
		err := s.until(ctx, func() bool {
			here, err1 := s.here.left(ctx)
			there, err2 := s.there.left(ctx)
			left, failed = slices.Concat(here, there), errors.Join(err1, err2)
			return failed == nil && len(left) == 0
		})
		if err != nil {
			return fmt.Errorf("still there: %s: %w", strings.Join(left, ", "), errors.Join(err, failed))
		}
		return nil
	})
}

// apply applies YAML as somebody, and prints it if there is a printer.
func (s *servers) apply(ctx context.Context, p *printer, as, text string) error {
	if p != nil {
		p.command("kubectl apply -f - <<EOF")
		p.lines(append(strings.Split(strings.TrimRight(text, "\n"), "\n"), "EOF")...)
	}
	_, err := s.kubectl(ctx, as, text, "apply", "-f", "-")
	return err
}

// show runs kubectl as somebody, and prints what it says.
func (s *servers) show(ctx context.Context, p *printer, as string, args ...string) error {
	p.command("kubectl %s", strings.Join(args, " "))
	out, err := s.kubectl(ctx, as, "", args...)
	if err == nil {
		p.lines(out...)
	}
	return err
}
