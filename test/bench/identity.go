package main

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/archelon-io/archelon/api/infrastructure/v1beta2"
	oci "github.com/archelon-io/archelon/identity"
	identityv1 "github.com/archelon-io/archelon/identity/api/v1beta2"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/test/env"
)

// How much there is of OCI.
const (
	identitiesOf, tenantsOf, ociClusters = 50, 200, 1000
	identityTimeout                      = 5 * time.Minute
	keysIn                               = "oci-keys"
)

// identities measures what the controller of OCI identities asks of an API server: at its start, for
// decisions at rest, and for a label.
func identities(ctx context.Context, out, progress io.Writer) (err error) {
	crds, err := env.CAPOCICRDs()
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(progress, "Starting a management cluster")
	plane, err := env.Start(ctx, env.Options{Name: "identity", CRDs: crds})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	o, err := newOCI(plane.Config)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(progress, "Creating %d identities, %d namespaces and %d clusters\n", identitiesOf, tenantsOf, ociClusters)
	if err := o.fill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	rows, err := o.measure(ctx)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nOCI identities: %d clusters of %d namespaces with %d identities\n", ociClusters, tenantsOf, identitiesOf)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "what\ttime\tidentities evaluated\tGET\tLIST\tPATCH")
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\n", row.what, row.took.Round(time.Microsecond), row.evaluated, row.requests.get, row.requests.list, row.requests.patch)
	}
	_ = w.Flush()
	return o.check(rows)
}

// ociWorld is a management cluster with clusters on OCI, and how much is asked of it.
type ociWorld struct {
	counter

	config *rest.Config
	admin  client.Client
}

type measured struct {
	what      string
	took      time.Duration
	evaluated int64
	requests  asked
}

func newOCI(config *rest.Config) (*ociWorld, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	o := &ociWorld{config: rest.CopyConfig(config)}
	o.config.QPS = -1
	if o.admin, err = client.New(o.config, client.Options{Scheme: known}); err != nil {
		return nil, err
	}
	o.config = rest.CopyConfig(o.config)
	o.config.Wrap(o.counting)
	return o, nil
}

