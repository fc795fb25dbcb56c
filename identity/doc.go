// Package identity leads from an OCICluster of Cluster API Provider for OCI (CAPOCI) to the OCI principal that the
// cluster may use, as CAPOCI's proposal of cluster level identity describes it: a Resolver returns a
// ConfigurationProvider of OCI's SDK, from which a controller creates its clients.
//
//	resolver := identity.NewResolver(identity.LiveReaders(mgr.GetAPIReader()), identity.Options{
//		Policy: identity.Policy{SecretNamespaces: []string{"secret-namespace"}, TrustedNamespaces: []string{"test"}},
//	})
//	provider, err := resolver.ConfigurationProvider(ctx, cluster.Namespace, cluster.Spec.IdentityRef)
//
// An error that is a RefusedError says that the cluster may not use the principal, or that there is none, and what to
// do about it. After any other error it is not known, and the same question may have an answer later.
//
// The rules are pure: Resolve says whether a cluster may use an identity, Policy what an administrator allows, and
// ParseCredential whether a Secret has an API key. No error and no printed value has anything of a key.
package identity
