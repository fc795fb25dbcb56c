// Package translation creates an OCIClusterIdentity and its principal Secret for each of Rancher's cloud
// credentials for OCI, has them follow the credential, and removes them when the credential is gone and
// no cluster uses the identity.
//
// The rules are pure: Translate turns the data of a credential into that of a principal Secret, Decide says what is to
// be done. Reconciler is the controller: observe, decide, act, publish. Credential, Secret and identity have the same
// name, so a request is a name, and there is nothing to look for.
//
// What was created for a credential has its UID in a label. Whatever lacks the label is never changed or deleted, and
// neither is a credential but for two annotations. There is no finalizer: what is left of a credential is found by the
// label.
//
// Caches. Identities come from the manager's cache. The metadata of Secrets come from a cache of the controller's own,
// of two namespaces. The data of Secrets are read by a get when their metadata have changed, compared, and forgotten.
package translation
