// Package hub imports from many management clusters into the Rancher of this cluster. Each management cluster is
// registered by a Secret with its kubeconfig. multicluster-runtime's own provider connects to it; what runs for it
// runs apart from all others.
package hub