// fill creates identities that select namespaces by a label, and clusters that name them.
func (o *ociWorld) fill(ctx context.Context) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	sum := md5.Sum(der)
	data := map[string][]byte{
		"tenancy": []byte("ocid1.tenancy.oc1..bench"), "user": []byte("ocid1.user.oc1..bench"),
		"fingerprint": []byte(strings.ReplaceAll(fmt.Sprintf("% x", sum), " ", ":")),
		"key":         pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
	team := map[string]string{"team": "x"}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: keysIn}}}
	for i := range identitiesOf {
		meta := metav1.ObjectMeta{Namespace: keysIn, Name: fmt.Sprintf("id-%d", i)}
		objects = append(objects, &corev1.Secret{ObjectMeta: meta, Data: data}, &identityv1.OCIClusterIdentity{ObjectMeta: meta, Spec: identityv1.OCIClusterIdentitySpec{
			Type: identityv1.UserPrincipal, PrincipalSecret: corev1.SecretReference{Namespace: keysIn, Name: meta.Name},
			AllowedNamespaces: &identityv1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: team}},
		}})
	}
	for i := range tenantsOf {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tenant-%d", i), Labels: team}})
	}
	for i := range ociClusters {
		objects = append(objects, &infrav1.OCICluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("tenant-%d", i%tenantsOf), Name: fmt.Sprintf("c-%d", i)},
			Spec: infrav1.ClusterSpec{IdentityRef: &corev1.ObjectReference{
				APIVersion: identityv1.GroupVersion.String(), Kind: identityv1.OCIClusterIdentityKind, Namespace: keysIn, Name: fmt.Sprintf("id-%d", i%identitiesOf),
			}},
		})
	}
	for _, object := range objects {
		if err := o.admin.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// measure runs the controller as internal/setup wires it.
func (o *ociWorld) measure(ctx context.Context) ([]measured, error) {
	ctx, stop := context.WithCancel(ctx)
	scope := identity.Scope{Policy: oci.Policy{SecretNamespaces: []string{keysIn}, TrustedNamespaces: []string{keysIn}}}
	mgr, own, err := o.manager(scope)
	if err != nil {
		stop()
		return nil, err
	}
	resolver := &identity.Resolver{Cached: identity.Readers{Objects: mgr.GetCache(), Metadata: own}, Live: mgr.GetAPIReader(), Scope: scope}
	r := &identity.Reconciler{Client: mgr.GetClient(), Resolver: resolver, Recorder: mgr.GetEventRecorder(identity.ControllerName)}
	if err := r.SetupWithManager(ctx, mgr, identity.Options{Concurrency: 10, Metadata: own}); err != nil {
		stop()
		return nil, err
	}
	ended := make(chan error, 1)
	rows, err := o.stages(ctx, resolver, func() { go func() { ended <- mgr.Start(ctx) }() })
	stop()
	return rows, errors.Join(err, <-ended)
}

func (o *ociWorld) manager(scope identity.Scope) (ctrl.Manager, cache.Cache, error) {
	known, err := scheme.New()
	if err != nil {
		return nil, nil, err
	}
	shared, own := cache.Options{ByObject: map[client.Object]cache.ByObject{}}, cache.Options{ByObject: map[client.Object]cache.ByObject{}}
	for _, watch := range scope.Watches() {
		limits := shared
		if watch.Own {
			limits = own
		}
		limits.ByObject[watch.Object] = watch.By
	}
	mgr, err := ctrl.NewManager(o.config, ctrl.Options{Scheme: known, Cache: shared, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return nil, nil, err
	}
	own.Scheme, own.Mapper, own.HTTPClient = known, mgr.GetRESTMapper(), mgr.GetHTTPClient()
	metadata, err := cache.New(o.config, own)
	if err != nil {
		return nil, nil, err
	}
	return mgr, metadata, mgr.Add(metadata)
}

// stages has things happen, and counts what each costs.
func (o *ociWorld) stages(ctx context.Context, resolver *identity.Resolver, start func()) ([]measured, error) {
	clusters := &infrav1.OCIClusterList{}
	relabel := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"y"}}}`))
	var rows []measured
	for _, stage := range []struct {
		what string
		do   func() error
	}{
		{"start", func() error { start(); return nil }},
		{"1,000 decisions at rest", func() error {
			if err := resolver.Cached.Objects.List(ctx, clusters); err != nil {
				return err
			}
			for i := range clusters.Items {
				if verdict, err := resolver.Resolve(ctx, &clusters.Items[i]); err != nil || !verdict.Allowed {
					return fmt.Errorf("cluster %s: %s %w", clusters.Items[i].Name, verdict.Message, err)
				}
			}
			return nil
		}},
		{"10 s at rest", func() error { return pause(ctx, 10*time.Second) }},
		{"the label of one namespace", func() error {
			return o.admin.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-7"}}, relabel)
		}},
	} {
		before, evaluated, began := o.so(), reconciles(), time.Now()
		if err := stage.do(); err != nil {
			return rows, fmt.Errorf("%s: %w", stage.what, err)
		}
		took := time.Since(began)
		last, err := o.settle(ctx)
		if err != nil {
			return rows, err
		}
		if last.After(began.Add(took)) {
			took = last.Sub(began)
		}
		now := o.so()
		rows = append(rows, measured{stage.what, took, reconciles() - evaluated, asked{now.get - before.get, now.list - before.list, now.patch - before.patch}})
	}
	return rows, nil
}

// check holds what docs/development/performance.md promises.
func (*ociWorld) check(rows []measured) error {
	none := asked{}
	switch start, decisions, calm, label := rows[0], rows[1], rows[2], rows[3]; {
	case start.requests.get != identitiesOf:
		return fmt.Errorf("%w: each Secret is read once, and %d reads were made", errBounds, start.requests.get)
	case decisions.requests != none || calm.requests != none || calm.evaluated != 0:
		return fmt.Errorf("%w: at rest nothing is asked, and there were %v and %v", errBounds, decisions.requests, calm.requests)
	case label.evaluated > 2 || label.requests.patch != 1 || label.requests.get != 0:
		return fmt.Errorf("%w: a label concerns one identity, and %d were evaluated, with %v", errBounds, label.evaluated, label.requests)
	default:
		return nil
	}
}
