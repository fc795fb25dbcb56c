// Package identity answers which OCI principal a cluster may use, and shows on each OCIClusterIdentity whether it works
// and who uses it.
//
// The rules are those of the module identity, and pure: identity.Resolve says whether a cluster may use an identity,
// identity.ParseCredential whether a Secret holds an API key, and Decide here what the conditions of an identity are.
// Reconciler is the controller: observe, decide, act, publish. Checker asks OCI about clusters beside it, and both it
// and the import look at what Checker knows.
//
// Caches. Identities, OCIClusters and OCIManagedClusters come from the manager's cache. The metadata of Namespaces and
// of Secrets come from a cache of the controller's own. Scope.Watches has the limits of both: Secrets of the namespaces
// alone that Policy names. The data of a Secret is read by a get when its metadata has changed, and what was found is
// remembered without the key.
package identity
