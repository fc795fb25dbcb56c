package main

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/test/env"
)

// Names of the story of OCI identities.
const (
	vaultNamespace = "oci-keys"
	sharedName     = "platform"
	sharedIn       = "oci-identities"
)

// runIdentity tells how one of two tenants may use an OCI identity, and the other one may not.
func runIdentity(ctx context.Context, p *printer, _ bool) error {
	p.heading("Archelon demo: two tenants on OCI, and an identity that is for one of them")
	return tell(ctx, p, importIntro, func(w *world) (told bool, err error) {
		if w.crds, err = env.CAPOCICRDs(); err != nil { //nolint:contextcheck // it reads files of a module
			return false, err
		}
		w.provider = infrav1.OCIClusterKind
		if err := w.start(ctx, p); err != nil {
			return false, err
		}
		w.stage.Values = map[string]any{"identity": map[string]any{
			"secretNamespaces": []any{vaultNamespace}, "trustedNamespaces": []any{sharedIn},
		}}
		orders, payments := subjects()[0], subjects()[1]
		for _, scene := range []func() error{
			func() error { return w.shareIdentity(ctx, p, orders) },
			func() error { return w.importOne(ctx, p, orders, payments) },
			func() error { return w.allowOther(ctx, p, orders, payments) },
			func() error { return w.deleteBoth(ctx, p, orders, payments) },
		} {
			if err := scene(); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

// shareIdentity creates an identity for the tenant of a cluster, as an administrator does.
func (w *world) shareIdentity(ctx context.Context, p *printer, tenant subject) error {
	p.heading("The identity")
	data, err := apiKey()
	if err != nil {
		return err
	}
	identity := &identityv1.OCIClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Namespace: sharedIn, Name: sharedName},
		Spec: identityv1.OCIClusterIdentitySpec{
			Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: vaultNamespace, Name: sharedName},
			AllowedNamespaces: &identityv1.AllowedNamespaces{NamespaceList: []string{tenant.namespace}},
		},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vaultNamespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sharedIn}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vaultNamespace, Name: sharedName}, Data: data}, identity,
	} {
		if err := w.stage.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	p.say("An administrator has an API key of OCI in Secret %s/%s, and OCIClusterIdentity %s/%s names it. It is for clusters of namespace %s.",
		vaultNamespace, sharedName, sharedIn, sharedName, tenant.namespace)
	p.write("\n")
	if err := p.task("Starting the manager with feature oci-cluster-identity", func() error {
		return w.startManager(ctx, "--feature-gates=oci-cluster-identity=true", "--sync-period=1h")
	}); err != nil {
		return err
	}
	return w.showIdentity(ctx, p, identityv1.ReadyCondition, "True Ready")
}

// importOne imports the cluster of the tenant that may use the identity, and shows that the other one waits.
func (w *world) importOne(ctx context.Context, p *printer, allowed, refused subject) error {
	p.heading("Two clusters that name it")
	p.say("%s in namespace %s, and %s in namespace %s, each with an OCICluster that names the identity.",
		allowed.name, allowed.namespace, refused.name, refused.namespace)
	began := time.Now()
	for _, s := range []subject{allowed, refused} {
		p.command("kubectl apply -f %s", s.example)
		if err := w.create(ctx, s); err != nil {
			return err
		}
		oci := &infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Spec: infrav1.ClusterSpec{IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: identityv1.OCIClusterIdentityKind, Namespace: sharedIn, Name: sharedName,
			}},
		}
		if err := w.stage.Client.Create(ctx, oci); err != nil {
			return fmt.Errorf("creating the OCICluster of %s: %w", s.name, err)
		}
	}
	is := func(v view) bool {
		c := condition(v)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == identityv1.NamespaceNotAllowedReason && v.record == nil
	}
	tracks := []*track{
		{subject: allowed, steps: append(newClusterSteps(), importSteps(kindV1)...)},
		{subject: refused, steps: append(newClusterSteps(), step{"the refusal", is, constant("RancherImported=False (NamespaceNotAllowed), and no Rancher cluster")})},
	}
	if err := w.follow(ctx, p, began, tracks...); err != nil {
		return err
	}
	p.say("What the tenant of %s sees:", refused.name)
	p.describe(tracks[1])
	return w.showIdentity(ctx, p, identityv1.InUseCondition, "Refused: OCICluster "+refused.namespace+"/"+refused.name)
}

// allowOther has the identity be for the other tenant as well.
func (w *world) allowOther(ctx context.Context, p *printer, both ...subject) error {
	p.heading("The other tenant is allowed")
	names := make([]string, len(both))
	for i, s := range both {
		names[i] = fmt.Sprintf("%q", s.namespace)
	}
	patch := fmt.Sprintf(`{"spec":{"allowedNamespaces":{"list":[%s]}}}`, strings.Join(names, ","))
	p.command("kubectl patch ociclusteridentity -n %s %s --type=merge -p '%s'", sharedIn, sharedName, patch)
	began := time.Now()
	identity := &identityv1.OCIClusterIdentity{ObjectMeta: metav1.ObjectMeta{Namespace: sharedIn, Name: sharedName}}
	if err := w.stage.Client.Patch(ctx, identity, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("allowing the other tenant: %w", err)
	}
	if err := w.follow(ctx, p, began, &track{subject: both[1], steps: importSteps(kindV1)}); err != nil {
		return err
	}
	return w.showIdentity(ctx, p, identityv1.InUseCondition, "True Used: Used by OCICluster "+both[0].namespace)
}

// showIdentity waits until a condition of the identity says something, and shows it.
func (w *world) showIdentity(ctx context.Context, p *printer, conditionType, want string) error {
	found, says := &identityv1.OCIClusterIdentity{}, ""
	err := wait.PollUntilContextTimeout(ctx, readyCheck, patience, true, func(ctx context.Context) (bool, error) {
		if err := w.stage.Client.Get(ctx, types.NamespacedName{Namespace: sharedIn, Name: sharedName}, found); err != nil {
			return false, err
		}
		if c := found.Condition(conditionType); c != nil {
			says = strings.TrimSuffix(fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), ": ")
		}
		return strings.Contains(says, want), w.alive()
	})
	if err != nil {
		return fmt.Errorf("waiting for the identity to say %q, it says %q: %w", want, says, err)
	}
	p.say("The identity says of itself:")
	p.lines(conditionType + "=" + says)
	return nil
}

// apiKey returns what a principal Secret holds, with a key that OCI does not know.
func apiKey() (map[string][]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	sum := md5.Sum(der)
	fingerprint := strings.ReplaceAll(fmt.Sprintf("% x", sum), " ", ":")
	return map[string][]byte{
		"tenancy": []byte("ocid1.tenancy.oc1..example"), "user": []byte("ocid1.user.oc1..example"), "fingerprint": []byte(fingerprint),
		"key": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}, nil
}
