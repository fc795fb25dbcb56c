// Package edge connects a management cluster to a Rancher in another cluster: Archelon runs where CAPI is, and reaches
// Rancher's cluster by a kubeconfig. Connections go out only.
package edge
