// Package workload is access to workload clusters, which are not trusted: kubeconfigs reduced to
// what is harmless, clients that no server can hold up, and Rancher's agent in such a cluster. It
// knows nothing of CAPI or of Rancher's side.
//
// What has a name of its own is returned as *outcome.Problem, with a message that says what to do.
// No error, log value or formatted value of this package holds a credential.
package workload
