// Package workload is access to workload clusters, which are not trusted: kubeconfigs from any Secret, reduced to
// what is harmless, and clients that no server can hold up. It knows neither what clusters are for nor what runs
// in them, so nothing of CAPI, of Rancher or of its agent.
//
// What has a name of its own is returned as *outcome.Problem, with a message that says what to do.
// No error, log value or formatted value of this package holds a credential.
package workload
