package setup

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	oci "github.com/archelon-io/archelon/identity"
	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/identity"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/shard"
)

// identityPolicy is what an administrator allows OCI identities.
func identityPolicy(opts options.Identity) oci.Policy {
	return oci.Policy{
		SecretNamespaces: opts.SecretNamespaces, TrustedNamespaces: opts.TrustedNamespaces, RefuseOpen: opts.RefuseOpen,
	}
}

func identityScope(opts *options.Options, namespaces shard.Scope) identity.Scope {
	return identity.Scope{Shard: namespaces, Policy: identityPolicy(opts.Identity)}
}

// IdentityResolver says which principals clusters in some namespaces may use.
func IdentityResolver(opts *options.Options, namespaces shard.Scope, cached identity.Readers, live client.Reader) *identity.Resolver {
	return &identity.Resolver{
		Cached: cached, Live: live, Scope: identityScope(opts, namespaces),
	}
}

// setupIdentity adds the controller of OCI identities. Its caches are filled first: the import asks it from then on.
func (p *parts) setupIdentity(ctx context.Context, env controller.Env) error {
	scope := identityScope(p.opts, p.place.claim.Scope)
	for _, watch := range scope.Watches() {
		from := env.Manager.GetCache()
		if watch.Own {
			from = env.Own
		}
		if _, err := from.GetInformer(ctx, watch.Object); err != nil {
			return ignoreStop(ctx, fmt.Errorf("filling the caches of OCI identities: %w", err))
		}
	}
	meters, err := identity.NewMetrics(metrics.Registry)
	if err != nil {
		return fmt.Errorf("registering the metrics of OCI identities: %w", err)
	}
	verifier, err := newVerifier(p.opts.Identity)
	if err != nil {
		return err
	}
	var asksKeys *identity.Verifier
	if p.opts.Identity.Verify {
		asksKeys = verifier
	}
	resolver := IdentityResolver(
		p.opts, p.place.claim.Scope, identity.Readers{Objects: env.Manager.GetCache(), Metadata: env.Own}, env.Manager.GetAPIReader(),
	)
	if p.opts.Identity.VerifyClusters {
		resolver.Checker = &identity.Checker{
			Verifier: verifier, Resolver: resolver, Hosts: p.opts.Identity.VerifyHosts, Metrics: meters,
		}
	}
	reconciler := &identity.Reconciler{
		Client: env.Manager.GetClient(), Resolver: resolver, Recorder: env.Manager.GetEventRecorder(identity.ControllerName),
		Metrics: meters, Verifier: asksKeys, Checker: resolver.Checker, Notify: p.principals.notify,
	}
	if err := reconciler.SetupWithManager(ctx, env.Manager, identity.Options{
		Concurrency: p.opts.Concurrency, Metadata: env.Own,
	}); err != nil {
		return err
	}
	p.principals.resolver.Store(resolver)
	return nil
}

// newVerifier returns what asks OCI, nil if nothing is to.
func newVerifier(opts options.Identity) (*identity.Verifier, error) {
	if !opts.Verify && !opts.VerifyClusters {
		return nil, nil //nolint:nilnil // nothing is to ask
	}
	asks := identity.VerifierOptions{
		Endpoint: opts.VerifyEndpoint, Timeout: opts.VerifyTimeout, DefaultRegion: opts.DefaultRegion,
	}
	if opts.VerifyCAFile != "" {
		var err error
		if asks.TrustedCAs, err = os.ReadFile(opts.VerifyCAFile); err != nil {
			return nil, fmt.Errorf("reading --oci-verify-ca-file: %w", err)
		}
	}
	return identity.NewVerifier(asks)
}

// principals joins the import and the controller of OCI identities, which know nothing of each other.
type principals struct {
	resolver atomic.Pointer[identity.Resolver]
	changed  atomic.Pointer[func(kind string, infrastructure types.NamespacedName)]
}

// Permits implements importer.Principals.
func (p *principals) Permits(ctx context.Context, cluster *clusterv1.Cluster) (note string, err error) {
	return p.resolver.Load().Permits(ctx, cluster)
}

// Subscribe implements importer.Principals.
func (p *principals) Subscribe(changed func(kind string, infrastructure types.NamespacedName)) {
	p.changed.Store(&changed)
}

// notify tells the import. Before it listens, it has yet to look at all clusters.
func (p *principals) notify(kind string, infrastructure types.NamespacedName) {
	if changed := p.changed.Load(); changed != nil {
		(*changed)(kind, infrastructure)
	}
}
