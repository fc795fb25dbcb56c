// Package rancher is Rancher's side of an import: its settings, the registration tokens that it
// makes, and the manifest of its agent. It knows nothing of CAPI or of workload clusters.
//
// What has a name of its own is returned as *outcome.Problem, with a message that says what to do.
// No error, log value or formatted value of this package holds a token or a URL with one.
package rancher
